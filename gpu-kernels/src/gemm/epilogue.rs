//! Epilogues: from a warp group's sums to rows of D.
#![forbid(unsafe_code)]

use super::GemmParams;
use super::kernel::{Addend, C_STAGES, STORE_DEPTH};
use super::scheduler::TileOrigin;
use isa::wgmma::{M64, Shape};
use pipeline::fragment::TurnedStrips;
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::store::Stores;
use pipeline::tile::TileShape;

/// The panels of C for a tile of `BM` rows, as warp groups of `M` read them.
pub type CPanels<O, M, const BM: usize, K> =
    Consumer<C_STAGES, (<O as Panels>::Panel<BM>,), Reads<M>, Addend, K>;

/// Where a warp group's 64 x `BN` sums go.
pub trait Epilogue<O: Panels, M: Role, K: ClusterShape, const BM: usize, const BN: usize>
where
    M64<BN>: Shape,
{
    /// Whether the operands are to be exchanged.
    const TURNED: bool;
    /// What one TMA store writes.
    type Panel: TileShape<Element = O>;
    /// Panels of C for a tile.
    const PANELS: usize;
    /// First column of a panel in the tile.
    fn start(panel: usize) -> usize;

    /// Scales the sums, adds C if there is one, rounds, and stores them as the group's part of the
    /// tile.
    fn write(
        group: &Warpgroup<M, K>,
        sum: &Accumulator<BN>,
        addend: &mut Option<CPanels<O, M, BM, K>>,
        stores: &mut Stores<'_, O, STORE_DEPTH, M, K>,
        d: &TensorMap<Self::Panel>,
        tile: TileOrigin,
        p: &GemmParams,
    );
}

/// D's rows are the tile's rows: the group writes 64 of them, panel by panel.
pub struct AlongRows;

impl<O: Strips, M: Role, K: ClusterShape, const BM: usize, const BN: usize>
    Epilogue<O, M, K, BM, BN> for AlongRows
where
    M64<BN>: Shape,
{
    const TURNED: bool = false;
    type Panel = O::Panel<GROUP_ROWS>;
    const PANELS: usize = BN.div_ceil(O::PANEL_COLS);

    /// In a tile that is no multiple of panels the first one is that of the last columns. The last one
    /// shares some of them, which are written twice: it waits for the first.
    #[inline(always)]
    fn start(panel: usize) -> usize {
        const {
            assert!(
                BN >= O::PANEL_COLS && BN.is_multiple_of(16),
                "a tile is at least a panel wide, and a multiple of 16 columns"
            );
        }
        match (BN.is_multiple_of(O::PANEL_COLS), panel) {
            (true, _) => panel * O::PANEL_COLS,
            (false, 0) => BN - O::PANEL_COLS,
            (false, _) => (panel - 1) * O::PANEL_COLS,
        }
    }

    #[inline(always)]
    fn write(
        group: &Warpgroup<M, K>,
        sum: &Accumulator<BN>,
        addend: &mut Option<CPanels<O, M, BM, K>>,
        stores: &mut Stores<'_, O, STORE_DEPTH, M, K>,
        d: &TensorMap<Self::Panel>,
        tile: TileOrigin,
        p: &GemmParams,
    ) {
        let row = tile.row + group.index() * GROUP_ROWS as u32;
        for panel in 0..<Self as Epilogue<O, M, K, BM, BN>>::PANELS {
            let first = <Self as Epilogue<O, M, K, BM, BN>>::start(panel);
            let addend = addend.as_mut().map(|panels| panels.wait());
            let mut out = stores.acquire();
            for strip in 0..O::PANEL_COLS / 16 {
                let mut x = sum.strip(first / 16 + strip).map(|x| p.alpha * x);
                if let Some(addend) = &addend {
                    let c = addend.strip(group, strip);
                    for i in 0..8 {
                        x[i] += p.beta * c[i];
                    }
                }
                out.put(strip, x);
            }
            if let Some(addend) = addend {
                addend.release();
            }
            let panels = <Self as Epilogue<O, M, K, BM, BN>>::PANELS;
            if !BN.is_multiple_of(O::PANEL_COLS) && panel == panels - 1 {
                out.wait_written(panels - 2);
            }
            out.publish().store(d, row, tile.col + first as u32);
        }
    }
}

/// D's rows are the tile's columns. For few rows of D: the roles of A and B are exchanged, so that
/// the 64 rows of a wgmma are 64 of D's many columns, and its `BN` columns D's few rows.
pub struct AlongColumns;

impl<O: TurnedStrips, M: Role, K: ClusterShape, const BM: usize, const BN: usize>
    Epilogue<O, M, K, BM, BN> for AlongColumns
where
    M64<BN>: Shape,
{
    const TURNED: bool = true;
    type Panel = O::Panel<BN>;
    const PANELS: usize = 0;

    #[inline(always)]
    fn start(_panel: usize) -> usize {
        0
    }

    #[inline(always)]
    fn write(
        group: &Warpgroup<M, K>,
        sum: &Accumulator<BN>,
        _addend: &mut Option<CPanels<O, M, BM, K>>,
        stores: &mut Stores<'_, O, STORE_DEPTH, M, K>,
        d: &TensorMap<Self::Panel>,
        tile: TileOrigin,
        p: &GemmParams,
    ) {
        let mut out = stores.acquire();
        for strip in 0..BN / 16 {
            out.put_turned(strip, sum.strip(strip).map(|x| p.alpha * x));
        }
        out.publish().store_rows(d, tile.col, tile.row + group.index() * GROUP_ROWS as u32);
    }
}
