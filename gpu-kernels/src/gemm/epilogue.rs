//! Epilogues: from a warp group's sums to rows of D.
#![forbid(unsafe_code)]

use super::GemmParams;
use super::cooperative::{Addend, C_STAGES, STORE_DEPTH};
use super::scheduler::{TileOrigin, TileScheduler, WorkTile};
use isa::wgmma::{M64, Shape};
use pipeline::mma::TurnedStrips;
use pipeline::prelude::*;
use pipeline::ring::{Consumer, OrdinaryReads};
use pipeline::store::{FreePanel, Stores};
use pipeline::tile::TileShape;

/// The panels of C for a tile of `BM` rows, as `R` reads them.
pub type CPanels<O, R, const BM: usize, K> =
    Consumer<C_STAGES, (<O as Panels>::Panel<BM>,), R, Addend, K>;

/// Where a warp group's results go, and what is added to them on the way.
pub struct Output<'g, O: Panels, R: OrdinaryReads, const BM: usize, K, P> {
    /// The warp group.
    pub group: &'g Warpgroup<R::Role, K>,
    /// The panels of C, if there is one.
    pub addend: Option<CPanels<O, R, BM, K>>,
    /// The buffers that D's panels leave from.
    pub stores: Stores<'g, O, STORE_DEPTH, R::Role, K>,
    /// D.
    pub d: &'g TensorMap<P>,
    /// For alpha and beta.
    pub p: &'g GemmParams,
}

impl<O, R, const BM: usize, K, P> Output<'_, O, R, BM, K, P>
where
    O: Strips,
    R: OrdinaryReads,
    K: ClusterShape,
{
    /// Does with a part of a tile's sums what the work asks for: gives them to the CTA that finishes
    /// the tile, or adds what others have summed and writes them.
    #[inline(always)]
    pub fn settle<E, const BN: usize, const N: usize>(
        &mut self,
        tiles: &TileScheduler<BM, BN, K>,
        work: &WorkTile,
        partials: &Partials<'_>,
        part: Part<N>,
        mut sum: Accumulator<N>,
    ) where
        E: Epilogue<O, N, Panel = P>,
        M64<N>: Shape,
    {
        if !work.finishes() {
            return partials.give_part(self.group, tiles.cta(), part, sum);
        }
        for other in tiles.others(work) {
            partials.take_part(self.group, other, part, &mut sum);
        }
        self.write::<E, _, _>(tiles, work, part, sum);
    }

    /// Writes a part of a tile's sums.
    #[inline(always)]
    pub fn write<E, const BN: usize, const N: usize>(
        &mut self,
        tiles: &TileScheduler<BM, BN, K>,
        work: &WorkTile,
        part: Part<N>,
        sum: Accumulator<N>,
    ) where
        E: Epilogue<O, N, Panel = P>,
        M64<N>: Shape,
    {
        let rows = self.group.index() as usize * GROUP_ROWS;
        let at = tiles.origin(work).below(rows).right_by(part.first());
        E::write_at_once(self, sum, at);
    }
}

type Free<'s, O, M, K, const PANELS: usize> = FreePanel<'s, O, STORE_DEPTH, M, K, PANELS>;

/// Columns of a strip: what a warp writes at once.
const STRIP: usize = 16;

/// Which way a warp group's 64 x `BN` sums lie in D.
pub trait Epilogue<O: Strips, const BN: usize> {
    /// Whether the operands are to be exchanged.
    const TURNED: bool;
    /// Columns of the sums that one TMA store writes.
    const COLS: usize;
    /// What it writes of D.
    type Panel: TileShape<Element = O>;

    /// Puts a strip of the sums into its panel.
    fn put<M: Role, K: ClusterShape, const PANELS: usize>(
        out: &mut Free<'_, O, M, K, PANELS>,
        strip: usize,
        x: [f32; 8],
    );

    /// Row and column in D of the sums from row `row` and column `col` of the kernel's on.
    fn place(row: u32, col: u32) -> (u32, u32);

    /// Panels of a tile.
    const PANELS: usize = {
        assert!(
            BN >= Self::COLS && Self::COLS.is_multiple_of(STRIP) && BN.is_multiple_of(STRIP),
            "a tile is at least a panel wide, and both are multiples of 16 columns"
        );
        BN.div_ceil(Self::COLS)
    };

    /// First column of a panel in the tile.
    ///
    /// In a tile that is no multiple of panels the first one is that of the last columns. The last
    /// one shares some of them, which are written twice: it waits for the first.
    #[inline(always)]
    fn start(panel: usize) -> usize {
        match (BN.is_multiple_of(Self::COLS), panel) {
            (true, _) => panel * Self::COLS,
            (false, 0) => BN - Self::COLS,
            (false, _) => (panel - 1) * Self::COLS,
        }
    }

    /// The same as [`write`](Self::write), with all store buffers at once if the sums fill them and
    /// nothing is added: fewer meetings, for groups whose last stores have long been read.
    #[inline(always)]
    fn write_at_once<R: OrdinaryReads, K: ClusterShape, const BM: usize>(
        out: &mut Output<'_, O, R, BM, K, Self::Panel>,
        mut sum: Accumulator<BN>,
        tile: TileOrigin,
    ) where
        M64<BN>: Shape,
    {
        let fills = const { BN == STORE_DEPTH * Self::COLS && !Self::TURNED };
        if !fills || out.addend.is_some() {
            return Self::write(out, sum, tile);
        }
        sum.scale(out.p.alpha);
        let mut panels = out.stores.acquire_all();
        for strip in 0..BN / STRIP {
            Self::put(&mut panels, strip, sum.strip(strip));
        }
        let (row, col) = Self::place(tile.row, tile.col);
        panels.publish().store_rows(out.d, row, col);
    }

    /// Scales the sums, adds C if there is one, rounds, and stores them, the first at `tile`.
    #[inline(always)]
    fn write<R: OrdinaryReads, K: ClusterShape, const BM: usize>(
        out: &mut Output<'_, O, R, BM, K, Self::Panel>,
        mut sum: Accumulator<BN>,
        tile: TileOrigin,
    ) where
        M64<BN>: Shape,
    {
        let Output { group, addend, stores, d, p } = out;
        sum.scale(p.alpha);
        for panel in 0..Self::PANELS {
            let first = Self::start(panel);
            let addend = addend.as_mut().map(|panels| panels.wait());
            let mut out = stores.acquire();
            for strip in 0..Self::COLS / STRIP {
                let mut x = sum.strip(first / STRIP + strip);
                if let Some(addend) = &addend {
                    let c = addend.strip(group, strip);
                    for i in 0..8 {
                        x[i] += p.beta * c[i];
                    }
                }
                Self::put(&mut out, strip, x);
            }
            if let Some(addend) = addend {
                addend.release();
            }
            if !BN.is_multiple_of(Self::COLS) && panel == Self::PANELS - 1 {
                out.wait_written(Self::PANELS - 2);
            }
            let (row, col) = Self::place(tile.row, tile.col + first as u32);
            out.publish().store_rows(d, row, col);
        }
    }
}

/// D's rows are the tile's rows: the group writes 64 of them, panel by panel.
pub struct AlongRows;

impl<O: Strips, const BN: usize> Epilogue<O, BN> for AlongRows {
    const TURNED: bool = false;
    const COLS: usize = O::PANEL_COLS;
    type Panel = O::Panel<GROUP_ROWS>;

    #[inline(always)]
    fn put<M: Role, K: ClusterShape, const PANELS: usize>(
        out: &mut Free<'_, O, M, K, PANELS>,
        strip: usize,
        x: [f32; 8],
    ) {
        out.put(strip, x);
    }

    #[inline(always)]
    fn place(row: u32, col: u32) -> (u32, u32) {
        (row, col)
    }
}

/// D's rows are the tile's columns. For few rows of D: the roles of A and B are exchanged, so that
/// the 64 rows of a wgmma are 64 of D's many columns, and its `BN` columns D's few rows.
pub struct AlongColumns;

impl<O: TurnedStrips, const BN: usize> Epilogue<O, BN> for AlongColumns {
    const TURNED: bool = true;
    const COLS: usize = BN;
    type Panel = O::Panel<BN>;

    #[inline(always)]
    fn put<M: Role, K: ClusterShape, const PANELS: usize>(
        out: &mut Free<'_, O, M, K, PANELS>,
        strip: usize,
        x: [f32; 8],
    ) {
        out.put_turned(strip, x);
    }

    #[inline(always)]
    fn place(row: u32, col: u32) -> (u32, u32) {
        (col, row)
    }
}
