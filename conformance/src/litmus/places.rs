//! Special registers.

use super::Litmus;
use crate::bench::Bench;
use crate::kernels::places::*;
use crate::log::Log;
use host::Error;
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[Litmus {
    name: "special registers: CTA, cluster, grid",
    says: "A CTA's rank in its cluster counts x first; clusters tile the grid; without clusters each \
           CTA is one.",
    run: registers,
    refused: None,
}];

fn registers(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases: [(&KernelDesc, [u32; 3]); 5] = [
        (&places_alone::DESC, [5, 1, 1]),
        (&places_alone::DESC, [2, 3, 2]),
        (&places_2x1x1::DESC, [6, 2, 1]),
        (&places_2x2x1::DESC, [4, 2, 3]),
        (&places_1x2x4::DESC, [3, 4, 4]),
    ];
    for (desc, grid) in cases {
        let ctas: u32 = grid.iter().product();
        let have = bench.observe_desc(desc, grid, (ctas * WORDS) as usize, vec![])?;
        let cluster = desc.meta.cluster;
        for (i, have) in (0..ctas).zip(have.chunks_exact(WORDS as usize)) {
            let at = [i % grid[0], i / grid[0] % grid[1], i / (grid[0] * grid[1])];
            let inside: [u32; 3] = std::array::from_fn(|d| at[d] % cluster[d]);
            let rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2]);
            let last = desc.meta.threads - 1;
            let want = [
                &[last, 0, 0],
                &at[..],
                &[desc.meta.threads, 1, 1],
                &grid,
                &[rank, cluster.iter().product()],
                &inside,
                &cluster,
                &std::array::from_fn::<u32, 3, _>(|d| at[d] / cluster[d]),
                &std::array::from_fn::<u32, 3, _>(|d| grid[d] / cluster[d]),
                &[last % 32 + 100 * (last / 32), SMEM, 1, 7],
            ]
            .concat();
            log.part(format!("CTA {at:?} of {grid:?} in clusters of {cluster:?}"));
            log.exactly(have, want);
        }
    }
    Ok(())
}
