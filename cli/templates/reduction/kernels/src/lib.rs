//! The kernel that sums the rows of a matrix: TMA load, registers, one store per row.
//!
//! cargo compiles this crate twice: for the GPU, and for the host, where the SM model runs it.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use warpipe::pipeline::mma::{RowParts, row_of};
use warpipe::prelude::*;

// A name of the ring, for reports; and the warp groups of a CTA, with their registers per thread.
names! { Tiles = "tiles" }
roles! { Load = 1 x 40 registers, Sum = 2 x 232 registers }

/// Rows of a block, which one CTA sums: 64 for each warp group of `Sum`.
pub const BLOCK_ROWS: u32 = 128;
/// Columns of a tile.
pub const TILE_COLS: u32 = 64;
/// What one TMA instruction loads.
pub type Block = Tile<bf16, 128, 64>;
type Alone = Cluster<1, 1>;
/// Shared memory: a ring of eight tiles.
type Plan = SmemPlan<(Ring<8, (Block,), Tma, Reads<Sum>, Tiles, Alone>,)>;
type ThisCta = Cta<(Load, Sum), Alone, Plan>;

/// sums\[row\] = the sum of x\[row, ..\], in `blocks` blocks of 128 rows with `across` tiles each. CTA i of g takes
/// blocks i, i + g, ….
///
/// The order of the additions depends on the shape alone, so two runs give the same bits.
#[kernel]
pub fn row_sums(
    cta: ThisCta,
    x: &TensorMap<Block>,
    sums: DeviceSliceMut<f32>,
    blocks: u32,
    across: u32,
) {
    let (cta, (ring,)) = cta.init();
    let coord = cta.coord();
    // Both roles go through this CTA's blocks in the same order.
    let blocks = || (coord.cluster_id()..blocks).step_by(coord.clusters() as usize);

    cta.specialize(
        |load| {
            // One thread loads, and is up to eight tiles ahead.
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for block in blocks() {
                    for tile in 0..across {
                        // Beyond the matrix, TMA loads zeros, which add nothing.
                        let (row, col) = (BLOCK_ROWS * block, TILE_COLS * tile);
                        loads.acquire().load((x.tile(row, col, Peers::ALONE),));
                    }
                }
                loads.tail();
            });
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            for block in blocks() {
                // This thread's share of two rows: it has eight values of each fragment (64 rows x 16 columns).
                let mut own = [0.0; 2];
                for _ in 0..across {
                    let tile = arrived.wait();
                    for fragment in 0..4 {
                        let x = tile.fragment(&group, fragment);
                        for i in 0..8 {
                            own[row_of(i)] += x[i];
                        }
                    }
                    tile.release();
                }
                // The four threads that share a row all get its sum; the one with column 0 stores it.
                let totals = group.row_sum(RowParts(own)).0;
                for i in [0, 2] {
                    let (row, column) = group.place(i);
                    let row = (BLOCK_ROWS * block + 64 * group.index() + row) as usize;
                    if column == 0 && row < sums.len() {
                        sums.set(row, totals[row_of(i)]);
                    }
                }
            }
        },
    );
}
