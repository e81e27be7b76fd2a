//! Tiles that are split along K: how many clusters give partials to one.

use gpu_kernels::gemm::{Instance, KernelSchedule};
use pipeline::grid::Partials;

/// Partials of a tile that the kernel loads together. Of a tile in halves it loads those of one half, but promoted sums are whole.
pub(super) fn loaded_together(i: &Instance) -> u32 {
    let halves = i.kernel_schedule == KernelSchedule::SplitN && !i.promotes;
    let columns = if halves { i.bn / 2 } else { i.bn };
    Partials::together(columns as usize) as u32
}

/// Most clusters that store partials for the one that finishes a tile, where `clusters` clusters split the k tiles of
/// `streamed` tiles (`gpu_kernels::gemm::scheduler::StreamK`).
///
/// If the clusters can be divided evenly among the tiles, each tile has n of them, and n - 1 givers. Otherwise the runs of all
/// clusters are equally long and lie end to end. A run that begins inside a tile gives to that tile and may begin the next one,
/// so a tile may have n givers.
pub(super) fn givers(clusters: u64, streamed: u64, k_tiles: u64) -> u32 {
    let small = |number: u64| u32::try_from(number).ok();
    let (Some(clusters), Some(streamed), Some(k_tiles), Some(all)) =
        (small(clusters), small(streamed), small(k_tiles), small(streamed.saturating_mul(k_tiles)))
    else {
        // No kernel has so many k tiles.
        return u32::MAX;
    };
    let runs = clusters.min(all);
    if runs == 0 {
        return 0;
    }
    if runs.is_multiple_of(streamed) {
        return runs / streamed - 1;
    }
    // The first `longer` runs have one extra k tile.
    let (run, longer) = (all / runs, all % runs);
    let beyond = longer * (run + 1);
    let of = |k_tile: u32| {
        if k_tile < beyond { k_tile / (run + 1) } else { longer + (k_tile - beyond) / run }
    };
    // No tile has more.
    let limit = (k_tiles - 1).div_ceil(run);
    let mut most = 0;
    for tile in 0..streamed {
        most = most.max(of((tile + 1) * k_tiles - 1) - of(tile * k_tiles));
        if most == limit {
            break;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::givers;
    use gpu_kernels::gemm::scheduler::{StreamK, TileSchedulerParams};
    use pipeline::cta::Cluster;

    /// The kernels' scheduler says which CTAs give partials to the one that finishes a tile.
    #[test]
    fn givers_are_those_of_the_scheduler() {
        type Alone = Cluster<1, 1>;
        for (clusters, streamed, k_tiles) in [
            (45, 15, 98),
            (60, 15, 98),
            (66, 22, 64),
            (132, 1, 500),
            (7, 3, 2),
            (66, 65, 3),
            (4, 4, 9),
            (44, 11, 12),
            (66, 33, 7),
            (40, 15, 98),
            (132, 5, 20),
            (30, 4, 5),
            (3, 7, 10),
            (66, 64, 1),
        ] {
            let p = TileSchedulerParams::new([streamed, 1], k_tiles, 1, clusters, streamed);
            let peers = |cluster| {
                let scheduler = StreamK::<Alone>::on_host(Alone::coord(0), cluster, &p);
                let works: Vec<_> = scheduler.clone().collect();
                let owned = works.iter().filter(|work| work.computes_epilogue());
                owned.map(|work| scheduler.peers(work).iter().count()).max()
            };
            let most = (0..clusters).filter_map(peers).max().expect("a tile");
            let have = givers(clusters.into(), streamed.into(), k_tiles.into());
            assert_eq!(have as usize, most, "{clusters} {streamed} {k_tiles}");
        }
        assert_eq!(givers(66, 0, 64), 0);
    }
}
