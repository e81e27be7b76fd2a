//! TMA: boxes of every rank, loaded, stored and reduced as the tensor map says.

use isa::cp_async_bulk::{self, ReduceOp, TensorMapBytes};
use isa::kernel::{KernelArg, ParamKind, ParamMeta};
use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{fence, kernel, mbarrier, shared, thread};

use crate::record::{passes, publish};

/// Most bytes of a box.
pub const BOX: u32 = 32 * 1024;
/// What shared memory holds before a load, in every word.
pub const FILL: u32 = 0xeeee_eeee;
/// Words behind the box that are looked at as well.
pub const GUARD: u32 = 8;

/// A tensor map of any rank, box and element type: the kernel is told what it needs to know.
#[repr(transparent)]
pub struct Map(TensorMapBytes);

impl Map {
    /// Its address.
    #[inline(always)]
    pub fn at(&self) -> *const TensorMapBytes {
        &raw const self.0
    }
}

// SAFETY: the parameter is the map's 128 bytes, whose address the kernel gets.
unsafe impl KernelArg for &Map {
    type Abi = *const TensorMapBytes;
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: size_of::<TensorMapBytes>() as u32,
        align: align_of::<TensorMapBytes>() as u32,
        ..ParamMeta::NONE
    };
    unsafe fn from_abi(abi: Self::Abi) -> Self {
        // SAFETY: a checked launch passes a map, which outlives the kernel.
        unsafe { &*abi.cast() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn abi_from_param(param: *const u8) -> Self::Abi {
        param.cast()
    }
}

/// Coordinates of a box, innermost first.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Coords(pub [i32; 5]);

/// The first `D` coordinates.
#[inline(always)]
pub fn first<const D: usize>(c: Coords) -> [i32; D] {
    core::array::from_fn(|i| c.0[i])
}

/// Loads a box of `bytes` into filled memory. `out[0]`: whether the phase completed; then the words of
/// the box and of the guard behind it.
#[inline(always)]
fn load<const D: usize>(out: &DeviceSliceMut<'_, u32>, map: &Map, at: Coords, bytes: u32) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let bar = s + BOX + 4 * GUARD;
    let words = bytes / 4 + GUARD;
    // SAFETY: box and barrier are the CTA's own memory, published to the asynchronous proxy before
    // all threads meet; the box is read after the phase that counts its bytes.
    unsafe {
        let mut i = me;
        while i < words {
            shared::st(s + 4 * i, FILL);
            i += 128;
        }
        fence::proxy_async_shared_cta();
        if me == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
        }
        thread::sync_threads();
        if me == 0 {
            mbarrier::arrive_expect_tx(bar, bytes);
            cp_async_bulk::tensor_load(s, map.at(), first::<D>(at), bar);
        }
        let passed = passes(bar, 0);
        if me == 0 {
            out.set(0, passed);
        }
        let mut i = me;
        while i < words {
            out.set((1 + i) as usize, shared::ld(s + 4 * i));
            i += 128;
        }
    }
}

/// Puts the words of `from` into shared memory and stores them as a box, or reduces them with the
/// operation of that number.
#[inline(always)]
fn store<const D: usize>(
    out: &DeviceSliceMut<'_, u32>,
    map: &Map,
    from: DeviceSlice<'_, u32>,
    at: Coords,
    op: Option<u32>,
) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    // SAFETY: the box is the CTA's own memory, published to the asynchronous proxy before all threads
    // meet; the host lends the tensor of the map to this kernel alone.
    unsafe {
        publish(s, &from);
        if me == 0 {
            let (map, at) = (map.at(), first::<D>(at));
            match op {
                None => cp_async_bulk::tensor_store(map, at, s),
                Some(0) => cp_async_bulk::tensor_reduce(ReduceOp::Add, map, at, s),
                Some(1) => cp_async_bulk::tensor_reduce(ReduceOp::Min, map, at, s),
                Some(2) => cp_async_bulk::tensor_reduce(ReduceOp::Max, map, at, s),
                Some(3) => cp_async_bulk::tensor_reduce(ReduceOp::Inc, map, at, s),
                Some(4) => cp_async_bulk::tensor_reduce(ReduceOp::Dec, map, at, s),
                Some(5) => cp_async_bulk::tensor_reduce(ReduceOp::And, map, at, s),
                Some(6) => cp_async_bulk::tensor_reduce(ReduceOp::Or, map, at, s),
                Some(_) => cp_async_bulk::tensor_reduce(ReduceOp::Xor, map, at, s),
            }
            cp_async_bulk::commit_group();
            cp_async_bulk::wait_group::<0>();
            out.set(0, 1);
        }
    }
}

macro_rules! ranks {
    ($($load:ident, $store:ident, $reduce:ident: $rank:literal;)*) => {$(
        /// `load` of a map of one rank.
        #[kernel(threads = 128, smem = BOX + 4 * GUARD + 8)]
        pub fn $load(out: DeviceSliceMut<'_, u32>, map: &Map, at: Coords, bytes: u32) {
            load::<$rank>(&out, map, at, bytes);
        }
        /// `store` through a map of one rank.
        #[kernel(threads = 128, smem = BOX)]
        pub fn $store(
            out: DeviceSliceMut<'_, u32>,
            map: &Map,
            from: DeviceSlice<'_, u32>,
            at: Coords,
        ) {
            store::<$rank>(&out, map, from, at, None);
        }
        /// `store` with a reduction through a map of one rank.
        #[kernel(threads = 128, smem = BOX)]
        pub fn $reduce(
            out: DeviceSliceMut<'_, u32>,
            map: &Map,
            from: DeviceSlice<'_, u32>,
            at: Coords,
            op: u32,
        ) {
            store::<$rank>(&out, map, from, at, Some(op));
        }
    )*};
}
ranks! {
    tensor_load_1, tensor_store_1, tensor_reduce_1: 1;
    tensor_load_2, tensor_store_2, tensor_reduce_2: 2;
    tensor_load_3, tensor_store_3, tensor_reduce_3: 3;
    tensor_load_4, tensor_store_4, tensor_reduce_4: 4;
    tensor_load_5, tensor_store_5, tensor_reduce_5: 5;
}
