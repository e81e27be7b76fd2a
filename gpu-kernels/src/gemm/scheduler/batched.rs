//! The schedulers of batches: the tiles of all matrices are one sequence.
#![forbid(unsafe_code)]

use super::{TileOrigin, TileScheduler, WorkTile};
use crate::gemm::divmod::FastDivmod;
use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterCoord, ClusterShape, Role};
use pipeline::grid::Part;
use pipeline::prelude::*;

/// The kernel argument of [`Batched`].
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct BatchedArgs<A> {
    /// The arguments of the scheduler inside. They count the cluster tiles of all matrices.
    pub inner: A,
    /// Cluster tiles of one matrix.
    pub matrix: FastDivmod,
}

/// The scheduler `S` over the tiles of all matrices of a batch, one matrix after the other.
///
/// `S` distributes the work and does not know of matrices: tiles are data-parallel or split as those of one product are.
/// (CUTLASS: the mode L of `PersistentTileSchedulerSm90`.)
#[derive(Clone)]
pub struct Batched<S> {
    inner: S,
    matrix: FastDivmod,
}

impl<S: Iterator<Item = WorkTile>> Iterator for Batched<S> {
    type Item = WorkTile;

    #[isa::forceinline]
    fn next(&mut self) -> Option<WorkTile> {
        self.inner.next()
    }
}

impl<Cl: ClusterShape, S: TileScheduler<Cl>> TileScheduler<Cl> for Batched<S> {
    type Args = BatchedArgs<S::Args>;
    const SPLITS_K: bool = S::SPLITS_K;

    #[isa::forceinline]
    fn new(at: ClusterCoord<Cl>, args: &Self::Args) -> Self {
        Self { inner: S::new(at, &args.inner), matrix: args.matrix }
    }

    #[isa::forceinline]
    fn origin(&self, work: &WorkTile, bm: usize, bn: usize) -> TileOrigin {
        let (batch, index) = self.matrix.divmod(work.index);
        TileOrigin { batch, ..self.inner.origin(&WorkTile { index, ..*work }, bm, bn) }
    }

    #[isa::forceinline]
    fn is_data_parallel(&self, work: &WorkTile) -> bool {
        self.inner.is_data_parallel(work)
    }

    #[isa::forceinline]
    fn fixup<const N: usize, R: Role>(
        &self,
        group: &Warpgroup<R, Cl>,
        work: &WorkTile,
        part: Part<N>,
        sum: Accumulator<N>,
        epilogue: impl FnOnce(Accumulator<N>),
    ) where
        M64<N>: Shape,
    {
        self.inner.fixup(group, work, part, sum, epilogue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::TileSchedulerParams;
    use crate::gemm::scheduler::StreamK;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Alone = Cluster<1, 1>;

    proptest! {
        /// Each k tile of each tile of each matrix is summed once.
        #[test]
        fn each_matrix_has_all_of_its_tiles(
            tiles_m in 1u32..6, tiles_n in 1u32..6, batch in 1u32..5, k_tiles in 1u32..9, group in 1u32..8,
            clusters in 1u32..20, whole in 0u32..3,
        ) {
            let tiles = tiles_m * tiles_n * batch;
            let streamed = tiles.saturating_sub(whole * clusters);
            let p = TileSchedulerParams::batched([tiles_m, tiles_n, batch], k_tiles, group, clusters, streamed);
            let matrix = FastDivmod::new(tiles_m * tiles_n);
            let mut all = BTreeSet::new();
            for cluster in 0..clusters {
                let inner = StreamK::<Alone>::on_host(Alone::coord(0), cluster, &p);
                let mut scheduler = Batched { inner, matrix };
                while let Some(work) = scheduler.next() {
                    let at = scheduler.origin(&work, 1, 1);
                    prop_assert!(at.row < tiles_m && at.col < tiles_n && at.batch < batch);
                    for k in work.k..work.k + work.k_tiles {
                        prop_assert!(all.insert((at, k)));
                    }
                }
            }
            prop_assert_eq!(all.len() as u32, tiles * k_tiles);
        }
    }
}
