//! Epilogues: from a warp group's sums to rows of D.
#![forbid(unsafe_code)]

use super::GemmParams;
use super::cooperative::{Addend, C_STAGES, STORE_DEPTH};
use super::scheduler::TileOrigin;
use isa::wgmma::{M64, Shape};
use pipeline::fragment::TurnedStrips;
use pipeline::prelude::*;
use pipeline::ring::{Consumer, OrdinaryReads};
use pipeline::store::{FreePanel, Stores};
use pipeline::tile::TileShape;

/// The panels of C for a tile of `BM` rows, as `R` reads them.
pub type CPanels<O, R, const BM: usize, K> =
    Consumer<C_STAGES, (<O as Panels>::Panel<BM>,), R, Addend, K>;

type Free<'s, O, M, K> = FreePanel<'s, O, STORE_DEPTH, M, K>;

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
    fn put<M: Role, K: ClusterShape>(out: &mut Free<'_, O, M, K>, strip: usize, x: [f32; 8]);

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

    /// Scales the sums, adds C if there is one, rounds, and stores them, the first at `tile`.
    #[inline(always)]
    fn write<R: OrdinaryReads, K: ClusterShape, const BM: usize>(
        group: &Warpgroup<R::Role, K>,
        sum: &Accumulator<BN>,
        addend: &mut Option<CPanels<O, R, BM, K>>,
        stores: &mut Stores<'_, O, STORE_DEPTH, R::Role, K>,
        d: &TensorMap<Self::Panel>,
        tile: TileOrigin,
        p: &GemmParams,
    ) where
        M64<BN>: Shape,
    {
        for panel in 0..Self::PANELS {
            let first = Self::start(panel);
            let addend = addend.as_mut().map(|panels| panels.wait());
            let mut out = stores.acquire();
            for strip in 0..Self::COLS / STRIP {
                let mut x = sum.strip(first / STRIP + strip).map(|x| p.alpha * x);
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
    fn put<M: Role, K: ClusterShape>(out: &mut Free<'_, O, M, K>, strip: usize, x: [f32; 8]) {
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
    fn put<M: Role, K: ClusterShape>(out: &mut Free<'_, O, M, K>, strip: usize, x: [f32; 8]) {
        out.put_turned(strip, x);
    }

    #[inline(always)]
    fn place(row: u32, col: u32) -> (u32, u32) {
        (col, row)
    }
}
