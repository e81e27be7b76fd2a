//! Arithmetic: the approximate functions, and the exact ones.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{kernel, math, thread};

/// Words that [`exact_arithmetic`](fn@exact_arithmetic) writes per element.
pub const EXACT: usize = 5;

/// An approximate function of each float whose bits `from` holds, by its number: `ex2`, `lg2`, `rcp`, `rsqrt`,
/// `sqrt`, `tanh`, and `ex2` and `rcp` that flush subnormal
/// numbers.
#[kernel(threads = 32)]
pub fn approximation(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>, function: u32) {
    let mut i = thread::thread_idx_x() as usize;
    while let Some(bits) = from.get(i) {
        let x = f32::from_bits(bits);
        let y = match function {
            0 => math::ex2_approx(x),
            1 => math::lg2_approx(x),
            2 => math::rcp_approx(x),
            3 => math::rsqrt_approx(x),
            4 => math::sqrt_approx(x),
            5 => math::tanh_approx(x),
            6 => math::ex2_approx_ftz(x),
            _ => math::rcp_approx_ftz(x),
        };
        out.set(i, y.to_bits());
        i += 32;
    }
}

/// Of each three floats a, b, c whose bits `from` holds: the lesser and the greater of a and b, a * b + c, the
/// magnitude of a, and the greatest integer that is not above it.
#[kernel(threads = 32)]
pub fn exact_arithmetic(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>) {
    let mut i = thread::thread_idx_x() as usize;
    while let (Some(a), Some(b), Some(c)) =
        (from.get(3 * i), from.get(3 * i + 1), from.get(3 * i + 2))
    {
        let [a, b, c] = [a, b, c].map(f32::from_bits);
        let at = EXACT * i;
        out.set(at, math::min(a, b).to_bits());
        out.set(at + 1, math::max(a, b).to_bits());
        out.set(at + 2, math::fma(a, b, c).to_bits());
        out.set(at + 3, math::abs(a).to_bits());
        out.set(at + 4, math::floor(a).to_bits());
        i += 32;
    }
}
