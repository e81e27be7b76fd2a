//! CTAs of a grid that keep pace, tile after tile. (CUTLASS has none.)
//!
//! In every round another CTA comes late. Times say whether the others waited for it.

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
/// How late the late CTA comes.
const LATE_NS: u32 = 8_000;

/// `rounds` tiles, and a meeting between each two. `times` gets each CTA's clock when it is done with a
/// tile and when it begins the next, for each meeting and CTA.
#[kernel]
pub fn throttle(cta: ThisCta, pace: Throttle<'_>, times: DeviceSliceMut<u32>, rounds: u32) {
    let (cta, _memory) = cta.init();
    let at = cta.coord();
    let (own, ctas) = (at.cluster_id(), at.clusters());
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut pace = pace.by(&one, rounds - 1);
                for round in 0..rounds {
                    pace.wait();
                    if round > 0 {
                        let place = 2 * ((round - 1) * ctas + own) + 1;
                        times.set(place as usize, sreg::globaltimer() as u32);
                    }
                    if round % ctas == own {
                        misc::nanosleep(LATE_NS);
                    }
                    if round + 1 < rounds {
                        let place = 2 * (round * ctas + own);
                        times.set(place as usize, sreg::globaltimer() as u32);
                    }
                    pace.arrive();
                }
                pace.tail();
            });
        },
        |_| {},
    );
}
