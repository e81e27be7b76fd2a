//! Running a kernel on the SM model, and looking at its data.
#![allow(dead_code, unused_imports)]

use pipeline::cta::Role;
use pipeline::ring;

include!("model.rs");

/// One thread of the group loads `steps` tiles of a tensor into a ring, from top to bottom.
pub fn load_down<const STAGES: usize, T: TileShape, L: Role, R: ring::Readers, N: ring::Name>(
    load: Warpgroup<L, Cluster<1, 1>>,
    end: ring::ProducerEnd<STAGES, (T,), Tma, R, N, Cluster<1, 1>>,
    from: &TensorMap<T>,
    steps: u32,
) {
    load.elect(|one| {
        let mut loads = end.by(&one);
        for step in 0..steps {
            loads.acquire().load((from.tile(step * T::ROWS as u32, 0, Peers::ALONE),));
        }
        loads.tail();
    });
}
