//! A plan of whole swizzle atoms, inside the budget.
use crate::support::*;
use warpipe_pipeline::cta::SMEM_LIMIT;
use warpipe_pipeline::tile::TileShape;

#[test]
fn as_much_as_fits() {
    // 28 slots of 8 KiB and their barriers are 224 KiB and 448 bytes.
    const BYTES: u32 = SmemPlan::<(PanelRing<Main, 28>,)>::BYTES;
    assert_eq!(BYTES, 28 * (8192 + 16));
    assert!(BYTES as usize <= SMEM_LIMIT && BYTES as usize + 8192 + 16 > SMEM_LIMIT);
    assert_eq!(<Tile<bf16, 64, 64> as TileShape>::BYTES, 8192);
    assert_eq!(<Tile<f32, 8, 32> as TileShape>::BYTES, 1024);
}
