//! Changes of tensor maps: `tensormap.replace` and `tensormap.cp_fenceproxy`.

use crate::copy::check::MapPointer;
use crate::drive::current::{block, op};
use crate::exec::tensormap::{replace_global, replace_shared};
use crate::exec::warp;
use crate::types::scope::Scope;
use crate::types::tensor_map::Field;
use crate::warp::meeting::Meet;

/// A field whose value is a register: in shared memory, in global memory.
macro_rules! fields {
    ($($shared:ident, $global:ident $(<$ord:ident>)? ($value:ident: $ty:ty) = $name:literal, $field:expr;)*) => {$(
        #[doc = concat!("`tensormap.replace.tile.", $name, ".shared::cta.b1024`")]
        #[track_caller]
        pub fn $shared $(<const $ord: u32>)? (map: u32, $value: $ty) {
            op("tensormap.replace", map, |e, t| replace_shared(e, t, map, $field));
        }

        #[doc = concat!("`tensormap.replace.tile.", $name, ".global.b1024`")]
        #[track_caller]
        pub fn $global $(<const $ord: u32>)? (map: MapPointer, $value: $ty) {
            op("tensormap.replace", 0, |e, t| replace_global(e, t, map, $field));
        }
    )*};
}

/// A field whose value is part of the instruction.
macro_rules! modes {
    ($($shared:ident, $global:ident = $name:literal, $field:ident;)*) => {$(
        #[doc = concat!("`tensormap.replace.tile.", $name, ".shared::cta.b1024.b32`")]
        #[track_caller]
        pub fn $shared<const VALUE: u32>(map: u32) {
            op("tensormap.replace", map, |e, t| replace_shared(e, t, map, Field::$field(VALUE)));
        }

        #[doc = concat!("`tensormap.replace.tile.", $name, ".global.b1024.b32`")]
        #[track_caller]
        pub fn $global<const VALUE: u32>(map: MapPointer) {
            op("tensormap.replace", 0, |e, t| replace_global(e, t, map, Field::$field(VALUE)));
        }
    )*};
}

fields! {
    replace_global_address_shared, replace_global_address_global(address: u64) =
        "global_address", Field::Address(address);
    replace_rank_shared, replace_rank_global(rank_less_one: u32) =
        "rank", Field::Rank(rank_less_one);
    replace_box_dim_shared, replace_box_dim_global<ORD>(size: u32) =
        "box_dim", Field::BoxDim(ORD, size);
    replace_global_dim_shared, replace_global_dim_global<ORD>(size: u32) =
        "global_dim", Field::GlobalDim(ORD, size);
    replace_global_stride_shared, replace_global_stride_global<ORD>(bytes: u64) =
        "global_stride", Field::GlobalStride(ORD, bytes);
    replace_element_stride_shared, replace_element_stride_global<ORD>(stride: u32) =
        "element_stride", Field::ElementStride(ORD, stride);
}

modes! {
    replace_elemtype_shared, replace_elemtype_global = "elemtype", ElementType;
    replace_interleave_layout_shared, replace_interleave_layout_global =
        "interleave_layout", Interleave;
    replace_swizzle_mode_shared, replace_swizzle_mode_global = "swizzle_mode", Swizzle;
    replace_fill_mode_shared, replace_fill_mode_global = "fill_mode", Fill;
}

macro_rules! copies {
    ($($name:ident = $scope:ident, $ptx:literal;)*) => {$(
        #[doc = concat!("`tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.", $ptx)]
        #[doc = ".sync.aligned`"]
        #[track_caller]
        pub fn $name(dst: MapPointer, src: u32) {
            let meet = ("tensormap.cp_fenceproxy", Meet::MapCopy { scope: Scope::$scope });
            let given = [dst as u64 as u32, (dst as u64 >> 32) as u32, 0, 0];
            block("tensormap.cp_fenceproxy", src, |e, t| warp::meet(e, t, meet, given, src));
        }
    )*};
}

copies! {
    cp_fenceproxy_cta = Cta, "cta";
    cp_fenceproxy_cluster = Cluster, "cluster";
    cp_fenceproxy_gpu = Gpu, "gpu";
    cp_fenceproxy_sys = Gpu, "sys";
}
