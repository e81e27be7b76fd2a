//! Conversions to and from 8-bit floats, and to tf32: by instructions, and by TMA.

use super::Litmus;
use super::tensor::Tensor;
use crate::bench::{Bench, bytes};
use crate::kernels::element_types::{ROUNDED, WIDENED, rounded, widened};
use crate::kernels::tensor::{Coords, GUARD, tensor_load_2};
use crate::log::{Allowed, Log};
use half::f16;
use host::{Dtype, Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "cvt: to e4m3, e5m2 and tf32",
        says: "To nearest even with .rn, ties away from zero with .rna; with .satfinite what is beyond the range \
               becomes the largest number. A NaN stays one: which, is open.",
        run: narrower,
        refused: None,
    },
    Litmus {
        name: "cvt: from e4m3 and e5m2",
        says: "f16 has every value of both.",
        run: wider,
        refused: None,
    },
    Litmus {
        name: "TMA: a load of tf32",
        says: "It brings tf32: the manual does not say how it rounds. Allowed: either neighbour.",
        run: loaded,
        refused: None,
    },
];

/// An 8-bit float: bits of its exponent, its bias, and whether it has infinities.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    bias: i32,
    infinities: bool,
}

const E4M3: Format = Format { exponent: 4, bias: 7, infinities: false };
const E5M2: Format = Format { exponent: 5, bias: 15, infinities: true };

impl Format {
    /// Bits of the fraction.
    fn fraction(self) -> u32 {
        7 - self.exponent
    }
    /// The number of a byte, by the words of the OCP specification of 8-bit floats.
    fn value(self, byte: u8) -> f64 {
        let magnitude = u32::from(byte & 0x7f);
        let (exponent, fraction) =
            (magnitude >> self.fraction(), magnitude & ((1 << self.fraction()) - 1));
        let highest = exponent == (1 << self.exponent) - 1;
        let unit = 2f64.powi(-(self.fraction() as i32));
        let value = if highest && self.infinities {
            if fraction == 0 { f64::INFINITY } else { f64::NAN }
        } else if magnitude == 0x7f {
            f64::NAN
        } else if exponent == 0 {
            f64::from(fraction) * unit * 2f64.powi(1 - self.bias)
        } else {
            (1.0 + f64::from(fraction) * unit) * 2f64.powi(exponent as i32 - self.bias)
        };
        if byte & 0x80 == 0 { value } else { -value }
    }
    /// The byte nearest to a number, and of two the even one.
    fn nearest(self, x: f32) -> u8 {
        let far = |byte: u8| (self.value(byte) - f64::from(x.abs())).abs();
        let all = (0..0x7f).filter(|&byte| self.value(byte).is_finite());
        let largest = all.clone().next_back().expect("there are numbers");
        let best = if f64::from(x.abs()) >= self.value(largest) {
            largest
        } else {
            all.min_by(|&a, &b| far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1))))
                .expect("there are numbers")
        };
        if x.is_sign_negative() { best | 0x80 } else { best }
    }
}

/// The numbers between which a byte is rounded, and many others.
fn arguments() -> Vec<u32> {
    let mut all = vec![0x7f80_0000, 1, 0x1fff, 0x7f7f_ffff, 0x7f7f_efff, 0x7f7f_f000, 0x0040_1000];
    for format in [E4M3, E5M2] {
        let numbers: Vec<f64> =
            (0..0x7f).map(|byte| format.value(byte)).filter(|x| x.is_finite()).collect();
        let beyond = numbers.last().expect("numbers") * (17.0 / 16.0);
        let ties = numbers.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).chain([beyond]);
        for tie in ties {
            let bits = (tie as f32).to_bits();
            all.extend([bits - 1, bits, bits + 1]);
        }
        all.extend(numbers.iter().map(|&x| (x as f32).to_bits()));
    }
    let mut x = 0x1234_5677u32;
    for i in 0..1500 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // A third of them with ties of tf32.
        all.push(if i % 3 == 0 { x & !0xfff } else { x } & 0x7fff_ffff);
    }
    all.iter().flat_map(|&bits| [bits, bits | 0x8000_0000]).collect()
}

fn narrower(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let bits = arguments();
    let buffer = bench.upload(&bits)?;
    let have =
        bench.observe::<rounded>(1, ROUNDED * bits.len(), vec![Param::slice::<u32>(&buffer)])?;
    for (&b, have) in bits.iter().zip(have.chunks_exact(ROUNDED)) {
        let x = f32::from_bits(b);
        log.part(format!("{b:#x} ({x:e}): e4m3 below 1, e5m2 above 1, tf32"));
        if x.is_nan() {
            log.push(u32::from(have[0] & 0x7f == 0x7f), Allowed::Is(1));
            log.push(u32::from(have[1] >> 8 & 0x7f > 0x7c), Allowed::Is(1));
            log.push(u32::from(f32::from_bits(have[2]).is_nan()), Allowed::Is(1));
            continue;
        }
        log.push(have[0], Allowed::Is(0x3800 | u32::from(E4M3.nearest(x))));
        log.push(have[1], Allowed::Is(u32::from(E5M2.nearest(x)) << 8 | 0x3c));
        // Ties of tf32 have 0x1000 in the lowest bits.
        let below = b & !0x1fff;
        let up = x.is_finite() && b & 0x1fff >= 0x1000;
        log.push(have[2], Allowed::Is(if up { below + 0x2000 } else { below }));
    }
    Ok(())
}

fn wider(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<widened>(1, WIDENED * 256, vec![])?;
    for (byte, have) in (0..=255u8).zip(have.chunks_exact(WIDENED)) {
        for (format, name, have) in [(E4M3, "e4m3", have[0]), (E5M2, "e5m2", have[1])] {
            log.part(format!("{name} {byte:#x} and {:#x} as f16", !byte));
            for (byte, have) in [(byte, have & 0xffff), (!byte, have >> 16)] {
                let want = format.value(byte);
                if want.is_nan() {
                    let nan = f16::from_bits(have as u16).is_nan();
                    log.push(u32::from(nan), Allowed::Is(1));
                } else {
                    log.push(have, Allowed::Is(f16::from_f64(want).to_bits().into()));
                }
            }
        }
    }
    Ok(())
}

fn loaded(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let (dims, box_dims) = ([64, 24], [32, 16]);
    let of = Tensor { dtype: Dtype::Tf32, dims: &dims, box_dims: &box_dims, swizzle: 0 };
    let mut words = vec![0u32; of.bytes() as usize / 4];
    let numbers = arguments();
    let mut x = 0u32;
    for (i, word) in words.iter_mut().enumerate() {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let bits = numbers[i % numbers.len()];
        // Normal numbers, of every other one the bits of a tie.
        let exponent = 0x3000_0000 | bits & 0x0f80_0000;
        *word = bits & 0x8000_0000
            | exponent
            | if i % 2 == 0 { x & 0x7f_ffff } else { x & 0x7f_e000 | 0x1000 };
    }
    let buffer = bench.device.upload(&bytes(&words))?;
    let map = of.map(bench, &buffer)?;
    let at = [8, 3, 0, 0, 0];
    let count = 1 + of.box_bytes() / 4 + GUARD;
    let params = vec![Param::map(&map), Param::value(Coords(at)), Param::value(of.box_bytes())];
    let have = bench.observe::<tensor_load_2>(1, count as usize, params)?;
    log.part("the phase completed");
    log.push(have[0], Allowed::Is(1));
    log.part("the numbers");
    for (i, (offset, at)) in of.elements(at).enumerate() {
        assert_eq!(offset as usize, 4 * i, "a box without a swizzle");
        let address = of.address(&at).expect("the box lies inside");
        let x = f32::from_bits(words[address as usize / 4]);
        let below = f64::from(f32::from_bits(x.to_bits() & !0x1fff));
        let unit = (f64::from(f32::from_bits((x.to_bits() & !0x1fff) + 0x2000)) - below).abs();
        log.push(have[1 + i], Allowed::Near { want: x.into(), bound: unit });
    }
    log.part("their 13 lowest bits");
    let low = have[1..=(of.box_bytes() / 4) as usize].iter().map(|word| word & 0x1fff);
    low.for_each(|low| log.push(low, Allowed::Is(0)));
    Ok(())
}
