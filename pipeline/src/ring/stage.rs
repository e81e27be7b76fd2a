//! What a slot of a ring holds, and the loads that fill it.
//!
//! Invariant: the bytes that the slot's full barrier expects are the bytes of the slot's tiles, and
//! there is exactly one load for each tile. Values that the loading thread stores are written before it arms that barrier.

use crate::cta::Sharing;
use crate::tile::Load;
use crate::tile::{TILE_ALIGN, TileShape, facts};
use isa::device;
use isa::kernel::TileFacts;

/// Seals [`Stage`] and [`LoadsInto`]: a slot's bytes are those of the loads that fill it.
pub(super) mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be what a slot of a ring holds, or fill it",
        label = "these traits are closed",
        note = "a slot's bytes are those of its tiles and are never stated: a stage is a tuple or an array of `Tile`s; memory of your own is for `pipeline::raw`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// The tiles of one slot: a tuple of one to four [`Tile`](crate::tile::Tile)s, or an array of equal
/// ones (a block that is several tiles wide).
///
/// (PTX: the transaction count of `mbarrier.arrive.expect_tx`; CUTLASS `TmaTransactionBytes`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::{prelude::*, ring::Stage};
/// type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 256, 64>);
/// assert_eq!((Operands::BYTES, Operands::TILES), ((128 + 256) * 128, 2));
/// assert_eq!(<[Tile<bf16, 64, 64>; 4] as Stage>::BYTES, 4 * 64 * 128);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be what a slot of a ring holds",
    label = "not a tuple or an array of tiles",
    note = "a stage is a tuple of one to four tiles, `(Tile<bf16, 64, 64>,)` with the comma, or an array of equal ones, `[Tile<bf16, 64, 64>; 4]`"
)]
pub trait Stage: Sealed + 'static {
    /// Bytes of all tiles: the transaction count of the slot's full barrier.
    const BYTES: usize;
    /// The distance from one slot to the next in bytes.
    const SLOT_BYTES: usize = Self::BYTES;
    /// Bytes per slot that lie after all slots of the ring, for data that would break the alignment of the tiles. A
    /// multiple of 128.
    const BESIDE_BYTES: usize = 0;
    /// Number of tiles.
    const TILES: usize;
    /// Each tile as `warpipe inspect` prints it.
    const FACTS: &'static [TileFacts] = &[];
    /// Alignment of the slot.
    const ALIGN: usize = TILE_ALIGN;
}

/// A tuple or array of loads that fills a slot of `St`: one load for each tile, in the tiles'
/// order.
///
/// (PTX `cp.async.bulk.tensor.2d` for each tile; CUTLASS `copy` for each operand.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, ring::{EmptySlot, Name}, ring::{LoadsInto, Stage}};
/// fn fill<St: Stage, Tag: Name>(slot: EmptySlot<St, Tag>, loads: impl LoadsInto<St>) {
///     slot.load(loads);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fill a slot of `{St}`",
    label = "not one load for each tile of the slot",
    note = "a slot is filled by a tuple with one load for each of its tiles, in their order, each from a tensor map of that tile: `slot.load((a.tile(..), b.tile(..)))`; one load is `(a.tile(..),)`",
    note = "the transaction bytes that the slot's barrier expects are those of all its tiles"
)]
pub trait LoadsInto<St>: Sealed {
    /// Issues all loads into the slot at address `data`. They complete on the full barrier at
    /// `full`.
    ///
    /// Signals the transaction bytes on `full` when they land. (PTX `cp.async.bulk.tensor.2d` for
    /// each tile; CUTLASS `copy` for each operand.) See the example of [`LoadsInto`].
    ///
    /// # Safety
    /// The slot is acquired, and its full barrier is armed with `St::BYTES`. `beside` is the address of its
    /// [`BESIDE_BYTES`](Stage::BESIDE_BYTES).
    unsafe fn issue(self, data: u32, beside: u32, full: u32);

    /// Stores the values that this thread brings itself, before the slot is armed.
    ///
    /// (PTX `st.shared`; nothing for a tuple or an array of loads.) See the example of
    /// [`BlockScaled`](crate::ring::BlockScaled).
    ///
    /// # Safety
    /// The slot is acquired. `beside` is the address of its [`BESIDE_BYTES`](Stage::BESIDE_BYTES).
    #[isa::forceinline]
    unsafe fn store(&self, _beside: u32) {}
}

/// Implements [`Stage`] for tuples of tiles, and [`LoadsInto`] for the tuples of loads that fill
/// them.
macro_rules! tuples {
    ($(($($tile:ident by $peers:ident at $field:tt),+))+) => {$(
        impl<$($tile),+> Sealed for ($($tile,)+) {}
        impl<$($tile: TileShape),+> Stage for ($($tile,)+) {
            const BYTES: usize = 0 $(+ $tile::BYTES)+;
            const TILES: usize = [$(stringify!($tile)),+].len();
            const FACTS: &'static [TileFacts] = &[$(facts::<$tile>()),+];
        }
        impl<$($tile: TileShape, $peers: Sharing),+> LoadsInto<($($tile,)+)>
            for ($(Load<'_, $tile, $peers>,)+)
        {
            #[device]
            unsafe fn issue(self, data: u32, _beside: u32, full: u32) {
                let mut at = 0;
                $(
                    // SAFETY: the caller's contract; the tiles are contiguous.
                    unsafe { self.$field.issue(data + at, full) };
                    at += $tile::BYTES as u32;
                )+
                let _end = at;
            }
        }
    )+};
}
tuples! {
    (A by P at 0)
    (A by P at 0, B by Q at 1)
    (A by P at 0, B by Q at 1, C by R at 2)
    (A by P at 0, B by Q at 1, C by R at 2, D by U at 3)
}

/// A slot type that has a tile number `I`, counted from 0.
///
/// (CUTLASS: the operand's member of `TensorStorage`, `smem_A` or `smem_B`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, ring::TileAt, tile::TileShape};
/// type Stage = (Tile<bf16, 128, 64>, Tile<bf16, 64, 64>, Tile<f32, 64, 32>);
/// fn at<St: TileAt<2>>() -> (usize, usize) { (St::OFFSET, St::Tile::ROWS) }
/// assert_eq!(at::<Stage>(), ((128 + 64) * 128, 64));
/// ```
#[diagnostic::on_unimplemented(
    message = "a slot of `{Self}` has no tile number {I}",
    label = "tiles are counted from 0, in the order of the stage's tuple"
)]
pub trait TileAt<const I: usize>: Stage {
    /// The tile's type.
    type Tile: TileShape;
    /// Byte offset of the tile in the slot.
    const OFFSET: usize;
}

macro_rules! tile_at {
    ($(($($tile:ident),+) $index:literal is $which:ident behind ($($before:ident)*);)+) => {$(
        impl<$($tile: TileShape),+> TileAt<$index> for ($($tile,)+) {
            type Tile = $which;
            const OFFSET: usize = 0 $(+ $before::BYTES)*;
        }
    )+};
}
tile_at! {
    (A) 0 is A behind ();
    (A, B) 0 is A behind ();
    (A, B) 1 is B behind (A);
    (A, B, C) 0 is A behind ();
    (A, B, C) 1 is B behind (A);
    (A, B, C) 2 is C behind (A B);
    (A, B, C, D) 0 is A behind ();
    (A, B, C, D) 1 is B behind (A);
    (A, B, C, D) 2 is C behind (A B);
    (A, B, C, D) 3 is D behind (A B C);
}

impl<A, const COUNT: usize> Sealed for [A; COUNT] {}
impl<A: TileShape, const COUNT: usize> Stage for [A; COUNT] {
    const BYTES: usize = {
        assert!(COUNT >= 1, "a stage has at least one tile");
        COUNT * A::BYTES
    };
    const TILES: usize = COUNT;
    const FACTS: &'static [TileFacts] = &[facts::<A>(); COUNT];
}
impl<A: TileShape, P: Sharing, const COUNT: usize> LoadsInto<[A; COUNT]>
    for [Load<'_, A, P>; COUNT]
{
    #[device]
    unsafe fn issue(self, data: u32, _beside: u32, full: u32) {
        let mut at = data;
        for load in self {
            // SAFETY: the caller's contract; the tiles are contiguous.
            unsafe { load.issue(at, full) };
            at += A::BYTES as u32;
        }
    }
}
