//! Two named barriers of one name.
mod support;
use support::*;

type Twice = SmemPlan<(Buffers, NamedBarrier<Load, Work, Meet>, NamedBarrier<Work, Load, Meet>)>;
const BYTES: u32 = Twice::BYTES;

fn main() {}
