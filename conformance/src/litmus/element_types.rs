//! wgmma of 8-bit floats, 8-bit integers and tf32: operands, fragments of A, and what a sum is worth.

use super::Litmus;
use super::wgmma::{product, small, tight};
use super::wgmma_layout::{Image, Layout, byte_of_a, image_of_bytes, place};
use crate::bench::Bench;
use crate::kernels::element_types::*;
use crate::log::{Allowed, Log};
use Type::{E4m3, E5m2, S8, Tf32};
use float8::{F8E4M3, F8E5M2};
use host::{Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "wgmma: 8-bit types and tf32 from shared memory",
        says: "K-major operands lie as those of 16 bits do, byte by byte; an instruction multiplies 32 bytes. \
               e4m3 and e5m2 multiply in any mix.",
        run: operands,
        refused: None,
    },
    Litmus {
        name: "wgmma: A of 8-bit types and tf32 from registers",
        says: "Register i of lane l holds bytes 4 (l % 4) + 16 (i / 2) and on of row l / 4 + 8 (i % 2), a slab \
               of 16 rows per warp.",
        run: registers,
        refused: None,
    },
    Litmus {
        name: "wgmma: sums of s8",
        says: "Exact; without .satfinite they wrap around.",
        run: integers,
        refused: None,
    },
    Litmus {
        name: "wgmma: the 13 lowest bits of tf32",
        says: "The manual does not say what they do. Here they are not read.",
        run: lowest_bits,
        refused: None,
    },
    Litmus {
        name: "wgmma: accuracy of sums of tf32",
        says: "As of 16-bit types. Allowed: 2^-18 of the sum of magnitudes.",
        run: sums_of_tf32,
        refused: None,
    },
    Litmus {
        name: "wgmma: accuracy of sums of 8-bit floats",
        says: "The manual says nothing. Allowed, for each step of 32: one unit for each product, the \
               accumulator and the result, where a unit is 2^-13 of the largest exponent.",
        run: sums_of_floats,
        refused: None,
    },
    Litmus {
        name: "wgmma: what a sum of 8-bit floats keeps",
        says: "As above, of a few terms: small products beside a large one, and beside a large accumulator.",
        run: kept,
        refused: None,
    },
];

/// An element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    E4m3,
    E5m2,
    S8,
    Tf32,
}

impl Type {
    /// Bytes of an element.
    fn size(self) -> u32 {
        if self == Tf32 { 4 } else { 1 }
    }
    /// Its bytes; a number that it has not is rounded.
    fn bytes(self, x: f32) -> [u8; 4] {
        let byte = |byte| [byte, 0, 0, 0];
        match self {
            E4m3 => byte(F8E4M3::from_f32(x).to_bits()),
            E5m2 => byte(F8E5M2::from_f32(x).to_bits()),
            S8 => byte((x as i8).cast_unsigned()),
            Tf32 => (x.to_bits() & !0x1fff).to_le_bytes(),
        }
    }
    /// What it has of a number.
    fn value(self, x: f32) -> f64 {
        match self {
            E4m3 => F8E4M3::from_f32(x).to_f64(),
            E5m2 => F8E5M2::from_f32(x).to_f64(),
            S8 => f64::from(x as i8),
            Tf32 => f64::from(f32::from_bits(x.to_bits() & !0x1fff)),
        }
    }
}

/// A kernel, and what it multiplies.
#[derive(Clone, Copy)]
struct Instance {
    desc: &'static KernelDesc,
    n: u32,
    types: [Type; 2],
}

macro_rules! instances {
    ($($kernel:ident: $n:literal, $a:ident by $b:ident;)*) => {
        &[$(Instance { desc: &$kernel::DESC, n: $n, types: [$a, $b] }),*]
    };
}
const FROM_SHARED: &[Instance] = instances! {
    e4m3_n8: 8, E4m3 by E4m3; e4m3_n64: 64, E4m3 by E4m3; e4m3_n256: 256, E4m3 by E4m3;
    e4m3_e5m2_n8: 8, E4m3 by E5m2; e4m3_e5m2_n24: 24, E4m3 by E5m2; e4m3_e5m2_n136: 136, E4m3 by E5m2;
    e5m2_e4m3_n64: 64, E5m2 by E4m3; e5m2_e4m3_n176: 176, E5m2 by E4m3;
    e5m2_n8: 8, E5m2 by E5m2; e5m2_n64: 64, E5m2 by E5m2;
    s8_n8: 8, S8 by S8; s8_n24: 24, S8 by S8; s8_n64: 64, S8 by S8; s8_n144: 144, S8 by S8;
    s8_n256: 256, S8 by S8;
    tf32_n8: 8, Tf32 by Tf32; tf32_n24: 24, Tf32 by Tf32; tf32_n64: 64, Tf32 by Tf32;
    tf32_n136: 136, Tf32 by Tf32; tf32_n256: 256, Tf32 by Tf32;
};
const FROM_REGISTERS: &[Instance] = instances! {
    e4m3_rs_n64: 64, E4m3 by E4m3; e4m3_e5m2_rs_n8: 8, E4m3 by E5m2;
    e5m2_e4m3_rs_n136: 136, E5m2 by E4m3; e5m2_rs_n24: 24, E5m2 by E5m2;
    s8_rs_n8: 8, S8 by S8; s8_rs_n64: 64, S8 by S8; tf32_rs_n8: 8, Tf32 by Tf32;
    tf32_rs_n64: 64, Tf32 by Tf32;
};

impl Instance {
    /// The instance of these types with 64 columns, or the first.
    fn of(types: [Type; 2]) -> Self {
        let mut all = FROM_SHARED.iter().filter(|i| i.types == types);
        let first = *all.clone().next().expect("every pair of types has one");
        *all.find(|i| i.n == 64).unwrap_or(&first)
    }

    /// Elements along K of an instruction.
    fn step(&self) -> u32 {
        32 / self.types[0].size()
    }

    /// An operand's byte, of elements that `element` has.
    fn byte(self, element: impl Fn(usize, u32, u32) -> f32) -> impl Fn(usize, u32, u32) -> u8 {
        move |which, row, at| {
            let (of, size) = (self.types[which], self.types[which].size());
            of.bytes(element(which, row, at / size))[(at % size) as usize]
        }
    }

    /// Operands in rows of `width` bytes, of which steps are multiplied.
    fn image(
        self,
        layouts: [Layout; 2],
        width: u32,
        element: impl Fn(usize, u32, u32) -> f32,
        steps: [u32; 2],
    ) -> Image {
        image_of_bytes(layouts, self.n, width, self.byte(element), steps)
    }

    fn run(&self, bench: &Bench, image: &Image) -> Result<Vec<u32>, Error> {
        let bytes = bench.upload(&image.words)?;
        let params = vec![Param::slice::<u32>(&bytes), Param::value(image.operands)];
        bench.observe_desc(self.desc, [1, 1, 1], 64 * self.n as usize, params)
    }

    /// A sum as bits.
    fn bits(&self, x: f32) -> u32 {
        if self.types[0] == S8 { (x as i32).cast_unsigned() } else { x.to_bits() }
    }

    /// Every register against the element that it should be.
    fn check(&self, log: &mut Log, have: &[u32], want: impl Fn(usize, usize, usize) -> f32) {
        let regs = self.n as usize / 2;
        log.exactly(
            have,
            (0..128 * regs).map(|i| {
                let (row, col) = place(i / regs, i % regs);
                self.bits(want(row, col, i % regs))
            }),
        );
    }
}

/// Small whole numbers in every layout; one step, and all of them.
fn operands(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let layouts: [(&str, [Layout; 2], u32); 5] = [
        ("128 B", [tight(128); 2], 128),
        ("64 B, groups 1536 apart", [Layout { stride: 1536, ..tight(64) }; 2], 64),
        ("32 B", [tight(32); 2], 32),
        ("none, K inside", [Layout { span: 0, lead: 128, stride: 1024 }; 2], 128),
        (
            "none, K outside",
            [
                Layout { span: 0, lead: 1024, stride: 128 },
                Layout { span: 0, lead: 4096, stride: 144 },
            ],
            128,
        ),
    ];
    for (name, layouts, width) in layouts {
        for instance in FROM_SHARED {
            // All columns with the usual swizzle, few with the others.
            if instance.n > 64 && layouts[0].span != 128 {
                continue;
            }
            for steps in [[0, width / 32], [width / 32 - 1, 1]] {
                let mut image = instance.image(layouts, width, small, steps);
                image.operands.before = 5.0;
                let have = instance.run(bench, &image)?;
                let Instance { n, types, .. } = instance;
                let [first, steps] = steps;
                log.part(format!("{name}, N = {n}, {types:?}, {steps} steps from {first}"));
                let [from, to] = [first, first + steps].map(|step| step * instance.step());
                instance.check(log, &have, |i, j, r| {
                    product(i, j, from, to) + if r % 2 == 0 { 5.0 } else { -5.0 }
                });
            }
        }
    }
    Ok(())
}

fn registers(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for instance in FROM_REGISTERS {
        let image = instance.image([tight(128); 2], 128, small, [0, 1]);
        let byte = instance.byte(small);
        let fragments: Vec<u32> = (0..512)
            .map(|i| {
                u32::from_le_bytes([0, 1, 2, 3].map(|b| {
                    let (row, at) = byte_of_a(i / 4, i % 4, b);
                    byte(0, row as u32, at as u32)
                }))
            })
            .collect();
        let (a, bytes) = (bench.upload(&fragments)?, bench.upload(&image.words)?);
        let params = vec![
            Param::slice::<u32>(&a),
            Param::slice::<u32>(&bytes),
            Param::value(image.operands),
        ];
        let count = 64 * instance.n as usize;
        let have = bench.observe_desc(instance.desc, [1, 1, 1], count, params)?;
        log.part(format!("N = {}, {:?}", instance.n, instance.types));
        instance.check(log, &have, |i, j, _| product(i, j, 0, instance.step()));
    }
    Ok(())
}

/// The largest products, and sums beyond the ends of s32.
fn integers(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let element = |which: usize, row: u32, k: u32| match (which as u32 * 5 + row + k / 8) % 3 {
        0 => -128.0,
        1 => 127.0,
        _ => small(which, row, k),
    };
    let instance = Instance::of([S8; 2]);
    for (before, scale_d) in [(0.0, 1), (2_147_483_520.0, 1), (7.0, 0)] {
        let mut image = instance.image([tight(128); 2], 128, element, [0, 4]);
        (image.operands.before, image.operands.scale_d) = (before, scale_d);
        let have = instance.run(bench, &image)?;
        log.part(format!("128 products on {before}, scale-d {scale_d}"));
        let want = (0..128 * 32).map(|i| {
            let (row, col) = place(i / 32, i % 32);
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            let start = if scale_d == 1 { (sign * before) as i32 } else { 0 };
            let terms = (0..128)
                .map(|k| element(0, row as u32, k) as i32 * element(1, col as u32, k) as i32);
            terms.fold(start, i32::wrapping_add).cast_unsigned()
        });
        log.exactly(&have, want);
    }
    Ok(())
}

/// Small whole numbers whose other bits are ones, as they are in no tf32.
fn lowest_bits(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let instance = Instance::of([Tf32; 2]);
    for (part, low) in [("A's", [0x1fff, 0]), ("B's", [0, 0x1fff]), ("both", [0x1fff, 0x1abc])] {
        let byte = |which: usize, row, at: u32| {
            let bits = small(which, row, at / 4).to_bits() | low[which];
            bits.to_le_bytes()[at as usize % 4]
        };
        let image = image_of_bytes([tight(128); 2], 64, 128, byte, [0, 4]);
        let have = instance.run(bench, &image)?;
        log.part(format!("{part} lowest bits"));
        instance.check(log, &have, |i, j, _| product(i, j, 0, 32));
    }
    Ok(())
}

/// A float of random fraction, between 2^-`spread` and 2^`spread`, of random sign unless all have one.
fn wide(spread: u32, one_sign: bool) -> impl Fn(usize, u32, u32) -> f32 {
    move |which, row, k| {
        let mut x = (which as u32 + 3).wrapping_mul(0x9e37_79b9) ^ (row << 13) ^ k;
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        let fraction = 1.0 + (x & 0x3ff) as f32 / 1024.0;
        let sign = if one_sign || x & 0x400 == 0 { 1.0 } else { -1.0 };
        let exponent = (x >> 11) % (2 * spread + 1);
        sign * fraction * 2f32.powi(exponent as i32 - spread as i32)
    }
}

fn sums_of_tf32(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let instance = Instance::of([Tf32; 2]);
    for (before, steps) in [(0.0f32, 1), (37.5, 1), (0.0, 4), (37.5, 4)] {
        let element = wide(4, false);
        let mut image = instance.image([tight(128); 2], 128, &element, [0, steps]);
        image.operands.before = before;
        let have = instance.run(bench, &image)?;
        log.part(format!("{} products on {before}", 8 * steps));
        for (i, &have) in have.iter().enumerate() {
            let (row, col) = place(i / 32, i % 32);
            let start = f64::from(if i % 2 == 0 { before } else { -before });
            let products = (0..8 * steps).map(|k| {
                Tf32.value(element(0, row as u32, k)) * Tf32.value(element(1, col as u32, k))
            });
            let (sum, size) =
                products.fold((start, start.abs()), |(sum, size), p| (sum + p, size + p.abs()));
            log.push(have, Allowed::Near { want: sum, bound: size * 2f64.powi(-18) });
        }
    }
    Ok(())
}

/// The sum of products of these types on a start, in steps of 32, and how far the chip may be from it.
fn short_sum(start: f64, types: [Type; 2], factors: impl Iterator<Item = [f32; 2]>) -> Allowed {
    let factors: Vec<[f32; 2]> = factors.collect();
    let (mut sum, mut bound) = (start, 0.0);
    for step in factors.chunks(32) {
        // The accumulator may be wrong already, and its exponent above that of the sum.
        let (mut largest, mut terms) = (sum.abs() + bound, 2);
        for factors in step {
            let [a, b] = [0, 1].map(|i| types[i].value(factors[i]));
            if a * b == 0.0 {
                continue;
            }
            // A product has the exponents of its factors: of subnormal ones, the least of their types.
            let [power_a, power_b] = [(a, types[0]), (b, types[1])].map(|(x, of)| {
                x.abs().max(if of == E4m3 { 2f64.powi(-6) } else { 2f64.powi(-14) })
            });
            largest = largest.max(power_a * power_b);
            sum += a * b;
            terms += 1;
        }
        bound += f64::from(terms) * largest.max(sum.abs()) * 2f64.powi(-13);
    }
    Allowed::Near { want: sum, bound }
}

fn sums_of_floats(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for types in [[E4m3; 2], [E5m2; 2], [E4m3, E5m2], [E5m2, E4m3]] {
        let instance = Instance::of(types);
        for (spread, one_sign, before, steps) in [
            (4, false, 0.0f32, 1),
            (4, false, 37.5, 1),
            (6, false, 0.0, 4),
            (1, true, 0.0, 4),
            (1, true, 1000.0, 4),
        ] {
            let element = wide(spread, one_sign);
            let mut image = instance.image([tight(128); 2], 128, &element, [0, steps]);
            image.operands.before = before;
            let have = instance.run(bench, &image)?;
            let signs = if one_sign { "of one sign" } else { "of both signs" };
            log.part(format!("{types:?}, {} products {signs} on {before}", 32 * steps));
            let regs = instance.n as usize / 2;
            for (i, &have) in have.iter().enumerate() {
                let (row, col) = place(i / regs, i % regs);
                let start = f64::from(if i % 2 == 0 { before } else { -before });
                let factors =
                    (0..32 * steps).map(|k| [element(0, row as u32, k), element(1, col as u32, k)]);
                log.push(have, short_sum(start, types, factors));
            }
        }
    }
    Ok(())
}

/// Row i has 16 in column 0, if it is below 32, and in column 1 a power of two that falls with i; column j
/// of B has 16 or 15 there, and j / 4 more powers in the columns behind.
fn kept(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let element = |which: usize, row: u32, k: u32| match (which, k) {
        (0, 0) => f32::from(row < 32) * 16.0,
        (1, 0) => 16.0 - (row % 2) as f32,
        (0, _) => 2f32.powi(-((row % 16) as i32) / 2),
        (_, 1..4) if k <= row / 4 => 2f32.powi(-((row % 8) as i32) - 2),
        _ => 0.0,
    };
    for types in [[E4m3; 2], [E5m2; 2]] {
        let narrow = FROM_SHARED.iter().find(|i| i.n == 8 && i.types == types);
        let instance = narrow.expect("one with 8 columns");
        for before in [0.0f32, 256.0, 1000.5, 3e-4] {
            let mut image = instance.image([tight(128); 2], 128, element, [0, 1]);
            image.operands.before = before;
            let have = instance.run(bench, &image)?;
            log.part(format!("{types:?} on {before}"));
            for (i, &have) in have.iter().enumerate() {
                let (row, col) = place(i / 4, i % 4);
                let start = f64::from(if i % 2 == 0 { before } else { -before });
                let factors =
                    (0..32).map(|k| [element(0, row as u32, k), element(1, col as u32, k)]);
                log.push(have, short_sum(start, types, factors));
            }
        }
    }
    Ok(())
}
