//! The cluster's barrier and peers' shared memory.

use super::Litmus;
use crate::bench::Bench;
use crate::kernels::clusters::*;
use crate::log::Log;
use host::Error;
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "barrier.cluster: arrival and wait apart",
        says: "What any thread of the cluster wrote before its arrive.release, all read after their \
               wait.acquire, however often.",
        run: rounds,
        refused: None,
    },
    Litmus {
        name: "barrier.cluster: relaxed, with a fence",
        says: "A relaxed arrival orders nothing by itself; with a fence at cluster scope before it, \
               the waiters read what was written.",
        run: pass_on,
        refused: None,
    },
];

/// Clusters of a launch.
const CLUSTERS: u32 = 2;

fn rounds(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let sizes: [(&KernelDesc, u32); 3] =
        [(&cluster_rounds_2::DESC, 2), (&cluster_rounds_4::DESC, 4), (&cluster_rounds_8::DESC, 8)];
    for (desc, size) in sizes {
        let ctas = CLUSTERS * size;
        let count = (2 * ctas * ROUNDS) as usize;
        let have = bench.observe_desc(desc, [ctas, 1, 1], count, vec![])?;
        log.part(format!("clusters of {size}: sum of the peers' words, own work, per round"));
        log.exactly(
            &have,
            (0..ctas * ROUNDS).flat_map(|i| {
                let round = i % ROUNDS;
                [(0..size).map(|peer| 100 * round + peer).sum(), round]
            }),
        );
    }
    Ok(())
}

fn pass_on(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let sizes: [(&KernelDesc, u32); 3] = [
        (&cluster_pass_on_2::DESC, 2),
        (&cluster_pass_on_4::DESC, 4),
        (&cluster_pass_on_8::DESC, 8),
    ];
    for (desc, size) in sizes {
        let ctas = CLUSTERS * size;
        let have = bench.observe_desc(desc, [ctas, 1, 1], 32 * ctas as usize, vec![])?;
        log.part(format!("clusters of {size}: what the left neighbour wrote here"));
        log.exactly(
            &have,
            (0..32 * ctas).map(|i| 1000 * ((i / 32 % size + size - 1) % size) + i % 32),
        );
    }
    Ok(())
}
