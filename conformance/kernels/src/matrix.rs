//! `ldmatrix` and `stmatrix`: the element in each register of each lane.

use isa::slice::DeviceSliceMut;
use isa::{kernel, matrix, shared, thread, warp};

/// Bytes of the four matrices.
pub const BYTES: u32 = 512;

/// The 16-byte row whose address lane `lane` passes: row `(5 lane) mod 32`. The order is irregular, so that
/// a wrong lane shows.
#[inline(always)]
fn row(base: u32, lane: u32) -> u32 {
    base + 16 * (5 * lane % 32)
}

/// All loads of matrices whose 16-bit elements hold their own index: word `32 r + lane` is register r,
/// for x1, x2, x4 and the same transposed (14 registers).
#[kernel(threads = 32, smem = BYTES)]
pub fn matrix_loads(out: DeviceSliceMut<'_, u32>) {
    let lane = thread::thread_idx_x();
    let base = shared::dynamic_base();
    // SAFETY: the rows are the warp's own memory, written before all lanes meet.
    unsafe {
        for i in 0..4 {
            let word = 4 * lane + i;
            shared::st(base + 4 * word, (2 * word) | (2 * word + 1) << 16);
        }
        warp::sync_warp(u32::MAX);
        let addr = row(base, lane);
        let [a0] = matrix::ldmatrix_x1(addr);
        let [b0, b1] = matrix::ldmatrix_x2(addr);
        let [c0, c1, c2, c3] = matrix::ldmatrix_x4(addr);
        let [d0] = matrix::ldmatrix_x1_trans(addr);
        let [e0, e1] = matrix::ldmatrix_x2_trans(addr);
        let [f0, f1, f2, f3] = matrix::ldmatrix_x4_trans(addr);
        let all = [a0, b0, b1, c0, c1, c2, c3, d0, e0, e1, f0, f1, f2, f3];
        for (r, v) in all.into_iter().enumerate() {
            out.set(32 * r + lane as usize, v);
        }
    }
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident: $store:ident, $n:literal;)*) => {$(
        $(#[$doc])*
        #[kernel(threads = 32, smem = BYTES)]
        pub fn $name(out: DeviceSliceMut<'_, u32>) {
            let lane = thread::thread_idx_x();
            let base = shared::dynamic_base();
            // Element 2 r of lane l is 16 l + 2 r, element 2 r + 1 one more.
            let v: [u32; $n] = core::array::from_fn(|r| {
                let first = 16 * lane + 2 * r as u32;
                first | (first + 1) << 16
            });
            // SAFETY: the rows are the warp's own memory; all lanes meet before and after the store.
            unsafe {
                for i in 0..4 {
                    shared::st(base + 4 * (4 * lane + i), u32::MAX);
                }
                warp::sync_warp(u32::MAX);
                matrix::$store(row(base, lane), v);
                warp::sync_warp(u32::MAX);
                for i in 0..4 {
                    let word = 4 * lane + i;
                    out.set(word as usize, shared::ld(base + 4 * word));
                }
            }
        }
    )*};
}

stores! {
    /// Memory after `stmatrix_x1`; what it leaves alone is all ones.
    matrix_store_x1: stmatrix_x1, 1;
    /// Memory after `stmatrix_x2`.
    matrix_store_x2: stmatrix_x2, 2;
    /// Memory after `stmatrix_x4`.
    matrix_store_x4: stmatrix_x4, 4;
    /// Memory after `stmatrix_x1_trans`.
    matrix_store_x1_trans: stmatrix_x1_trans, 1;
    /// Memory after `stmatrix_x2_trans`.
    matrix_store_x2_trans: stmatrix_x2_trans, 2;
    /// Memory after `stmatrix_x4_trans`.
    matrix_store_x4_trans: stmatrix_x4_trans, 4;
}
