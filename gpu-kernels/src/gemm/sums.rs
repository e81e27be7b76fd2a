//! How a warp group multiplies its tiles, and when it writes them.
#![forbid(unsafe_code)]

use super::epilogue::{Epilogue, Output};
use super::scheduler::TileScheduler;
use isa::wgmma::{M64, Shape};
use pipeline::mma::one_by_one;
use pipeline::mma::{MmaStage, MmaTiles};
use pipeline::prelude::*;
use pipeline::ring::{Consumer, MmaReaders, Name, OrdinaryReads};
use pipeline::tile::TileShape;

/// An order in which the columns of a tile are multiplied and written.
pub trait Columns<O: Strips, S, E, const BN: usize> {
    /// What a TMA store writes of D.
    type Panel: TileShape<Element = O>;
    /// Panels of a tile.
    const PANELS: usize;
    /// First column of a panel in the tile: in the order in which they are written.
    fn start(panel: usize) -> usize;

    /// Sums all work of a warp group, and does with it what it asks for.
    fn sum<const STAGES: usize, const BM: usize, W, N, R, K>(
        tiles: &TileScheduler<BM, BN, K>,
        operands: Consumer<STAGES, S, W, N, K>,
        partials: &Partials<'_>,
        out: &mut Output<'_, O, R, BM, K, Self::Panel>,
    ) where
        W: MmaReaders,
        N: Name,
        R: OrdinaryReads<Role = W::Role>,
        K: ClusterShape;
}

/// All columns at once: a tile is written before the next one is begun.
pub struct Whole;

impl<O, S, E, const BN: usize> Columns<O, S, E, BN> for Whole
where
    O: Strips,
    S: MmaStage<BN>,
    E: Epilogue<O, BN>,
    M64<BN>: Shape,
{
    type Panel = E::Panel;
    const PANELS: usize = E::PANELS;
    #[inline(always)]
    fn start(panel: usize) -> usize {
        E::start(panel)
    }

    #[inline(always)]
    fn sum<const STAGES: usize, const BM: usize, W, N, R, K>(
        tiles: &TileScheduler<BM, BN, K>,
        mut operands: Consumer<STAGES, S, W, N, K>,
        partials: &Partials<'_>,
        out: &mut Output<'_, O, R, BM, K, E::Panel>,
    ) where
        W: MmaReaders,
        N: Name,
        R: OrdinaryReads<Role = W::Role>,
        K: ClusterShape,
    {
        let group = out.group;
        for work in tiles.clone() {
            let mut sum = Accumulator::<BN>::start(group, operands.wait());
            for _ in 1..work.k_tiles {
                sum.next(operands.wait()).release();
            }
            let (sum, last) = sum.finish();
            last.release();
            out.settle::<E, _, _>(tiles, &work, partials, Part::whole(), sum);
        }
    }
}

/// `HALF` columns, then as many to the right of them: the ends of two tiles overlap. While one half is
/// written, the other is multiplied, or the next tile's first one.
///
/// For tiles whose sums take all of a thread's registers, and whose epilogue is long.
pub struct InHalves<const HALF: usize>;

impl<O, S, E, const BN: usize, const HALF: usize> Columns<O, S, E, BN> for InHalves<HALF>
where
    O: Strips,
    S: MmaTiles,
    E: Epilogue<O, HALF>,
    M64<HALF>: Shape,
{
    type Panel = E::Panel;
    const PANELS: usize = {
        assert!(BN == 2 * HALF, "a tile is two halves wide");
        2 * E::PANELS
    };
    #[inline(always)]
    fn start(panel: usize) -> usize {
        HALF * (panel / E::PANELS) + E::start(panel % E::PANELS)
    }

    #[inline(always)]
    fn sum<const STAGES: usize, const BM: usize, W, N, R, K>(
        tiles: &TileScheduler<BM, BN, K>,
        mut operands: Consumer<STAGES, S, W, N, K>,
        partials: &Partials<'_>,
        out: &mut Output<'_, O, R, BM, K, Self::Panel>,
    ) where
        W: MmaReaders,
        N: Name,
        R: OrdinaryReads<Role = W::Role>,
        K: ClusterShape,
    {
        let group = out.group;
        let (l, r) = (Part::left::<HALF>(), Part::right::<HALF>());
        let mut works = tiles.clone();
        let Some(mut work) = works.next() else { return };
        // A sum that begins with nothing in flight, and those that begin while the one before is written.
        loop {
            let mut sum =
                SplitAccumulator::<HALF, HALF>::start(group, operands.wait()).start_right();
            loop {
                for _ in 1..work.k_tiles {
                    sum.next(operands.wait()).release();
                }
                let (left, rest) = sum.finish_left();
                if !tiles.in_turn(&work) {
                    let (right, last) = rest.finish();
                    last.release();
                    one_by_one(left, right, |part, half| {
                        out.settle::<E, _, HALF>(tiles, &work, partials, part, half);
                    });
                    let Some(next) = works.next() else { return };
                    work = next;
                    break;
                }
                out.write::<E, _, HALF>(tiles, &work, l, left);
                let (right, last) = rest.finish();
                last.release();
                let Some(next) = works.next() else {
                    return out.write::<E, _, HALF>(tiles, &work, r, right);
                };
                let started = SplitAccumulator::start(group, operands.wait());
                out.write::<E, _, HALF>(tiles, &work, r, right);
                sum = started.start_right();
                work = next;
            }
        }
    }
}
