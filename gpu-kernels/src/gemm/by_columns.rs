//! The main loop of tiles whose columns are divided among the warp groups.
//!
//! A wgmma of 64 rows reads 64 rows of A and all `N` rows of B from shared memory. Two warp groups of three blocks of 64 rows
//! and 104 columns hold a tile of 192 x 208 in 156 registers of a thread. Three warp groups of 64 x 208 would have 128
//! registers each, which ptxas finds too few for a wgmma of 208 columns.
#![forbid(unsafe_code)]

use super::config::*;
use super::output::EpilogueTiles;
use super::scheduler::TileScheduler;
use isa::wgmma::{M64, Shape};
use pipeline::cta::Condition;
use pipeline::grid::Part;
use pipeline::mma::{GROUP_ROWS, MmaTiles, TallAccumulator};
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::tile::EpilogueElement;

/// Two warp groups multiply each tile together: of its 64 `BLOCKS` rows and 2 `HALF` columns, each has all rows and half of the
/// columns. They store it before they begin the next one.
///
/// This is for tiles that are larger than [`Cooperative`](super::kernel::Cooperative) can hold: 192 x 208, and 128 x 272. Such a
/// kernel reads no C.
///
/// (CUTLASS `KernelTmaWarpSpecializedCooperative` with an `AtomLayoutMNK` of 1 x 2 x 1.)
pub struct CooperativeByColumns<const BLOCKS: usize, const HALF: usize>;

impl<G: Config, const BLOCKS: usize, const HALF: usize> Mainloop<G>
    for CooperativeByColumns<BLOCKS, HALF>
where
    Stage<G>: MmaTiles,
    M64<HALF>: Shape,
{
    type Readers = Mma<G::Math>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<{ 2 * GROUP_ROWS }>;
    type Turns = ();
    type SourceTurns = ();
    const SOURCE_ROWS: usize = BLOCKS;
    const SOURCE_COLS: usize = EpilogueTiles::<G::Output, HALF>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        EpilogueTiles::<G::Output, HALF>::column(index)
    }

    #[isa::forceinline]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        _turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        const {
            assert!(
                !G::ReadsC::HOLDS,
                "warp groups that divide the columns read no C: they would read different tiles of it"
            );
        }
        let group = out.group;
        let left = group.index() as usize * HALF;
        let origin = |work: &_| tiles.origin(work, BLOCKS * GROUP_ROWS, 2 * HALF).right_by(left);
        for work in tiles.clone() {
            let begun = out.begin(BLOCKS * GROUP_ROWS, HALF, origin(&work));
            let first = operands.wait().by_columns();
            let mut sum = TallAccumulator::<HALF, BLOCKS>::start(group, first);
            for _ in 1..work.k_tiles {
                sum.next(operands.wait().by_columns()).release();
            }
            let (sum, last) = sum.finish();
            last.release();
            for (block, sum) in sum.blocks().into_iter().enumerate() {
                tiles.fixup(group, &work, Part::block(block, BLOCKS), sum, |sum| {
                    out.store(&begun, sum, origin(&work).below(block * GROUP_ROWS));
                });
            }
        }
    }
}
