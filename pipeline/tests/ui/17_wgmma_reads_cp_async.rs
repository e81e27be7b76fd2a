//! A ring that `cp.async` fills through the generic proxy, and that wgmma would read through the
//! async one.
mod support;
use support::*;

type CopiedOperands = SmemPlan<(Ring<2, Operands, CpAsync<Load>, Mma<Work>, Main, Alone>,)>;

fn kernel(cta: ThisCta<CopiedOperands>) {
    let (cta, (ring,)) = cta.init();
    cta.specialize(|load| ring.producer.by(&load).tail(), |_work| {});
}

fn main() {}
