//! Main loops for 8-bit floats whose sums are promoted: the tensor cores sum one k tile, 128 along K, and the warp group
//! adds that to its own f32 sums. (CUTLASS: the kernel schedules without `FP8FastAccum`; torch:
//! `use_fast_accum=False`.)
//!
//! The main loops of [`kernel`](super::kernel) keep all of K in the tensor cores. For 8-bit floats that is fast
//! accumulation, because the tensor cores keep such sums short ([`isa::wgmma`]).
#![forbid(unsafe_code)]

use super::config::*;
use super::kernel::rows_above;
use super::output::EpilogueTiles;
use super::scheduler::TileScheduler;
use isa::misc::nounroll;
use isa::wgmma::{M64, Shape};
use pipeline::grid::Part;
use pipeline::mma::{AlternatingAccumulator, GROUP_ROWS, PromoteTiles, PromotedAccumulator};
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::tile::EpilogueElement;

/// [`Cooperative`](super::kernel::Cooperative) with promoted sums, for tiles of up to 144 columns: each k tile is one part, and
/// is added while the next one is multiplied.
pub struct PromotedCooperative<const BM: usize, const BN: usize>;

impl<G: Config, const BM: usize, const BN: usize> Mainloop<G> for PromotedCooperative<BM, BN>
where
    Stage<G>: PromoteTiles<StageReaders<G>>,
    M64<BN>: Shape,
{
    type Readers = StageReaders<G>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<BM>;
    type Turns = ();
    type SourceTurns = ();
    const PROMOTES: bool = true;
    const SOURCE_ROWS: usize = 1;
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
        let group = out.group;
        let origin = |work: &_| tiles.origin(work, BM, BN).below(rows_above(group));
        for work in tiles.clone() {
            let begun = out.begin(GROUP_ROWS, BN, origin(&work));
            let mut even = AlternatingAccumulator::<BN>::start(group, operands.wait());
            for _ in 0..(work.k_tiles - 1) / 2 {
                nounroll();
                let (odd, slot) = even.next(operands.wait());
                slot.release();
                let (next, slot) = odd.next(operands.wait());
                slot.release();
                even = next;
            }
            let (sum, last) = if work.k_tiles.is_multiple_of(2) {
                let (odd, slot) = even.next(operands.wait());
                slot.release();
                odd.finish()
            } else {
                even.finish()
            };
            last.release();
            tiles.fixup(group, &work, Part::whole(), sum, |sum| {
                out.store_at_once(&begun, sum, origin(&work));
            });
        }
    }
}

/// A promoted main loop with an overlapped epilogue: [`SplitN`](super::kernel::SplitN) for 8-bit floats.
///
/// The tile has `BN` columns in `P` parts of `W`. Its first `L` = `BN` - `W` columns are stored while the last part is
/// multiplied, and the last `W` columns while the first part of the next tile is.
pub struct PromotedSplitN<
    const BM: usize,
    const BN: usize,
    const P: usize,
    const L: usize,
    const W: usize,
>;

impl<G: Config, const BM: usize, const BN: usize, const P: usize, const L: usize, const W: usize>
    Mainloop<G> for PromotedSplitN<BM, BN, P, L, W>
where
    Stage<G>: PromoteTiles<StageReaders<G>>,
    M64<BN>: Shape,
    M64<L>: Shape,
    M64<W>: Shape,
{
    type Readers = StageReaders<G>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<BM>;
    type Turns = ();
    type SourceTurns = ();
    const PROMOTES: bool = true;
    const SOURCE_ROWS: usize = 1;
    const SOURCE_COLS: usize =
        EpilogueTiles::<G::Output, L>::COUNT + EpilogueTiles::<G::Output, W>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        let left = EpilogueTiles::<G::Output, L>::COUNT;
        if index < left {
            EpilogueTiles::<G::Output, L>::column(index)
        } else {
            L + EpilogueTiles::<G::Output, W>::column(index - left)
        }
    }

    // In straight lines, as `SplitN` is, and for the same reason.
    #[isa::forceinline]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        _turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        let group = out.group;
        let origin = |work: &_| tiles.origin(work, BM, BN).below(rows_above(group));
        let mut works = tiles.clone();
        let Some(mut work) = works.next() else { return };
        // The outer loop starts an accumulator with nothing in flight: the first one, and the one after a split tile.
        loop {
            let mut sum = PromotedAccumulator::<P, W>::start(group, operands.wait());
            loop {
                let begun = out.begin(GROUP_ROWS, BN, origin(&work));
                for _ in 1..work.k_tiles {
                    nounroll();
                    sum.next(|| operands.wait()).release();
                }
                if !tiles.is_data_parallel(&work) {
                    let (sum, last) = sum.finish::<BN>();
                    last.release();
                    tiles.fixup(group, &work, Part::whole(), sum, |sum| {
                        out.store_at_once(&begun, sum, origin(&work));
                    });
                    let Some(next) = works.next() else { return };
                    work = next;
                    break;
                }
                let (left, rest) = sum.finish_left::<L>();
                out.store_at_once(&begun, left, origin(&work));
                let (right, last) = rest.finish();
                last.release();
                let Some(next) = works.next() else {
                    return out.store_at_once(&begun, right, origin(&work).right_by(L));
                };
                sum = PromotedAccumulator::start(group, operands.wait());
                out.store_at_once(&begun, right, origin(&work).right_by(L));
                work = next;
            }
        }
    }
}
