//! Tensor maps and wgmma.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use isa::Tf32;
use isa::cp_async_bulk::{self, ReduceOp, TensorMapBytes};
use isa::kernel;
use isa::matrix;
use isa::slice::DeviceSliceMut;
use isa::tensormap;
use isa::wgmma::{self, KMajor, M64, MnMajor, Shape, Swizzle};

/// Every operation on maps of rank `D`.
///
/// # Safety
/// Not for running.
unsafe fn rank<const D: usize>(map: *const TensorMapBytes, s: u32, c: i32, bar: u32, mask: u16) {
    let mut coords = [c; D];
    coords[0] = 64;
    // SAFETY: assembled, never run.
    unsafe {
        cp_async_bulk::tensor_prefetch(map, coords);
        cp_async_bulk::tensor_load(s, map, coords, bar);
        cp_async_bulk::tensor_load_multicast(s, map, coords, bar, mask);
        cp_async_bulk::tensor_store(map, coords, s);
        for op in [
            ReduceOp::Add,
            ReduceOp::Min,
            ReduceOp::Max,
            ReduceOp::Inc,
            ReduceOp::Dec,
            ReduceOp::And,
            ReduceOp::Or,
            ReduceOp::Xor,
        ] {
            cp_async_bulk::tensor_reduce(op, map, coords, s);
        }
    }
}

#[kernel(threads = 32)]
fn tensor_ops(map: u64, s: u32, c: i32, bar: u32, mask: u32) {
    let map = map as *const TensorMapBytes;
    // SAFETY: assembled, never run.
    unsafe {
        cp_async_bulk::prefetch_tensormap(map);
        rank::<1>(map, s, c, bar, mask as u16);
        rank::<2>(map, s, c, bar, mask as u16);
        rank::<3>(map, s, c, bar, mask as u16);
        rank::<4>(map, s, c, bar, mask as u16);
        rank::<5>(map, s, c, bar, mask as u16);
    }
}

#[kernel(threads = 32)]
fn tensormap_ops(map: u64, s: u32, v: u32) {
    let map = map as *mut TensorMapBytes;
    // SAFETY: assembled, never run.
    unsafe {
        tensormap::replace_global_address_shared(s, u64::from(v));
        tensormap::replace_rank_shared(s, v);
        tensormap::replace_box_dim_shared::<0>(s, v);
        tensormap::replace_box_dim_shared::<4>(s, v);
        tensormap::replace_global_dim_shared::<0>(s, v);
        tensormap::replace_global_dim_shared::<4>(s, v);
        tensormap::replace_global_stride_shared::<0>(s, u64::from(v));
        tensormap::replace_global_stride_shared::<3>(s, u64::from(v));
        tensormap::replace_element_stride_shared::<0>(s, v);
        tensormap::replace_element_stride_shared::<4>(s, v);
        tensormap::replace_elemtype_shared::<10>(s);
        tensormap::replace_interleave_layout_shared::<0>(s);
        tensormap::replace_swizzle_mode_shared::<3>(s);
        tensormap::replace_fill_mode_shared::<0>(s);
        tensormap::replace_global_address_global(map, u64::from(v));
        tensormap::replace_rank_global(map, v);
        tensormap::replace_box_dim_global::<0>(map, v);
        tensormap::replace_box_dim_global::<4>(map, v);
        tensormap::replace_global_dim_global::<0>(map, v);
        tensormap::replace_global_dim_global::<4>(map, v);
        tensormap::replace_global_stride_global::<0>(map, u64::from(v));
        tensormap::replace_global_stride_global::<3>(map, u64::from(v));
        tensormap::replace_element_stride_global::<0>(map, v);
        tensormap::replace_element_stride_global::<4>(map, v);
        tensormap::replace_elemtype_global::<10>(map);
        tensormap::replace_interleave_layout_global::<0>(map);
        tensormap::replace_swizzle_mode_global::<3>(map);
        tensormap::replace_fill_mode_global::<0>(map);
        tensormap::cp_fenceproxy_cta(map, s);
        tensormap::cp_fenceproxy_cluster(map, s);
        tensormap::cp_fenceproxy_gpu(map, s);
        tensormap::cp_fenceproxy_sys(map, s);
    }
}

macro_rules! wgmmas {
    ($($name:ident: $n:literal;)*) => {$(
        #[kernel(threads = 128)]
        fn $name(out: DeviceSliceMut<f32>, s: u32, scale: u32) {
            let a = wgmma::descriptor(s, 16, 1024, Swizzle::B128);
            let b = wgmma::descriptor(s + 8192, 16, 1024, Swizzle::B128);
            let mut d = <M64<$n> as Shape>::ZERO;
            // SAFETY: assembled, never run.
            unsafe {
                // The sums are zeroed, and A is in registers of its own, before the fence that
                // hands them over: ptxas 13.0 adds a fence of its own otherwise (C7519).
                <M64<$n> as Shape>::fence_operand(&mut d);
                let mut a_regs = matrix::ldmatrix_x4(s);
                wgmma::fence();
                M64::<$n>::mma::<bf16, bf16, KMajor, KMajor>(&mut d, a, b, scale != 0);
                M64::<$n>::mma::<bf16, bf16, KMajor, MnMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<bf16, bf16, MnMajor, KMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<bf16, bf16, MnMajor, MnMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<f16, f16, KMajor, KMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<f16, f16, KMajor, MnMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<f16, f16, MnMajor, KMajor>(&mut d, a, b, true);
                M64::<$n>::mma::<f16, f16, MnMajor, MnMajor>(&mut d, a, b, true);
                M64::<$n>::mma_rs::<bf16, bf16, KMajor>(&mut d, &mut a_regs, b, true);
                M64::<$n>::mma_rs::<bf16, bf16, MnMajor>(&mut d, &mut a_regs, b, true);
                M64::<$n>::mma_rs::<f16, f16, KMajor>(&mut d, &mut a_regs, b, true);
                M64::<$n>::mma_rs::<f16, f16, MnMajor>(&mut d, &mut a_regs, b, true);
                wgmma::commit_group();
                wgmma::wait_group_after::<1>(1.0);
                wgmma::wait_group::<0>();
                wgmma::fence_fragment(&mut a_regs);
            }
            <M64<$n> as Shape>::fence_operand(&mut d);
            for (i, v) in d.into_iter().enumerate() {
                out.set(i, v);
            }
        }
    )*};
}
wgmmas! {
    wgmma_n8: 8; wgmma_n16: 16; wgmma_n24: 24; wgmma_n32: 32;
    wgmma_n40: 40; wgmma_n48: 48; wgmma_n56: 56; wgmma_n64: 64;
    wgmma_n72: 72; wgmma_n80: 80; wgmma_n88: 88; wgmma_n96: 96;
    wgmma_n104: 104; wgmma_n112: 112; wgmma_n120: 120; wgmma_n128: 128;
    wgmma_n136: 136; wgmma_n144: 144; wgmma_n152: 152; wgmma_n160: 160;
    wgmma_n168: 168; wgmma_n176: 176; wgmma_n184: 184; wgmma_n192: 192;
    wgmma_n200: 200; wgmma_n208: 208; wgmma_n216: 216; wgmma_n224: 224;
    wgmma_n232: 232; wgmma_n240: 240; wgmma_n248: 248; wgmma_n256: 256;
}

/// The types that are K-major only, with sums of `$sum`.
macro_rules! k_major {
    ($($name:ident: $n:literal, $sum:ty, [$($a:ty, $b:ty);+];)*) => {$(
        #[kernel(threads = 128)]
        fn $name(out: DeviceSliceMut<$sum>, s: u32, scale: u32) {
            let a = wgmma::descriptor(s, 16, 1024, Swizzle::B128);
            let b = wgmma::descriptor(s + 8192, 16, 1024, Swizzle::B128);
            let mut d = <M64<$n> as Shape<$sum>>::ZERO;
            // SAFETY: assembled, never run.
            unsafe {
                <M64<$n> as Shape<$sum>>::fence_operand(&mut d);
                let mut a_regs = matrix::ldmatrix_x4(s);
                wgmma::fence();
                $(M64::<$n>::mma::<$a, $b, KMajor, KMajor>(&mut d, a, b, scale != 0);
                M64::<$n>::mma_rs::<$a, $b, KMajor>(&mut d, &mut a_regs, b, true);)+
                wgmma::commit_group();
                wgmma::wait_group::<0>();
                wgmma::fence_fragment(&mut a_regs);
            }
            <M64<$n> as Shape<$sum>>::fence_operand(&mut d);
            for (i, v) in d.into_iter().enumerate() {
                out.set(i, v);
            }
        }
    )*};
}

macro_rules! floats {
    ($($name:ident: $n:literal;)*) => {
        k_major! {$(
            $name: $n, f32,
                [Tf32, Tf32; F8E4M3, F8E4M3; F8E4M3, F8E5M2; F8E5M2, F8E4M3; F8E5M2, F8E5M2];
        )*}
    };
}
floats! {
    floats_n8: 8; floats_n16: 16; floats_n24: 24; floats_n32: 32;
    floats_n40: 40; floats_n48: 48; floats_n56: 56; floats_n64: 64;
    floats_n72: 72; floats_n80: 80; floats_n88: 88; floats_n96: 96;
    floats_n104: 104; floats_n112: 112; floats_n120: 120; floats_n128: 128;
    floats_n136: 136; floats_n144: 144; floats_n152: 152; floats_n160: 160;
    floats_n168: 168; floats_n176: 176; floats_n184: 184; floats_n192: 192;
    floats_n200: 200; floats_n208: 208; floats_n216: 216; floats_n224: 224;
    floats_n232: 232; floats_n240: 240; floats_n248: 248; floats_n256: 256;
}

macro_rules! integers {
    ($($name:ident: $n:literal;)*) => {
        k_major! {$($name: $n, i32, [i8, i8];)*}
    };
}
integers! {
    integers_n8: 8; integers_n16: 16; integers_n24: 24; integers_n32: 32;
    integers_n48: 48; integers_n64: 64; integers_n80: 80; integers_n96: 96;
    integers_n112: 112; integers_n128: 128; integers_n144: 144; integers_n160: 160;
    integers_n176: 176; integers_n192: 192; integers_n208: 208; integers_n224: 224;
    integers_n240: 240; integers_n256: 256;
}
