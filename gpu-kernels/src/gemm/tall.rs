//! The main loop of tiles of 256 rows, which two warp groups divide by rows.
#![forbid(unsafe_code)]

use super::config::*;
use super::kernel::rows_above;
use super::output::EpilogueTiles;
use super::scheduler::TileScheduler;
use isa::wgmma::{M64, Shape};
use pipeline::cta::Condition;
use pipeline::grid::Part;
use pipeline::mma::{GROUP_ROWS, MmaStage, TallAccumulator};
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::tile::{EpilogueElement, TileShape};

/// All warp groups multiply each tile together, `BLOCKS` blocks of 64 rows each, and store it before they begin the next
/// one. (CUTLASS `KernelTmaWarpSpecializedCooperative` with a tile of 256 rows.)
///
/// [`Cooperative`](super::kernel::Cooperative) has one block for each warp group, so its tiles have up to 192 rows. With two
/// blocks, 256 x 112 is a tile: with swap_ab, 129 of them cover a D of 336 x 10936, which is one wave. Such a kernel reads no C.
/// A build refuses a tile of A that has not 64 `BLOCKS` rows for each warp group.
pub struct CooperativeTall<const BLOCKS: usize, const BN: usize>;

impl<G: Config, const BLOCKS: usize, const BN: usize> Mainloop<G> for CooperativeTall<BLOCKS, BN>
where
    Stage<G>: MmaStage<BN>,
    M64<BN>: Shape,
{
    type Readers = Mma<G::Math>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<{ 2 * GROUP_ROWS }>;
    type Turns = ();
    type SourceTurns = ();
    const SOURCE_ROWS: usize = BLOCKS;
    const SOURCE_COLS: usize = EpilogueTiles::<G::Output, BN>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        EpilogueTiles::<G::Output, BN>::column(index)
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
                "warp groups with several blocks of rows read no C: a tile of C has 64 rows for each group"
            );
        }
        let group = out.group;
        let rows = <G::A as TileShape>::ROWS;
        let origin = |work: &_| tiles.origin(work, rows, BN).below(BLOCKS * rows_above(group));
        for work in tiles.clone() {
            let begun = out.begin(BLOCKS * GROUP_ROWS, BN, origin(&work));
            let mut sum = TallAccumulator::<BN, BLOCKS>::start(group, operands.wait());
            for _ in 1..work.k_tiles {
                sum.next(operands.wait()).release();
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
