//! wgmma of the element types that are K-major only, against plain products.

use crate::common::{Shape, passes, tid};
use float8::{F8E4M3, F8E5M2};
use sim::ops::wgmma::{self, Major, OperandType, Sum};
use sim::ops::{fence, shared, thread, warp};

/// Bytes along K: two rows of the 32-byte steps' four in a 128-byte row.
const ROW: u32 = 128;
/// Where B starts.
const B: u32 = 64 * ROW;

/// Small whole numbers, which every type has.
fn element(which: u32, row: u32, k: u32) -> i32 {
    (((which + 3) * 7 + row * 5 + k * 11) % 9) as i32 - 4
}

/// Bits of an element.
fn bits(x: i32, dtype: OperandType) -> u32 {
    let float = x as f32;
    match dtype {
        OperandType::E2m1 => unreachable!("tcgen05 has it, and wgmma does not"),
        OperandType::S8 => u32::from((x as i8).cast_unsigned()),
        OperandType::E4m3 => u32::from(F8E4M3::from_f32(float).to_bits()),
        OperandType::E5m2 => u32::from(F8E5M2::from_f32(float).to_bits()),
        // The tensor core does not read the 13 lowest bits.
        OperandType::Tf32 => float.to_bits() | 0x1fff,
        OperandType::Bf16 | OperandType::F16 => unreachable!("types of 16 bits"),
    }
}

/// Elements of 32 bits.
fn each(dtype: OperandType) -> u32 {
    if dtype == OperandType::Tf32 { 1 } else { 4 }
}

/// 32 bits of operand `which`: the elements from (`row`, `k`) on.
fn word(which: u32, row: u32, k: u32, dtype: OperandType) -> u32 {
    let size = 32 / each(dtype);
    (0..each(dtype)).map(|e| bits(element(which, row, k + e), dtype) << (e * size)).sum()
}

/// Two of four steps along K: D = A·Bᵀ + 3.
fn product<S: Sum + Into<f64> + Sync, const REGS: usize>(
    three: S,
    types: [OperandType; 2],
    from_registers: bool,
) {
    let n = 2 * REGS as u32;
    let each = each(types[0]);
    let depth = ROW / 4 * each;
    passes(Shape(128, 1, B + 256 * ROW), move || {
        let base = shared::dynamic_base();
        for (which, rows, start) in [(0, 64, 0), (1, n, B)] {
            for i in (tid()..rows * ROW / 4).step_by(128) {
                let (row, at) = (i / (ROW / 4), i % (ROW / 4));
                let swizzled = (at * 4) ^ (row % 8 * 16);
                let v = word(which, row, at * each, types[which as usize]);
                shared::st(base + start + row * ROW + swizzled, v);
            }
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        let descriptor = |start: u32, step: u32| {
            let at = base + start + 32 * step;
            (u64::from(at >> 4) | u64::from(1024u32 >> 4) << 32 | 1 << 62, Major::K)
        };
        let row = warp::warp_id() * 16 + warp::lane_id() / 4;
        let mut d = [three; REGS];
        let mut fragments: [[u32; 4]; 2] = [1, 2].map(|step| {
            std::array::from_fn(|i| {
                let i = i as u32;
                let k = depth / 4 * step + each * (warp::lane_id() % 4 + 4 * (i / 2));
                word(0, row + 8 * (i % 2), k, types[0])
            })
        });
        wgmma::fence();
        for (step, a) in (1..3).zip(&mut fragments) {
            if from_registers {
                wgmma::mma_rs(&mut d, a, descriptor(B, step), true, types);
            } else {
                wgmma::mma_ss(&mut d, descriptor(0, step), descriptor(B, step), true, types);
            }
        }
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        wgmma::fence_operand(&mut d);
        for (i, &have) in d.iter().enumerate() {
            let i = i as u32;
            let m = row + 8 * (i / 2 % 2);
            let n = i / 4 * 8 + 2 * (warp::lane_id() % 4) + i % 2;
            let products = (depth / 4..depth / 4 * 3).map(|k| element(0, m, k) * element(1, n, k));
            let want = f64::from(3 + products.sum::<i32>());
            let have: f64 = have.into();
            assert!((have - want).abs() < 1e-9, "{types:?}: element {m}, {n}: {have} for {want}");
        }
    });
}

#[test]
fn products_of_eight_bit_floats() {
    let types = [OperandType::E4m3, OperandType::E5m2];
    for a in types {
        for b in types {
            product::<f32, 4>(3.0, [a, b], false);
            product::<f32, 12>(3.0, [a, b], true);
        }
    }
    product::<f32, 128>(3.0, types, false);
}

#[test]
fn products_of_integers() {
    product::<i32, 4>(3, [OperandType::S8; 2], false);
    product::<i32, 32>(3, [OperandType::S8; 2], true);
    product::<i32, 128>(3, [OperandType::S8; 2], false);
}

#[test]
fn products_of_tf32() {
    product::<f32, 4>(3.0, [OperandType::Tf32; 2], false);
    product::<f32, 20>(3.0, [OperandType::Tf32; 2], true);
    product::<f32, 128>(3.0, [OperandType::Tf32; 2], false);
}
