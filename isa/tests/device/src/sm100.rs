//! Tensor memory and tcgen05, for Blackwell.

use crate::keep;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use isa::cp_async_bulk::TensorMapBytes;
use isa::slice::DeviceSliceMut;
use isa::tcgen05::{self, Loaded, Swizzle, Ue4m3, Ue8m0};
use isa::{E2m1x2, Tf32};
use isa::{clusterlaunchcontrol, kernel, shared};

fn keep_all<const N: usize>(out: &DeviceSliceMut<u64>, at: usize, loaded: Loaded<N>) {
    // SAFETY: assembled, never run.
    unsafe { tcgen05::wait_ld() };
    let all = loaded.ready().into_iter().fold(0, u32::wrapping_add);
    keep(out, at, all);
}

/// Every load. The split of the halves of a warp is the number of columns of one.
#[kernel(threads = 128)]
pub fn tensor_loads(taddr: u32, out: DeviceSliceMut<u64>) {
    let out = &out;
    // SAFETY: assembled, never run.
    unsafe {
        keep_all(out, 0, tcgen05::ld_32x32b_x1(taddr));
        keep_all(out, 1, tcgen05::ld_32x32b_x2(taddr));
        keep_all(out, 2, tcgen05::ld_32x32b_x4(taddr));
        keep_all(out, 3, tcgen05::ld_32x32b_x8(taddr));
        keep_all(out, 4, tcgen05::ld_32x32b_x16(taddr));
        keep_all(out, 5, tcgen05::ld_32x32b_x32(taddr));
        keep_all(out, 6, tcgen05::ld_32x32b_x64(taddr));
        keep_all(out, 7, tcgen05::ld_32x32b_x128(taddr));
        keep_all(out, 8, tcgen05::ld_16x64b_x1(taddr));
        keep_all(out, 9, tcgen05::ld_16x64b_x2(taddr));
        keep_all(out, 10, tcgen05::ld_16x64b_x4(taddr));
        keep_all(out, 11, tcgen05::ld_16x64b_x8(taddr));
        keep_all(out, 12, tcgen05::ld_16x64b_x16(taddr));
        keep_all(out, 13, tcgen05::ld_16x64b_x32(taddr));
        keep_all(out, 14, tcgen05::ld_16x64b_x64(taddr));
        keep_all(out, 15, tcgen05::ld_16x64b_x128(taddr));
        keep_all(out, 16, tcgen05::ld_16x128b_x1(taddr));
        keep_all(out, 17, tcgen05::ld_16x128b_x2(taddr));
        keep_all(out, 18, tcgen05::ld_16x128b_x4(taddr));
        keep_all(out, 19, tcgen05::ld_16x128b_x8(taddr));
        keep_all(out, 20, tcgen05::ld_16x128b_x16(taddr));
        keep_all(out, 21, tcgen05::ld_16x128b_x32(taddr));
        keep_all(out, 22, tcgen05::ld_16x128b_x64(taddr));
        keep_all(out, 23, tcgen05::ld_16x256b_x1(taddr));
        keep_all(out, 24, tcgen05::ld_16x256b_x2(taddr));
        keep_all(out, 25, tcgen05::ld_16x256b_x4(taddr));
        keep_all(out, 26, tcgen05::ld_16x256b_x8(taddr));
        keep_all(out, 27, tcgen05::ld_16x256b_x16(taddr));
        keep_all(out, 28, tcgen05::ld_16x256b_x32(taddr));
        keep_all(out, 29, tcgen05::ld_16x32bx2_x1::<1>(taddr));
        keep_all(out, 30, tcgen05::ld_16x32bx2_x2::<2>(taddr));
        keep_all(out, 31, tcgen05::ld_16x32bx2_x4::<4>(taddr));
        keep_all(out, 32, tcgen05::ld_16x32bx2_x8::<8>(taddr));
        keep_all(out, 33, tcgen05::ld_16x32bx2_x16::<16>(taddr));
        keep_all(out, 34, tcgen05::ld_16x32bx2_x32::<32>(taddr));
        keep_all(out, 35, tcgen05::ld_16x32bx2_x64::<64>(taddr));
        keep_all(out, 36, tcgen05::ld_16x32bx2_x128::<128>(taddr));
    }
}

/// Every store.
#[kernel(threads = 128)]
pub fn tensor_stores(taddr: u32, value: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        tcgen05::st_32x32b_x1(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x2(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x4(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x8(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x16(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x32(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x64(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_32x32b_x128(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x1(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x2(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x4(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x8(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x16(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x32(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x64(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x64b_x128(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x1(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x2(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x4(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x8(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x16(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x32(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x128b_x64(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x1(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x2(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x4(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x8(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x16(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x256b_x32(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x1::<1>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x2::<2>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x4::<4>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x8::<8>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x16::<16>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x32::<32>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x64::<64>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::st_16x32bx2_x128::<128>(taddr, core::array::from_fn(|i| value + i as u32));
        tcgen05::wait_st();
    }
}

/// Allocation, multiplication, commit, fences.
#[kernel(threads = 128, smem = 4096)]
pub fn tensor_mma(bar: u32, operand: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        let at = shared::dynamic_base();
        tcgen05::alloc(at, 64);
        tcgen05::relinquish_alloc_permit();
        let d: u32 = shared::ld(at);
        tcgen05::fence_after_thread_sync();
        let a = tcgen05::shared(operand, 16, 1024, Swizzle::B128);
        tcgen05::mma_f16(d, a, a, tcgen05::instruction::<bf16, bf16>(128, 64), false);
        tcgen05::mma_f16(d, a, a, tcgen05::instruction::<f16, f16>(128, 64), true);
        tcgen05::mma_tf32(d, a, a, tcgen05::instruction::<Tf32, Tf32>(128, 64), true);
        tcgen05::mma_f8f6f4(d, a, a, tcgen05::instruction::<F8E4M3, F8E5M2>(128, 64), true);
        tcgen05::mma_f16_ts(d, d + 32, a, tcgen05::instruction::<bf16, f16>(128, 64), true);
        tcgen05::mma_tf32_ts(d, d + 32, a, tcgen05::instruction::<Tf32, Tf32>(128, 64), true);
        tcgen05::mma_f8f6f4_ts(d, d + 32, a, tcgen05::instruction::<F8E5M2, F8E5M2>(128, 64), true);
        #[cfg(feature = "sm100-i8")]
        tcgen05::mma_i8_ts(d, d + 32, a, tcgen05::instruction::<i8, i8>(128, 64), false);
        #[cfg(feature = "sm100-i8")]
        tcgen05::mma_i8(d, a, a, tcgen05::instruction::<i8, i8>(128, 64), false);
        let rows = tcgen05::shared(operand, 128, 256, Swizzle::None);
        tcgen05::cp_128x256b(d + 32, rows);
        tcgen05::cp_4x256b(d + 32, rows);
        tcgen05::cp_128x128b(d + 32, rows);
        tcgen05::cp_64x128b_warpx2_02_13(d + 32, rows);
        tcgen05::cp_64x128b_warpx2_01_23(d + 32, rows);
        tcgen05::cp_32x128b_warpx4(d + 32, tcgen05::shared(operand, 16, 128, Swizzle::None));
        tcgen05::shift_down(d + 32);
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E5M2>(128, 64, 1);
        tcgen05::mma_mxf8f6f4_block_scale(d, a, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(128, 64, 2);
        tcgen05::mma_mxf4_block_scale(d, a, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(128, 64, 0);
        tcgen05::mma_mxf4nvf4_block_scale(d, a, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E5M2, F8E4M3>(128, 64, 3);
        tcgen05::mma_mxf8f6f4_block_scale_ts(d, d + 40, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(128, 64, 0);
        tcgen05::mma_mxf4_block_scale_ts(d, d + 40, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(128, 64, 0);
        tcgen05::mma_mxf4nvf4_block_scale_ts(d, d + 40, a, idesc, d + 32, d + 36, true);
        tcgen05::commit(bar);
        tcgen05::commit_multicast(bar, 3);
        tcgen05::fence_before_thread_sync();
        tcgen05::dealloc(d, 64);
    }
}

/// The same by a pair of CTAs. A kernel has instructions of one `.cta_group`.
#[kernel(threads = 128, smem = 4096, cluster = (2, 1, 1))]
pub fn tensor_pair(bar: u32, operand: u32, map: u64) {
    // SAFETY: assembled, never run.
    unsafe {
        let at = shared::dynamic_base();
        tcgen05::alloc_2sm(at, 64);
        tcgen05::relinquish_alloc_permit_2sm();
        let d: u32 = shared::ld(at);
        tcgen05::tensor_load_2sm(operand, map as *const TensorMapBytes, [0, 0], bar);
        tcgen05::fence_after_thread_sync();
        let a = tcgen05::shared(operand, 16, 1024, Swizzle::B128);
        tcgen05::mma_f16_2sm(d, a, a, tcgen05::instruction::<bf16, bf16>(256, 64), false);
        tcgen05::mma_tf32_2sm(d, a, a, tcgen05::instruction::<Tf32, Tf32>(256, 64), true);
        tcgen05::mma_f8f6f4_2sm(d, a, a, tcgen05::instruction::<F8E4M3, F8E5M2>(256, 64), true);
        #[cfg(feature = "sm100-i8")]
        tcgen05::mma_i8_2sm(d, a, a, tcgen05::instruction::<i8, i8>(256, 64), false);
        let idesc = tcgen05::instruction::<bf16, f16>(256, 64);
        tcgen05::mma_f16_ts_2sm(d, d + 40, a, idesc, true);
        let idesc = tcgen05::instruction::<Tf32, Tf32>(256, 64);
        tcgen05::mma_tf32_ts_2sm(d, d + 40, a, idesc, true);
        let idesc = tcgen05::instruction::<F8E5M2, F8E5M2>(256, 64);
        tcgen05::mma_f8f6f4_ts_2sm(d, d + 40, a, idesc, true);
        #[cfg(feature = "sm100-i8")]
        tcgen05::mma_i8_ts_2sm(d, d + 40, a, tcgen05::instruction::<i8, i8>(256, 64), false);
        let rows = tcgen05::shared(operand, 128, 256, Swizzle::None);
        tcgen05::cp_128x256b_2sm(d + 32, rows);
        tcgen05::cp_4x256b_2sm(d + 32, rows);
        tcgen05::cp_128x128b_2sm(d + 32, rows);
        tcgen05::cp_64x128b_warpx2_02_13_2sm(d + 32, rows);
        tcgen05::cp_64x128b_warpx2_01_23_2sm(d + 32, rows);
        tcgen05::cp_32x128b_warpx4_2sm(d + 32, tcgen05::shared(operand, 16, 128, Swizzle::None));
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E5M2>(256, 48, 1);
        tcgen05::mma_mxf8f6f4_block_scale_2sm(d, a, a, idesc, d + 32, d + 36, true);
        tcgen05::mma_mxf8f6f4_block_scale_ts_2sm(d, d + 40, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(256, 48, 2);
        tcgen05::mma_mxf4_block_scale_2sm(d, a, a, idesc, d + 32, d + 36, true);
        tcgen05::mma_mxf4_block_scale_ts_2sm(d, d + 40, a, idesc, d + 32, d + 36, true);
        let idesc = tcgen05::instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(256, 48, 0);
        tcgen05::mma_mxf4nvf4_block_scale_2sm(d, a, a, idesc, d + 32, d + 36, true);
        tcgen05::mma_mxf4nvf4_block_scale_ts_2sm(d, d + 40, a, idesc, d + 32, d + 36, true);
        tcgen05::shift_down_2sm(d + 32);
        tcgen05::commit_2sm(bar);
        tcgen05::commit_multicast_2sm(bar, 3);
        tcgen05::fence_before_thread_sync();
        tcgen05::dealloc_2sm(d, 64);
    }
}

/// Launch control.
#[kernel(threads = 128, smem = 4096, cluster = (2, 1, 1))]
pub fn launch_control(bar: u32, out: DeviceSliceMut<u64>) {
    // SAFETY: assembled, never run.
    unsafe {
        let to = shared::dynamic_base();
        clusterlaunchcontrol::try_cancel(to, bar);
        clusterlaunchcontrol::try_cancel_multicast(to, bar);
        let first = clusterlaunchcontrol::query_cancel(to).unwrap_or([u32::MAX; 3]);
        keep(&out, 0, first[0] + first[1] + first[2]);
    }
}
