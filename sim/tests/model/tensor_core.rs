//! wgmma against a plain product, and the warp's matrix moves.

use crate::common::{Shape, passes, tid};
use half::{bf16, f16};
use sim::ops::wgmma::{self, Major, OperandType};
use sim::ops::{fence, matrix, shared, thread, warp};
use sim::tensor_map::Swizzle;

fn a(m: u32, k: u32) -> f32 {
    ((m * 7 + k * 3) % 13) as f32 - 6.0
}

fn b(n: u32, k: u32) -> f32 {
    ((n * 5 + k * 11) % 17) as f32 / 4.0 - 2.0
}

fn half(x: f32, dtype: OperandType) -> u16 {
    match dtype {
        OperandType::Bf16 => bf16::from_f32(x).to_bits(),
        OperandType::F16 => f16::from_f32(x).to_bits(),
        _ => unreachable!("{dtype:?} does not have 16 bits"),
    }
}

const K: u32 = 64;

/// Where element (row, k) of an operand lies, and its descriptor, by the manual's words.
#[derive(Clone, Copy)]
struct Layout {
    base: u32,
    swizzle: Swizzle,
    rows: u32,
    major: Major,
}

impl Layout {
    /// Elements of one swizzled row: along K, or along M or N.
    fn width(&self) -> u32 {
        if self.swizzle == Swizzle::None { 8 } else { self.swizzle.span() / 2 }
    }
    /// Panels of `width` elements follow each other. In a panel, each row, or each column of an
    /// MN-major operand, has `2 * width` bytes.
    fn address(&self, row: u32, k: u32) -> u32 {
        let w = self.width();
        let (along, across, len) = match self.major {
            Major::K => (k, row, self.rows),
            Major::Mn => (row, k, K),
        };
        self.swizzle.apply(self.base + (along / w * len + across) * w * 2 + along % w * 2)
    }
    fn descriptor(&self, k: u32) -> (u64, Major) {
        let bits = match self.major {
            Major::K => self.k_major(k),
            Major::Mn => self.mn_major(k),
        };
        (bits, self.major)
    }
    /// A panel is `K` columns of `width` elements, and a step along K is inside the panel.
    fn mn_major(&self, k: u32) -> u64 {
        let (panel, eight) = (K * self.width() * 2, 8 * self.width() * 2);
        // Along M or N to the next panel, along K to the next 8. Without a swizzle, the leading offset
        // is that along K.
        let (leading, stride) = match self.swizzle {
            Swizzle::None => (eight, panel),
            _ => (panel, eight),
        };
        self.fields(self.base + k * self.width() * 2, leading, stride)
    }
    fn k_major(&self, k: u32) -> u64 {
        let w = self.width();
        let start = self.base + k / w * self.rows * w * 2 + k % w * 2;
        // Without swizzle: core matrices of 8 by 16 bytes, the next along K a panel further.
        self.fields(start, self.rows * w * 2, 8 * w * 2)
    }
    fn fields(&self, start: u32, leading: u32, stride: u32) -> u64 {
        let field = |v: u32| u64::from(v >> 4);
        let code = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        field(start) | field(leading) << 16 | field(stride) << 32 | code << 62
    }
}

fn product<const REGS: usize>(swizzle: Swizzle, dtype: OperandType, from_registers: bool) {
    product_of::<REGS>([(swizzle, Major::K); 2], dtype, from_registers);
}

fn product_of<const REGS: usize>(
    layouts: [(Swizzle, Major); 2],
    dtype: OperandType,
    from_registers: bool,
) {
    let n = 2 * REGS as u32;
    passes(Shape(128, 1, 64 * K * 2 + 256 * K * 2), || {
        let base = shared::dynamic_base();
        let [la, lb] = [(0, 64), (64 * K * 2, n)].map(|(offset, rows)| {
            let (swizzle, major) = layouts[usize::from(offset > 0)];
            Layout { base: base + offset, swizzle, rows, major }
        });
        for i in (tid()..64 * K).step_by(128) {
            shared::st(la.address(i / K, i % K), half(a(i / K, i % K), dtype));
        }
        for i in (tid()..n * K).step_by(128) {
            shared::st(lb.address(i / K, i % K), half(b(i / K, i % K), dtype));
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        let row = warp::warp_id() * 16 + warp::lane_id() / 4;
        let col = warp::lane_id() % 4 * 2;
        let mut d = [100.0f32; REGS];
        let pair = |r: u32, k: u32| {
            let h = |k| u32::from(half(a(r, k), dtype));
            h(k) | h(k + 1) << 16
        };
        let mut fragments: Vec<[u32; 4]> = (0..K)
            .step_by(16)
            .map(|k| {
                [(row, 0), (row + 8, 0), (row, 8), (row + 8, 8)].map(|(r, c)| pair(r, k + col + c))
            })
            .collect();
        wgmma::fence();
        for k in (0..K).step_by(16) {
            if from_registers {
                let regs = &mut fragments[k as usize / 16];
                wgmma::mma_rs(&mut d, regs, lb.descriptor(k), k > 0, [dtype; 2]);
            } else {
                wgmma::mma_ss(&mut d, la.descriptor(k), lb.descriptor(k), k > 0, [dtype; 2]);
            }
        }
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        wgmma::fence_operand(&mut d);
        for (i, &got) in d.iter().enumerate() {
            let i = i as u32;
            let (m, n) = (row + 8 * (i / 2 % 2), i / 4 * 8 + col + i % 2);
            let want: f32 = (0..K).map(|k| a(m, k) * b(n, k)).sum();
            assert_eq!(got.to_bits(), want.to_bits(), "element {m}, {n}: {got} for {want}");
        }
    });
}

#[test]
fn products_in_every_swizzle() {
    for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128] {
        product::<16>(swizzle, OperandType::Bf16, false);
        product::<32>(swizzle, OperandType::F16, false);
    }
}

#[test]
fn products_of_every_width_class() {
    product::<4>(Swizzle::B128, OperandType::Bf16, false);
    product::<12>(Swizzle::B128, OperandType::F16, false);
    product::<60>(Swizzle::B128, OperandType::Bf16, false);
    product::<128>(Swizzle::B128, OperandType::Bf16, false);
}

const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

/// 64 columns are one panel of 128 bytes and two of 64; 24 and 136 end inside of a panel.
#[test]
fn mn_major_products() {
    for swizzle in ALL {
        let (k, mn) = ((swizzle, Major::K), (swizzle, Major::Mn));
        product_of::<32>([k, mn], OperandType::Bf16, false);
        product_of::<12>([mn, k], OperandType::F16, false);
        product_of::<68>([mn, mn], OperandType::Bf16, false);
        product_of::<4>([mn, mn], OperandType::F16, false);
        product_of::<12>([k, mn], OperandType::Bf16, true);
    }
    // The operands' swizzles are their own.
    for (a, b) in ALL.into_iter().zip(ALL.into_iter().rev()) {
        product_of::<20>([(a, Major::Mn), (b, Major::Mn)], OperandType::F16, false);
    }
    product_of::<128>([(Swizzle::B128, Major::Mn); 2], OperandType::Bf16, false);
}

#[test]
fn a_from_registers() {
    product::<16>(Swizzle::B128, OperandType::Bf16, true);
    product::<8>(Swizzle::B64, OperandType::F16, true);
}

/// stmatrix, then ldmatrix, plain and transposed: element (r, c) of matrix i comes from where it
/// went, by the fragment's layout.
#[test]
fn matrices_go_out_and_come_back() {
    passes(Shape(32, 1, 4096), || {
        let lane = warp::lane_id();
        let base = shared::dynamic_base();
        let row_address = base + (lane / 8) * 128 + (lane % 8) * 16;
        let value = |i: u32, r: u32, c: u32| i * 64 + r * 8 + c;
        let fragment = |i: u32, trans: bool| {
            let (r, c) = (lane / 4, 2 * (lane % 4));
            if trans {
                value(i, c, r) | value(i, c + 1, r) << 16
            } else {
                value(i, r, c) | value(i, r, c + 1) << 16
            }
        };
        let all = |trans| std::array::from_fn::<u32, 4, _>(|i| fragment(i as u32, trans));
        for trans in [false, true] {
            if trans {
                matrix::stmatrix_x4_trans(row_address, all(true));
            } else {
                matrix::stmatrix_x4(row_address, all(false));
            }
            warp::sync_warp(u32::MAX);
            for r in 0..8 {
                let i = lane / 8;
                let at = base + i * 128 + r * 16 + lane % 8 * 2;
                assert_eq!(u32::from(shared::ld::<u16>(at)), value(i, r, lane % 8));
            }
            assert_eq!(matrix::ldmatrix_x4(row_address), all(false));
            assert_eq!(matrix::ldmatrix_x4_trans(row_address), all(true));
            assert_eq!(matrix::ldmatrix_x2(row_address), [fragment(0, false), fragment(1, false)]);
            assert_eq!(matrix::ldmatrix_x1_trans(row_address), [fragment(0, true)]);
            warp::sync_warp(u32::MAX);
        }
    });
}
