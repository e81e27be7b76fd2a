//! The grid throttle: CTAs of a grid wait for one another after each step. (CUTLASS has no equivalent.)
//!
//! In every round another CTA is late. The recorded times show whether the others waited for it.

use isa::kernel;
use isa::slice::DeviceSliceMut;
use isa::{misc, sreg};
use pipeline::grid::Throttle;
use pipeline::prelude::*;
use pipeline::raw::Memory;

names! { Nothing = "nothing" }
roles! { Load = 1 x 40 registers, Other = 1 x 40 registers }

type Plan = SmemPlan<(Memory<128, Nothing>,)>;
type ThisCta = Cta<(Load, Other), Cluster<1, 1>, Plan>;
/// Delay of the late CTA in nanoseconds.
const LATE_NS: u32 = 8_000;

/// Runs `rounds` steps in epochs of one step. For each epoch and CTA, `times` gets the clock before the step, and when the
/// next step has waited for all CTAs.
#[kernel]
pub fn throttle(cta: ThisCta, all: Throttle<'_>, times: DeviceSliceMut<u32>, rounds: u32) {
    let (cta, _memory) = cta.init();
    let at = cta.coord();
    let (own, ctas) = (at.cluster_id(), at.clusters());
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut throttle = all.by(&one, Throttle::epochs(rounds, 1), 1);
                for round in 0..rounds {
                    if round % ctas == own {
                        misc::nanosleep(LATE_NS);
                    }
                    if round + 1 < rounds {
                        let place = 2 * (round * ctas + own);
                        times.set(place as usize, sreg::globaltimer() as u32);
                    }
                    throttle.step();
                    if round > 0 {
                        let place = 2 * ((round - 1) * ctas + own) + 1;
                        times.set(place as usize, sreg::globaltimer() as u32);
                    }
                }
                throttle.tail();
            });
        },
        |_| {},
    );
}
