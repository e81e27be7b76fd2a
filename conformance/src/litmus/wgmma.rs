//! wgmma: fragments, descriptors, groups, and what a sum is worth.

use super::Litmus;
use super::wgmma_layout::{Image, Layout, image, place, place_a};
use crate::bench::Bench;
use crate::kernels::wgmma::*;
use crate::log::{Allowed, Log};
use half::{bf16, f16};
use host::{Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "wgmma: the fragment of D, N = 8 to 256",
        says: "Thread t holds rows 16 (t / 32) + (t % 32) / 4 and that plus 8; register 4 j + 2 h + e \
               is row half h, column 8 j + 2 (t % 4) + e.",
        run: fragments,
        refused: None,
    },
    Litmus {
        name: "wgmma: descriptors",
        says: "K-major operands without a swizzle and with spans of 32, 64 and 128 bytes; a step of \
               16 along K inside the span is 32 bytes on the start address.",
        run: descriptors,
        refused: None,
    },
    Litmus {
        name: "wgmma: A from registers",
        says: "A's fragment is that of mma.m16n8k16, a slab of 16 rows per warp.",
        run: registers,
        refused: None,
    },
    Litmus {
        name: "wgmma: scale-d",
        says: "Without scale-d the product replaces what the accumulators held, NaNs too.",
        run: scale_d,
        refused: None,
    },
    Litmus {
        name: "wgmma: wait_group 1",
        says: "All groups but the last one are complete.",
        run: groups,
        refused: None,
    },
    Litmus {
        name: "wgmma: accuracy of sums",
        says: "Sums are in single precision at least as to range; the order and the rounding of the \
               additions are not said. Allowed: 2^-18 of the sum of magnitudes.",
        run: accuracy,
        refused: None,
    },
    Litmus {
        name: "wgmma: rounding of one sum",
        says: "As above: within two units of the last place of the accumulator.",
        run: rounding,
        refused: None,
    },
];

/// An element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Bf16,
    F16,
}

impl Type {
    pub(super) fn bits(self, x: f32) -> u16 {
        match self {
            Self::Bf16 => bf16::from_f32(x).to_bits(),
            Self::F16 => f16::from_f32(x).to_bits(),
        }
    }
    fn value(self, x: f32) -> f64 {
        match self {
            Self::Bf16 => bf16::from_f32(x).to_f64(),
            Self::F16 => f16::from_f32(x).to_f64(),
        }
    }
    fn kernel(self, n: u32) -> &'static KernelDesc {
        let of = INSTANCES.iter().find(|i| i.n == n).expect("every N from 8 to 256 by 8");
        match self {
            Self::Bf16 => of.bf16,
            Self::F16 => of.f16,
        }
    }
}

/// A layout with a swizzle, groups of eight rows without a gap.
pub(super) const fn tight(span: u32) -> Layout {
    Layout { span, lead: 16, stride: 8 * span }
}

/// A small integer that depends on its arguments in no simple way.
pub(super) fn small(which: usize, row: u32, k: u32) -> f32 {
    let mut x = (which as u32 + 1).wrapping_mul(0x51ed_270b)
        ^ row.wrapping_mul(0x9e37_79b9)
        ^ k.wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d);
    x = (x ^ (x >> 12)).wrapping_mul(0x297a_2d39);
    ((x >> 16) % 9) as f32 - 4.0
}

fn run(bench: &Bench, desc: &KernelDesc, n: u32, image: &Image) -> Result<Vec<u32>, Error> {
    let bytes = bench.upload(&image.words)?;
    let params = vec![Param::slice::<u32>(&bytes), Param::value(image.operands)];
    bench.observe_desc(desc, [1, 1, 1], 64 * n as usize, params)
}

/// Every register against the element that it should be.
fn check(log: &mut Log, have: &[u32], n: u32, want: impl Fn(usize, usize, usize) -> f32) {
    let regs = n as usize / 2;
    log.exactly(
        have,
        (0..128 * regs).map(|i| {
            let (t, r) = (i / regs, i % regs);
            let (row, col) = place(t, r);
            want(row, col, r).to_bits()
        }),
    );
}

/// D's element (i, j) is i + 64 j: in A column 3 is i and column 12 is 64, in B ones and j. The other
/// steps along K hold other numbers, which a wrong address would bring in.
fn fragments(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for n in (8..=256).step_by(8) {
        let step = n / 8 % 4;
        let element = |which: usize, row: u32, k: u32| match (which, k.wrapping_sub(16 * step)) {
            (0, 3) | (1, 12) => row as f32,
            (0, 12) => 64.0,
            (1, 3) => 1.0,
            (_, 0..16) => 0.0,
            _ => small(which, row, k),
        };
        for of in [Type::Bf16, Type::F16] {
            let bits = |which, row, k| of.bits(element(which, row, k));
            let image = image([tight(128); 2], n, 64, bits, step, 1);
            let have = run(bench, of.kernel(n), n, &image)?;
            log.part(format!("N = {n}, {of:?}, step {step}: thread * {} + register", n / 2));
            check(log, &have, n, |i, j, _| (i + 64 * j) as f32);
        }
    }
    Ok(())
}

/// The product of small integers over columns `from` to `to`, exact.
pub(super) fn product(i: usize, j: usize, from: u32, to: u32) -> f32 {
    (from..to).map(|k| small(0, i as u32, k) * small(1, j as u32, k)).sum()
}

fn descriptors(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases: [(&str, [Layout; 2], u32); 8] = [
        ("128 B", [tight(128); 2], 64),
        ("128 B, groups 2048 apart", [Layout { stride: 2048, ..tight(128) }; 2], 64),
        ("64 B", [tight(64); 2], 32),
        ("64 B, groups 1536 apart", [Layout { stride: 1536, ..tight(64) }; 2], 32),
        ("32 B", [tight(32); 2], 16),
        ("32 B, groups 768 apart", [Layout { stride: 768, ..tight(32) }; 2], 16),
        ("none, K inside", [Layout { span: 0, lead: 128, stride: 1024 }; 2], 64),
        (
            "none, K outside",
            [
                Layout { span: 0, lead: 1024, stride: 128 },
                Layout { span: 0, lead: 1152, stride: 144 },
            ],
            64,
        ),
    ];
    for (name, layouts, k) in cases {
        for (of, n) in [(Type::Bf16, 64), (Type::F16, 64), (Type::Bf16, 24), (Type::F16, 8)] {
            for (first, steps) in [(0, k / 16), (k / 16 - 1, 1)] {
                let bits = |which, row, k| of.bits(small(which, row, k));
                let mut image = image(layouts, n, k, bits, first, steps);
                image.operands.before = 5.0;
                let have = run(bench, of.kernel(n), n, &image)?;
                log.part(format!("{name}, N = {n}, {of:?}, {steps} steps from {first}"));
                let (from, to) = (16 * first, 16 * (first + steps));
                check(log, &have, n, |i, j, r| {
                    product(i, j, from, to) + if r % 2 == 0 { 5.0 } else { -5.0 }
                });
            }
        }
    }
    Ok(())
}

fn registers(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases: [(&KernelDesc, u32, Type); 3] = [
        (&wgmma_rs_n8_bf16::DESC, 8, Type::Bf16),
        (&wgmma_rs_n64_bf16::DESC, 64, Type::Bf16),
        (&wgmma_rs_n64_f16::DESC, 64, Type::F16),
    ];
    for (desc, n, of) in cases {
        let bits = |which, row, k| of.bits(small(which, row, k));
        let image = image([tight(128); 2], n, 64, bits, 0, 1);
        let fragments: Vec<u32> = (0..512)
            .map(|i| {
                let half = |e| {
                    let (row, k) = place_a(i / 4, i % 4, e);
                    u32::from(bits(0, row as u32, k as u32))
                };
                half(0) | half(1) << 16
            })
            .collect();
        let (a, bytes) = (bench.upload(&fragments)?, bench.upload(&image.words)?);
        let params = vec![
            Param::slice::<u32>(&a),
            Param::slice::<u32>(&bytes),
            Param::value(image.operands),
        ];
        let have = bench.observe_desc(desc, [1, 1, 1], 64 * n as usize, params)?;
        log.part(format!("N = {n}, {of:?}"));
        check(log, &have, n, |i, j, _| product(i, j, 0, 16));
    }
    Ok(())
}

fn scale_d(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for before in [f32::NAN, f32::INFINITY, 1e30] {
        for n in [8, 128] {
            let bits = |which, row, k| Type::Bf16.bits(small(which, row, k));
            let mut image = image([tight(128); 2], n, 64, bits, 0, 4);
            (image.operands.before, image.operands.scale_d) = (before, 0);
            let have = run(bench, Type::Bf16.kernel(n), n, &image)?;
            log.part(format!("N = {n}, {before} before"));
            check(log, &have, n, |i, j, _| product(i, j, 0, 64));
        }
    }
    Ok(())
}

fn groups(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let bits = |which, row, k| Type::Bf16.bits(small(which, row, k));
    let mut image = image([tight(128); 2], 32, 64, bits, 0, 4);
    image.operands.before = 3.0;
    let bytes = bench.upload(&image.words)?;
    let params = vec![Param::slice::<u32>(&bytes), Param::value(image.operands)];
    let have = bench.observe::<wgmma_groups>(1, 128 * 32, params)?;
    let sign = |r: usize| if r.is_multiple_of(2) { 3.0 } else { -3.0 };
    log.part("first group, behind wait_group 1; second group, behind wait_group 0");
    log.exactly(
        &have,
        (0..128 * 32).map(|i| {
            let (t, r) = (i / 32, i % 16);
            let (row, col) = place(t, r);
            let (from, to) = if i % 32 < 16 { (0, 16) } else { (16, 64) };
            (product(row, col, from, to) + sign(r)).to_bits()
        }),
    );
    Ok(())
}

/// A float of random sign and fraction, between 2^-4 and 2^4.
fn wide(which: usize, row: u32, k: u32) -> f32 {
    let mut x = (which as u32 + 7).wrapping_mul(0x9e37_79b9) ^ (row << 12) ^ k;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    let fraction = 1.0 + (x & 0x3ff) as f32 / 1024.0;
    let sign = if x & 0x400 == 0 { 1.0 } else { -1.0 };
    sign * fraction * 2f32.powi((x >> 11) as i32 % 9 - 4)
}

fn accuracy(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for (of, n, steps) in [
        (Type::Bf16, 64, 1),
        (Type::Bf16, 64, 4),
        (Type::F16, 64, 1),
        (Type::F16, 64, 4),
        (Type::Bf16, 256, 4),
    ] {
        for before in [0.0f32, 37.5] {
            let bits = |which, row, k| of.bits(wide(which, row, k));
            let mut image = image([tight(128); 2], n, 64, bits, 0, steps);
            image.operands.before = before;
            let have = run(bench, of.kernel(n), n, &image)?;
            log.part(format!("N = {n}, {of:?}, {} products on {before}", 16 * steps));
            let regs = n as usize / 2;
            for (i, &have) in have.iter().enumerate() {
                let (t, r) = (i / regs, i % regs);
                let (row, col) = place(t, r);
                let start = f64::from(if r % 2 == 0 { before } else { -before });
                let products = (0..16 * steps)
                    .map(|k| of.value(wide(0, row as u32, k)) * of.value(wide(1, col as u32, k)));
                let (sum, size) =
                    products.fold((start, start.abs()), |(sum, size), p| (sum + p, size + p.abs()));
                log.push(have, Allowed::Near { want: sum, bound: size * 2f64.powi(-18) });
            }
        }
    }
    Ok(())
}

/// 2^24 and less than one unit in its last place: one product of x, or 16 of x / 16, on ±2^24.
fn rounding(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let before = 16_777_216.0f32;
    let x = |row: u32| (row as f32 - 32.0) / 8.0;
    for parts in [1, 4, 16] {
        let element = |which: usize, row: u32, k: u32| match which {
            _ if k >= parts => 0.0,
            0 => x(row) / parts as f32,
            _ => 1.0,
        };
        let bits = |which, row, k| Type::Bf16.bits(element(which, row, k));
        let mut image = image([tight(128); 2], 8, 64, bits, 0, 1);
        image.operands.before = before;
        let have = run(bench, Type::Bf16.kernel(8), 8, &image)?;
        log.part(format!("{parts} products on 2^24 and its negative"));
        for (i, &have) in have.iter().enumerate() {
            let (row, _) = place(i / 4, i % 4);
            let start = f64::from(if i % 2 == 0 { before } else { -before });
            let want = start + f64::from(x(row as u32));
            log.push(have, Allowed::Near { want, bound: 4.0 });
        }
    }
    Ok(())
}
