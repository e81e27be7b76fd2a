//! Changes of tensor maps on the device: fields replaced one by one, and the copy that publishes a map.
//!
//! PTX manual: *Data Movement*, `tensormap.replace` (PTX 8.3, sm_90a); *Parallel Synchronization*,
//! `tensormap.cp_fenceproxy` (PTX 8.3, sm_90). Only maps of tiled mode can be changed.
//!
//! A grouped GEMM does this when a CTA begins another group (CUTLASS `tensormaps_perform_update`):
//!
//! 1. One thread copies a template, a kernel parameter, to shared memory, and replaces its fields there.
//!    `bar.warp.sync` follows.
//! 2. The warp copies the map to global memory with [`cp_fenceproxy_gpu`]. Nothing may use the map that
//!    lies there: the loads and stores with it have ended, or at least read it
//!    ([`crate::cp_async_bulk::wait_group_read`]).
//! 3. A thread of each CTA that uses the map synchronises with that warp, executes
//!    [`crate::fence::proxy_tensormap_acquire_gpu`], and issues its TMA instructions.
//!
//! Both fences are needed even if one thread does all of it. A map can also be changed in global memory,
//! followed by [`crate::fence::proxy_tensormap_release_gpu`].

use crate::cp_async_bulk::TensorMapBytes;
use crate::device;

/// Declares the instructions. The operands are the map, the constant in brackets, and the value.
macro_rules! fields {
    ($($(#[$meta:meta])*
       $name:ident = $template:literal, $space:ident $([$n:ident])? $(($value:ident: $ty:ty, $reg:ident))?;)*
    ) => {$(
        fields! { @$space $(#[$meta])* $name, $template, [$($n)?], [$($value: $ty, $reg)?] }
    )*};
    (@shared $($rest:tt)*) => {
        fields! { @item map, u32, reg32, (map), $($rest)* }
    };
    (@global $($rest:tt)*) => {
        fields! { @item map, *mut TensorMapBytes, reg64, (map.cast::<[u64; 16]>()), $($rest)* }
    };
    (@item $map:ident, $pt:ty, $map_reg:ident, $arg:expr, $(#[$meta:meta])*
     $name:ident, $template:literal, [$($n:ident)?], [$($value:ident: $ty:ty, $reg:ident)?]
    ) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// `map` is the address of 128 bytes, aligned to 64, which hold a tensor map of tiled mode, or
        /// zeros. No other thread uses them at the same time, nor does a TMA instruction in flight.
        #[device]
        pub unsafe fn $name $(<const $n: u32>)? ($map: $pt $(, $value: $ty)?) {
            #[cfg(target_arch = "nvptx64")]
            ptx!($template, in($map_reg) $map $(, const $n)? $(, in($reg) $value)?);
            #[cfg(not(target_arch = "nvptx64"))]
            sim::ops::tensormap::$name $(::<$n>)? ($arg $(, $value)?);
        }
    };
}

fields! {
    /// `tensormap.replace.tile.global_address.shared::cta.b1024.b64`: replaces
    /// the address of the tensor, a multiple of 16.
    replace_global_address_shared = "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [{}], {};",
        shared (address: u64, reg64);
    /// `tensormap.replace.tile.rank.shared::cta.b1024.b32`: replaces
    /// the rank, given as one less.
    replace_rank_shared = "tensormap.replace.tile.rank.shared::cta.b1024.b32 [{}], {};",
        shared (rank_less_one: u32, reg32);
    /// `tensormap.replace.tile.box_dim.shared::cta.b1024.b32`: replaces
    /// the box's elements in dimension `ORD`.
    replace_box_dim_shared = "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [{}], {}, {};",
        shared [ORD] (size: u32, reg32);
    /// `tensormap.replace.tile.global_dim.shared::cta.b1024.b32`: replaces
    /// the tensor's elements in dimension `ORD`.
    replace_global_dim_shared = "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [{}], {}, {};",
        shared [ORD] (size: u32, reg32);
    /// `tensormap.replace.tile.global_stride.shared::cta.b1024.b64`: replaces
    /// the bytes between elements of dimension `ORD + 1`, a multiple of 16.
    /// (Assemblers before CUDA 12.5 took it divided by 16.)
    replace_global_stride_shared = "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [{}], {}, {};",
        shared [ORD] (bytes: u64, reg64);
    /// `tensormap.replace.tile.element_stride.shared::cta.b1024.b32`: replaces
    /// the traversal stride of dimension `ORD`.
    replace_element_stride_shared = "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [{}], {}, {};",
        shared [ORD] (stride: u32, reg32);
    /// `tensormap.replace.tile.elemtype.shared::cta.b1024.b32`: replaces
    /// the element type by its number in the manual's table: 0 u8,
    /// 1 u16, 2 u32, 3 s32, 4 u64, 6 f16, 7 f32, 10 bf16. (Not those of `CUtensorMapDataType`.)
    replace_elemtype_shared = "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [{}], {};",
        shared [VALUE];
    /// `tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32`: replaces
    /// the interleave layout: 0 none.
    replace_interleave_layout_shared = "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [{}], {};",
        shared [VALUE];
    /// `tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32`: replaces
    /// the swizzle: 0 none, 1 over 32 bytes, 2 over 64, 3 over 128.
    replace_swizzle_mode_shared = "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [{}], {};",
        shared [VALUE];
    /// `tensormap.replace.tile.fill_mode.shared::cta.b1024.b32`: replaces
    /// what is read outside of the tensor: 0 zeros, 1 NaN.
    replace_fill_mode_shared = "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [{}], {};",
        shared [VALUE];
    /// `tensormap.replace.tile.global_address.global.b1024.b64`: as [`replace_global_address_shared`],
    /// in global memory.
    replace_global_address_global = "tensormap.replace.tile.global_address.global.b1024.b64 [{}], {};",
        global (address: u64, reg64);
    /// `tensormap.replace.tile.rank.global.b1024.b32`: as [`replace_rank_shared`],
    /// in global memory.
    replace_rank_global = "tensormap.replace.tile.rank.global.b1024.b32 [{}], {};",
        global (rank_less_one: u32, reg32);
    /// `tensormap.replace.tile.box_dim.global.b1024.b32`: as [`replace_box_dim_shared`],
    /// in global memory.
    replace_box_dim_global = "tensormap.replace.tile.box_dim.global.b1024.b32 [{}], {}, {};",
        global [ORD] (size: u32, reg32);
    /// `tensormap.replace.tile.global_dim.global.b1024.b32`: as [`replace_global_dim_shared`],
    /// in global memory.
    replace_global_dim_global = "tensormap.replace.tile.global_dim.global.b1024.b32 [{}], {}, {};",
        global [ORD] (size: u32, reg32);
    /// `tensormap.replace.tile.global_stride.global.b1024.b64`: as [`replace_global_stride_shared`],
    /// in global memory.
    replace_global_stride_global = "tensormap.replace.tile.global_stride.global.b1024.b64 [{}], {}, {};",
        global [ORD] (bytes: u64, reg64);
    /// `tensormap.replace.tile.element_stride.global.b1024.b32`: as [`replace_element_stride_shared`],
    /// in global memory.
    replace_element_stride_global = "tensormap.replace.tile.element_stride.global.b1024.b32 [{}], {}, {};",
        global [ORD] (stride: u32, reg32);
    /// `tensormap.replace.tile.elemtype.global.b1024.b32`: as [`replace_elemtype_shared`],
    /// in global memory.
    replace_elemtype_global = "tensormap.replace.tile.elemtype.global.b1024.b32 [{}], {};",
        global [VALUE];
    /// `tensormap.replace.tile.interleave_layout.global.b1024.b32`: as [`replace_interleave_layout_shared`],
    /// in global memory.
    replace_interleave_layout_global = "tensormap.replace.tile.interleave_layout.global.b1024.b32 [{}], {};",
        global [VALUE];
    /// `tensormap.replace.tile.swizzle_mode.global.b1024.b32`: as [`replace_swizzle_mode_shared`],
    /// in global memory.
    replace_swizzle_mode_global = "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [{}], {};",
        global [VALUE];
    /// `tensormap.replace.tile.fill_mode.global.b1024.b32`: as [`replace_fill_mode_shared`],
    /// in global memory.
    replace_fill_mode_global = "tensormap.replace.tile.fill_mode.global.b1024.b32 [{}], {};",
        global [VALUE];
}

macro_rules! copies {
    ($($(#[$meta:meta])* $name:ident = $template:literal;)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// All lanes of the warp call this in convergence, with the same operands. `src` holds a tensor map
        /// in this CTA's shared memory, written by threads that have synchronised with the warp's lanes
        /// since. `dst` is 128 bytes of global memory, aligned as the map, that nothing else uses.
        #[device]
        pub unsafe fn $name(dst: *mut TensorMapBytes, src: u32) {
            #[cfg(target_arch = "nvptx64")]
            ptx!($template, in(reg64) dst, in(reg32) src);
            #[cfg(not(target_arch = "nvptx64"))]
            sim::ops::tensormap::$name(dst.cast::<[u64; 16]>(), src);
        }
    )*};
}

copies! {
    /// `tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cta.sync.aligned`:
    /// copies a tensor map from shared to global memory, and releases it to the tensormap proxy of the
    /// CTA. (CUTLASS `tma_descriptor_cp_fence_release`.)
    cp_fenceproxy_cta = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cta.sync.aligned \
        [{}], [{}], 128;";
    /// `….cluster.sync.aligned`: the same for the cluster.
    cp_fenceproxy_cluster = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cluster.sync.aligned \
        [{}], [{}], 128;";
    /// `….gpu.sync.aligned`: the same for the GPU.
    cp_fenceproxy_gpu = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
        [{}], [{}], 128;";
    /// `….sys.sync.aligned`: the same for the system.
    cp_fenceproxy_sys = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.sys.sync.aligned \
        [{}], [{}], 128;";
}
