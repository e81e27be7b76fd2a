//! Tensor maps that a kernel changes: fields replaced in shared or in global memory, published, and used by
//! the CTA that changed them and by another one.

use isa::cp_async_bulk::{self, TensorMapBytes};
use isa::kernel::KernelArg;
use isa::slice::DeviceSliceMut;
use isa::{cluster, fence, kernel, mbarrier, shared, tensormap, thread, warp};

use crate::record::passes;
use crate::tensor::{BOX, Coords, FILL, GUARD, Map, first};

/// Where the map lies in shared memory: behind the box, its guard and the barrier.
const MAP: u32 = BOX + 256;

/// The fields that a kernel replaces: bits of [`Change::fields`].
pub mod field {
    /// `.global_address`
    pub const ADDRESS: u32 = 1;
    /// `.rank`
    pub const RANK: u32 = 2;
    /// `.box_dim`
    pub const BOX_DIM: u32 = 4;
    /// `.global_dim`
    pub const GLOBAL_DIM: u32 = 8;
    /// `.global_stride`
    pub const GLOBAL_STRIDE: u32 = 16;
    /// `.element_stride`
    pub const ELEMENT_STRIDE: u32 = 32;
    /// `.elemtype`
    pub const ELEMTYPE: u32 = 64;
    /// `.interleave_layout`
    pub const INTERLEAVE: u32 = 128;
    /// `.swizzle_mode`
    pub const SWIZZLE: u32 = 256;
    /// `.fill_mode`
    pub const FILL: u32 = 512;
    /// All of them.
    pub const ALL: u32 = 1023;
}

/// What a kernel makes of its template.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Change {
    /// Address of the tensor.
    pub address: u64,
    /// Bytes between elements of the outer dimensions.
    pub strides: [u64; 4],
    /// Which fields.
    pub fields: u32,
    /// Begins with zeros, and not with the template.
    pub zeros: u32,
    /// Replaces the fields in global memory, and not in shared memory.
    pub global: u32,
    /// The element type's number.
    pub elemtype: u32,
    /// The swizzle's number.
    pub swizzle: u32,
    /// Elements of the box.
    pub box_dims: [u32; 5],
    /// Elements of the tensor.
    pub dims: [u32; 5],
    /// The size is a multiple of 8.
    pub padding: u32,
}

/// Replaces fields of a map of rank `D`.
macro_rules! replace {
    (@each $map:ident, $d:expr, $c:ident, $has:ident: $ord:literal $box_dim:ident $dim:ident $element:ident) => {
        if $d > $ord {
            if $has(field::BOX_DIM) {
                tensormap::$box_dim::<$ord>($map, $c.box_dims[$ord]);
            }
            if $has(field::GLOBAL_DIM) {
                tensormap::$dim::<$ord>($map, $c.dims[$ord]);
            }
            if $has(field::ELEMENT_STRIDE) {
                tensormap::$element::<$ord>($map, 1);
            }
        }
    };
    ($map:expr, $d:expr, $c:expr;
     $address:ident $rank:ident $box_dim:ident $dim:ident $stride:ident $element:ident $elemtype:ident
     $interleave:ident $swizzle:ident $fill:ident) => {{
        let (map, c) = ($map, $c);
        let has = |field: u32| c.fields & field != 0;
        if has(field::ADDRESS) {
            tensormap::$address(map, c.address);
        }
        if has(field::RANK) {
            tensormap::$rank(map, $d as u32 - 1);
        }
        replace! { @each map, $d, c, has: 0 $box_dim $dim $element }
        replace! { @each map, $d, c, has: 1 $box_dim $dim $element }
        replace! { @each map, $d, c, has: 2 $box_dim $dim $element }
        replace! { @each map, $d, c, has: 3 $box_dim $dim $element }
        replace! { @each map, $d, c, has: 4 $box_dim $dim $element }
        if has(field::GLOBAL_STRIDE) {
            if $d > 1 {
                tensormap::$stride::<0>(map, c.strides[0]);
            }
            if $d > 2 {
                tensormap::$stride::<1>(map, c.strides[1]);
            }
            if $d > 3 {
                tensormap::$stride::<2>(map, c.strides[2]);
            }
            if $d > 4 {
                tensormap::$stride::<3>(map, c.strides[3]);
            }
        }
        if has(field::ELEMTYPE) {
            match c.elemtype {
                0 => tensormap::$elemtype::<0>(map),
                2 => tensormap::$elemtype::<2>(map),
                6 => tensormap::$elemtype::<6>(map),
                7 => tensormap::$elemtype::<7>(map),
                _ => tensormap::$elemtype::<10>(map),
            }
        }
        if has(field::INTERLEAVE) {
            tensormap::$interleave::<0>(map);
        }
        if has(field::SWIZZLE) {
            match c.swizzle {
                0 => tensormap::$swizzle::<0>(map),
                1 => tensormap::$swizzle::<1>(map),
                2 => tensormap::$swizzle::<2>(map),
                _ => tensormap::$swizzle::<3>(map),
            }
        }
        if has(field::FILL) {
            tensormap::$fill::<0>(map);
        }
    }};
}

/// CTA 0 of a cluster of two makes a map of the template and publishes it in `slot`. Both CTAs then load a box
/// of `bytes` with it. For each CTA in `out`: whether the phase completed, the words of the box, and the words
/// of the guard behind it.
#[inline(always)]
fn load<const D: usize>(
    out: &DeviceSliceMut<'_, u32>,
    map: &Map,
    slot: u64,
    change: Change,
    at: Coords,
    bytes: u32,
) {
    let (me, rank) = (thread::thread_idx_x(), cluster::cta_rank());
    let s = shared::dynamic_base();
    let (bar, built) = (s + BOX + 4 * GUARD, s + MAP);
    let words = bytes / 4 + GUARD;
    let slot = slot as *mut TensorMapBytes;
    // SAFETY: box, barrier and map are the CTA's own memory. The host lends the slot to this kernel alone. One
    // thread changes the map, and the warp has met before and after. Both CTAs meet behind the publication,
    // and the thread that loads acquires the map. The box is read after the phase that counts its bytes.
    unsafe {
        let mut i = me;
        while i < words {
            shared::st(s + 4 * i, FILL);
            i += 32;
        }
        fence::proxy_async_shared_cta();
        if me == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
        }
        if rank == 0 {
            let template = map.at().cast::<u32>().wrapping_add(me as usize);
            let word = if change.zeros != 0 { 0 } else { template.read() };
            shared::st(built + 4 * me, word);
            warp::sync_warp(u32::MAX);
            if change.global == 0 {
                if me == 0 {
                    replace!(built, D, &change;
                        replace_global_address_shared replace_rank_shared replace_box_dim_shared
                        replace_global_dim_shared replace_global_stride_shared
                        replace_element_stride_shared replace_elemtype_shared
                        replace_interleave_layout_shared replace_swizzle_mode_shared
                        replace_fill_mode_shared);
                }
                warp::sync_warp(u32::MAX);
                tensormap::cp_fenceproxy_gpu(slot, built);
            } else {
                tensormap::cp_fenceproxy_gpu(slot, built);
                if me == 0 {
                    replace!(slot, D, &change;
                        replace_global_address_global replace_rank_global replace_box_dim_global
                        replace_global_dim_global replace_global_stride_global
                        replace_element_stride_global replace_elemtype_global
                        replace_interleave_layout_global replace_swizzle_mode_global
                        replace_fill_mode_global);
                    fence::proxy_tensormap_release_gpu();
                }
            }
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if me == 0 {
            fence::proxy_tensormap_acquire_gpu(slot);
            mbarrier::arrive_expect_tx(bar, bytes);
            cp_async_bulk::tensor_load(s, slot, first::<D>(at), bar);
        }
        let passed = passes(bar, 0);
        let to = (rank * (1 + words)) as usize;
        if me == 0 {
            out.set(to, passed);
        }
        let mut i = me;
        while i < words {
            out.set(to + (1 + i) as usize, shared::ld(s + 4 * i));
            i += 32;
        }
    }
}

macro_rules! ranks {
    ($($name:ident: $rank:literal;)*) => {$(
        /// `load` with a map of one rank.
        #[kernel(threads = 32, smem = MAP + 128, cluster = (2, 1, 1))]
        pub fn $name(
            out: DeviceSliceMut<'_, u32>,
            map: &Map,
            slot: u64,
            change: Change,
            at: Coords,
            bytes: u32,
        ) {
            load::<$rank>(&out, map, slot, change, at, bytes);
        }
    )*};
}
ranks! {
    changed_map_1: 1;
    changed_map_2: 2;
    changed_map_3: 3;
    changed_map_4: 4;
    changed_map_5: 5;
}
