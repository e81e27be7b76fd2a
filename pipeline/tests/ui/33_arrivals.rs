//! More arrivals expected than an mbarrier counts, and none.
mod support;
use support::*;

use warpipe_pipeline::raw::{Arrivals, Barriers, Cta};
const MANY: u32 = SmemPlan::<(Barriers<1, 1048576, Cta, Arrivals, Raw>,)>::BYTES;
const NONE: u32 = SmemPlan::<(LoadOrderBarrier<Order, 0>,)>::BYTES;

fn main() {}
