//! Shared and global memory, conversions, matrix moves, copies of bytes.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{Word, cp_async, cp_async_bulk, cvt, global, kernel, math, matrix, shared};

use crate::keep;

/// Every access to one word type.
///
/// # Safety
/// Not for running.
unsafe fn word<T: Word>(s: u32, p: *mut T) {
    // SAFETY: assembled, never run.
    unsafe {
        let v: T = shared::ld(s);
        shared::st_cluster(s, v);
        let v: T = shared::ld_cluster(s);
        global::st(p, v);
        let v = global::ld(p.cast_const());
        shared::st(s, v);
        let v = global::ld_if(p.cast_const(), s > 1024, v);
        shared::st(s, v);
    }
}

#[kernel(threads = 32)]
fn word_ops(s: u32, p: u64) {
    // SAFETY: assembled, never run.
    unsafe {
        word(s, p as *mut u8);
        word(s, p as *mut u16);
        word(s, p as *mut u32);
        word(s, p as *mut u64);
        word(s, p as *mut f32);
        word(s, p as *mut [u32; 2]);
        word(s, p as *mut [u32; 4]);
    }
}

#[kernel(threads = 32, smem = 1024)]
fn atomic_ops(out: DeviceSliceMut<u64>, p: u64, v: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        keep(&out, 0, shared::atomic_add_u32(shared::dynamic_base(), v));
        keep(&out, 1, global::atomic_add_u32(p as *mut u32, v));
        keep(&out, 8, global::atomic_cas_u32(p as *mut u32, v, v + 1));
        keep(&out, 9, global::atomic_exch_u32(p as *mut u32, v));
        keep(&out, 2, global::atomic_add_f32(p as *mut f32, v as f32).to_bits());
        keep(&out, 3, global::ld_acquire_gpu_u32(p as *const u32));
        global::st_release_gpu_u32(p as *mut u32, v);
        global::red_release_gpu_add_u32(p as *mut u32, v);
        global::red_max_u32(p as *mut u32, v);
        keep(&out, 10, global::atomic_inc_acq_rel_gpu_u32(p as *mut u32, v));
        global::wait_acquire_gpu_u32(p as *const u32, v);
    }
}

#[kernel(threads = 32)]
fn cvt_ops(out: DeviceSliceMut<u64>, lo: f32, hi: f32, v: u32) {
    keep(&out, 0, cvt::bf16x2(lo, hi));
    keep(&out, 1, cvt::f16x2(lo, hi));
    let [a, b] = cvt::bf16x2_to_f32(v);
    let [c, d] = cvt::f16x2_to_f32(v);
    keep(&out, 2, (a + b).to_bits());
    keep(&out, 3, (c + d).to_bits());
    keep(&out, 4, u32::from(cvt::e4m3x2(lo, hi)));
    keep(&out, 5, u32::from(cvt::e5m2x2(lo, hi)));
    keep(&out, 6, cvt::e4m3x2_to_f16x2(v as u16));
    keep(&out, 7, cvt::e5m2x2_to_f16x2(v as u16));
    keep(&out, 8, cvt::tf32(lo).to_bits());
}

#[kernel(threads = 32)]
fn math_ops(out: DeviceSliceMut<u64>, a: f32, b: f32, c: f32) {
    keep(&out, 0, math::sqrt(a).to_bits());
    keep(&out, 1, math::sqrt_approx(a).to_bits());
    keep(&out, 2, math::rsqrt_approx(a).to_bits());
    keep(&out, 3, math::rcp_approx(a).to_bits());
    keep(&out, 4, math::ex2_approx(a).to_bits());
    keep(&out, 12, math::ex2_approx_ftz(a).to_bits());
    keep(&out, 13, math::rcp_approx_ftz(a).to_bits());
    keep(&out, 5, math::lg2_approx(a).to_bits());
    keep(&out, 6, math::tanh_approx(a).to_bits());
    keep(&out, 7, math::min(a, b).to_bits());
    keep(&out, 8, math::max(a, b).to_bits());
    keep(&out, 14, math::max_nan(a, b).to_bits());
    keep(&out, 9, math::fma(a, b, c).to_bits());
    keep(&out, 10, math::abs(a).to_bits());
    keep(&out, 11, math::floor(a).to_bits());
}

#[kernel(threads = 32)]
fn matrix_ops(s: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        let v = matrix::ldmatrix_x1(s);
        matrix::stmatrix_x1(s, v);
        let v = matrix::ldmatrix_x1_trans(s);
        matrix::stmatrix_x1_trans(s, v);
        let v = matrix::ldmatrix_x2(s);
        matrix::stmatrix_x2(s, v);
        let v = matrix::ldmatrix_x2_trans(s);
        matrix::stmatrix_x2_trans(s, v);
        let v = matrix::ldmatrix_x4(s);
        matrix::stmatrix_x4(s, v);
        let v = matrix::ldmatrix_x4_trans(s);
        matrix::stmatrix_x4_trans(s, v);
    }
}

#[kernel(threads = 32)]
fn copy_ops(s: u32, p: u64, bytes: u32, bar: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        cp_async::copy_16(s, p as *const u8);
        cp_async::copy_16_zfill(s, p as *const u8, bytes);
        cp_async::commit_group();
        cp_async::wait_group::<1>();
        cp_async_bulk::load(s, p as *const u8, bytes, bar);
        cp_async_bulk::copy_to_cta(s, s, bytes, bar);
        cp_async_bulk::store(p as *mut u8, s, bytes);
        cp_async_bulk::reduce_add_u32(p as *mut u8, s, bytes);
        cp_async_bulk::reduce_add_f32(p as *mut u8, s, bytes);
        cp_async_bulk::commit_group();
        cp_async_bulk::wait_group_read::<1>();
        cp_async_bulk::wait_group::<0>();
    }
}

macro_rules! slices {
    ($($name:ident: $t:ty;)*) => {$(
        #[kernel(threads = 32)]
        fn $name(a: DeviceSlice<$t>, b: DeviceSliceMut<$t>) {
            if a.is_empty() || b.is_empty() {
                return;
            }
            let i = a.len().min(b.len()) - 1;
            if let (Some(x), Some(_)) = (a.get(i), b.get(i)) {
                b.set(i, x);
            }
        }
    )*};
}
slices! {
    slice_bf16: half::bf16;
    slice_f16: half::f16;
    slice_f32: f32;
    slice_u32: u32;
    slice_u16: u16;
    slice_u64: u64;
    slice_i32: i32;
}
