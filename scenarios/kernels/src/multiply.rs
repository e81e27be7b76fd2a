//! The main loop that several scenarios share: D = A·Bᵀ in CTA tiles of 64 x N.

use half::bf16;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role};
use pipeline::prelude::*;
use pipeline::ring::{Consumer, MmaReaders, Name};

/// 64 rows of A, with 64 columns per k tile.
pub type TileA = Tile<bf16, 64, 64>;
/// 32 rows of B, which are columns of D.
pub type TileB = Tile<bf16, 32, 64>;
/// A CTA's tile of D.
pub type TileD = Tile<f32, 64, 32>;

/// Accumulates `steps` k tiles, at least one.
///
/// With two or more stages, one batch stays in flight and the slot before it is released. With one stage,
/// the slot must retire before it can be filled again.
#[inline(always)]
pub fn multiply<const STAGES: usize, const N: usize, W: MmaReaders, Tag: Name, K: ClusterShape>(
    group: &Warpgroup<W::Role, K>,
    operands: &mut Consumer<STAGES, (TileA, Tile<bf16, N, 64>), W, Tag, K>,
    steps: u32,
) -> Accumulator<N>
where
    M64<N>: Shape,
{
    let mut sum = Accumulator::<N>::start(group, operands.wait());
    if STAGES == 1 {
        let (mut sum, slot) = sum.finish();
        slot.release();
        for _ in 1..steps {
            let (next, slot) = sum.add(group, operands.wait()).finish();
            slot.release();
            sum = next;
        }
        return sum;
    }
    for _ in 1..steps {
        sum.next(operands.wait()).release();
    }
    let (sum, last) = sum.finish();
    last.release();
    sum
}

/// A warp group's single store buffer.
pub type Buffer<Ro> = StoreBuffers<f32, 1, Ro>;

/// The store pipeline of a group.
pub type Stores<'g, Ro, K> = pipeline::store::Stores<'g, f32, 1, Ro, K>;

/// Stores a tile of D.
#[inline(always)]
pub fn write<Ro: Role, K: ClusterShape>(
    sum: &Accumulator<32>,
    stores: &mut Stores<'_, Ro, K>,
    d: &TensorMap<TileD>,
    row: u32,
    col: u32,
) {
    let mut out = stores.acquire();
    for fragment in 0..2 {
        out.put(fragment, sum.fragment(fragment));
    }
    out.publish().store(d, row, col);
}
