//! Store buffers of 128 rows, for accumulators of tensor memory (CUTLASS `PipelineTmaStore`).
//!
//! Invariant: a buffer is written only when no TMA store reads it any more, and it is stored only after a proxy fence and
//! a synchronisation of the group.

use super::TENSOR_ROWS;
use crate::cta::{ClusterShape, Place, Region, Role, Warpgroup};
use crate::mma::{Fragments, store_fragment};
use crate::tile::{EpilogueElement, TILE_ALIGN, TensorMap, TileShape, facts};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// The epilogue tile of 128 rows.
type Buffer<O> = <O as EpilogueElement>::EpilogueTile<TENSOR_ROWS>;

/// Two store buffers of 128 rows of 128 bytes for the warp group of role `Ro`, used in turn.
///
/// (CUTLASS: `smem_d` in the epilogue's `SharedStorage`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, tensor::*}};
/// # roles! { Store = 1 x 216 registers } type Alone = Cluster<1, 1>;
/// assert_eq!(SmemPlan::<(TensorStores<bf16, Store>,)>::BYTES, 2 * 128 * 128);
///
/// fn store(
///     group: &Warpgroup<Store, Alone>,
///     mut buffers: TensorStoreEnd<bf16, Store>,
///     strip: &Strip,
///     to: &TensorMap<Tile<bf16, 128, 64>>,
/// ) {
///     buffers.store(group, to, 0, 0, |half, index| strip.fragment(half, index));
///     buffers.tail(group);
/// }
/// ```
pub struct TensorStores<O, Ro>(PhantomData<(O, Ro)>);

// SAFETY: the buffers lie inside BYTES; there is no barrier to initialise.
unsafe impl<O: EpilogueElement, Ro: Role> Region for TensorStores<O, Ro> {
    const BYTES: usize = 2 * <Buffer<O> as TileShape>::BYTES;
    const ALIGN: usize = TILE_ALIGN;
    const FACTS: RegionFacts = RegionFacts::of(
        "TensorStores",
        &[Part::Tiles {
            what: "buffers",
            offset: 0,
            count: 2,
            tiles: const { &[facts::<Buffer<O>>()] },
        }],
    );
    type Ends = TensorStoreEnd<O, Ro>;
    #[isa::forceinline]
    unsafe fn init(_place: Place) {}
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        TensorStoreEnd { base: place.base, next: 0, kind: PhantomData }
    }
}

/// The store buffers of a warp group.
///
/// See the example of [`TensorStores`].
#[must_use]
pub struct TensorStoreEnd<O, Ro> {
    base: u32,
    next: u32,
    kind: PhantomData<(O, Ro, *const ())>,
}

impl<O: Fragments, Ro: Role> TensorStoreEnd<O, Ro> {
    /// Fragments of 16 columns in a row of a buffer.
    pub const FRAGMENTS: usize = O::EPILOGUE_COLS / 16;

    /// Fills the next buffer and stores it at (`row`, `col`) of the tensor. `values` gives this thread's values of the 16
    /// rows from `16 * half` of the warp's 32 on, and of the 16 columns from `16 * index` on.
    ///
    /// Waits until the store of two calls before has read its buffer, and for the group's other threads. (PTX
    /// `cp.async.bulk.wait_group.read`, `stmatrix`, `fence.proxy.async.shared::cta`, `barrier.cta.sync`,
    /// `cp.async.bulk.tensor`; CUTLASS `producer_acquire`, `tma_store_fence`, `SM90_TMA_STORE`, `producer_commit`.)
    /// See the example of [`TensorStores`].
    #[device]
    pub fn store<Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        tensor: &TensorMap<Buffer<O>>,
        row: u32,
        col: u32,
        values: impl Fn(usize, usize) -> [f32; 8],
    ) {
        let leads = group.thread() == 0;
        if leads {
            // This thread issues the group's stores.
            isa::cp_async_bulk::wait_group_read::<1>();
        }
        group.sync();
        let at = self.base + self.next * <Buffer<O> as TileShape>::BYTES as u32;
        let warp_row = group.thread() / 32 * 32;
        for half in 0..2 {
            for index in 0..Self::FRAGMENTS {
                let values = values(half, index);
                // SAFETY: the buffer is free, the rows are the warp's own, and the group is converged.
                unsafe {
                    store_fragment::<Buffer<O>>(
                        at,
                        warp_row + 16 * half as u32,
                        index as u32,
                        values,
                    );
                }
            }
        }
        isa::fence::proxy_async_shared_cta();
        group.sync();
        if leads {
            // SAFETY: the buffer is filled and fenced, and is used again only after the group has read it.
            unsafe {
                tensor.issue_store(at, (), row, col);
                isa::cp_async_bulk::commit_group();
            }
        }
        group.sync_warp();
        self.next ^= 1;
    }

    /// Waits until every store has read its source, so that the CTA may exit.
    ///
    /// (PTX `cp.async.bulk.wait_group.read 0`; CUTLASS `PipelineTmaStore::producer_tail`.) See the example of
    /// [`TensorStores`].
    #[device]
    pub fn tail<Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>) {
        if group.thread() == 0 {
            isa::cp_async_bulk::wait_group_read::<0>();
        }
    }
}
