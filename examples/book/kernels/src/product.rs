//! D = A·Bᵀ with one tile of D for each CTA: the main loop of CUTLASS's warp-specialised kernels.

use warpipe::kernel;
use warpipe::pipeline::prelude::*;

// example: types
names! { MainLoop = "main loop" }
roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }

/// 128 rows of A, 64 columns of K.
pub type TileA = Tile<bf16, 128, 64>;
/// 128 rows of B, which are columns of D.
pub type TileB = Tile<bf16, 128, 64>;
/// What a warp group stores at once.
pub type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<4, (TileA, TileB), Tma, Mma<Math>, MainLoop, Alone>,
    StoreBuffers<bf16, 2, Math>,
)>;
type ThisCta = Cta<(Load, Math), Alone, Plan>;
// end

/// D = A·Bᵀ in tiles of 128 x 128, `tiles_m` of them above each other, with `k_tiles` k tiles each.
#[kernel]
pub fn product(
    cta: ThisCta,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
    d: &TensorMap<Panel>,
    tiles_m: u32,
    k_tiles: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    let tile = cta.coord().cluster_id();
    let (row, col) = (tile % tiles_m * 128, tile / tiles_m * 128);

    cta.specialize(
        // example: load
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for k in 0..k_tiles {
                    loads.acquire().load((
                        a.tile(row, 64 * k, Peers::ALONE),
                        b.tile(col, 64 * k, Peers::ALONE),
                    ));
                }
                loads.tail();
            });
        },
        // end
        |group| {
            // example: math
            let mut operands = ring.consumer.by(&group);
            let mut sum = Accumulator::<128>::start(&group, operands.wait());
            for _ in 1..k_tiles {
                sum.next(operands.wait()).release();
            }
            let (sum, last) = sum.finish();
            last.release();
            // end

            // example: store
            let mut stores = stores.by(&group);
            for panel in 0..2 {
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, sum.fragment(4 * panel + fragment));
                }
                out.publish().store(d, row + 64 * group.index(), col + 64 * panel as u32);
            }
            stores.tail();
            // end
        },
    );
}
