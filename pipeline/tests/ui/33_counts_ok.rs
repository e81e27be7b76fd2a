//! Counts that an mbarrier holds.
use crate::support::*;
use warpipe_pipeline::raw::{Arrivals, Barriers, Cta as OfCta, MAX_COUNT};

#[test]
fn up_to_the_greatest() {
    const MOST: u32 = SmemPlan::<(Barriers<2, MAX_COUNT, OfCta, Arrivals, Raw>,)>::BYTES;
    const ORDER: u32 = SmemPlan::<(LoadOrderBarrier<Order, 3>,)>::BYTES;
    assert_eq!((MOST, ORDER), (16, 8));
    assert_eq!(MAX_COUNT, 1048575);
}
