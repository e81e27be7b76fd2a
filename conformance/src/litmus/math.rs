//! Arithmetic: the error of each approximate function over a sweep of its arguments, and the exact functions bit
//! by bit.

use super::Litmus;
use crate::bench::Bench;
use crate::kernels::math::{EXACT, approximation, exact_arithmetic};
use crate::log::{Allowed, Log};
use host::{Error, Param};

pub const ALL: &[Litmus] = &[
    Litmus {
        name: "ex2.approx",
        says: "At most 2 ulp from the correctly rounded result, over the full range. Subnormal numbers are \
               supported.",
        run: |bench, log| approximate(bench, log, 0, ex2),
        refused: None,
    },
    Litmus {
        name: "ex2.approx.ftz",
        says: "At most 2 ulp from the correctly rounded result, over the full range. Subnormal operands and \
               results become zeros of their sign.",
        run: |bench, log| {
            let mut bits = arguments();
            // Densely where the results become subnormal, and where the error goes through a whole period.
            bits.extend(between(-127.0, -125.0).chain(between(-126.0001, -125.9999)));
            bits.extend(between(0.0, 1.0));
            approximate_at(bench, log, 6, ex2_ftz, &bits)
        },
        refused: None,
    },
    Litmus {
        name: "lg2.approx",
        says: "The absolute error is at most 2^-22 between 0.5 and 2, the relative error at most 2^-22 \
               elsewhere. Both zeros give minus infinity.",
        run: |bench, log| approximate(bench, log, 1, lg2),
        refused: None,
    },
    Litmus {
        name: "rcp.approx",
        says: "At most 1 ulp over the full range; zeros and infinities keep their sign.",
        run: |bench, log| approximate(bench, log, 2, rcp),
        refused: None,
    },
    Litmus {
        name: "rcp.approx.ftz",
        says: "At most 1 ulp over the full range. Subnormal operands and results become zeros of their sign.",
        run: |bench, log| {
            let mut bits = arguments();
            // Densely where the results become subnormal: the reciprocal of 2^126.
            let edge = 126f64.exp2();
            bits.extend(
                between(0.5 * edge, 2.0 * edge).chain(between(0.99999 * edge, 1.00001 * edge)),
            );
            approximate_at(bench, log, 7, rcp_ftz, &bits)
        },
        refused: None,
    },
    Litmus {
        name: "rsqrt.approx",
        says: "The relative error is at most 2^-22.9 for positive finite numbers; a zero gives an infinity of \
               its sign.",
        run: |bench, log| approximate(bench, log, 3, rsqrt),
        refused: None,
    },
    Litmus {
        name: "sqrt.approx",
        says: "The relative error is at most 2^-23 for positive finite numbers; a zero stays.",
        run: |bench, log| approximate(bench, log, 4, sqrt),
        refused: None,
    },
    Litmus {
        name: "tanh.approx",
        says: "The relative error is at most 2^-11; a zero and a subnormal number stay.",
        run: |bench, log| approximate(bench, log, 5, tanh),
        refused: None,
    },
    Litmus {
        name: "min, max, fma, abs, floor",
        says: "A NaN loses against a number, -0 is less than +0; fma rounds once. The NaN of abs is open.",
        run: exact,
        refused: None,
    },
];

/// The canonical NaN of f32.
const NAN: u32 = 0x7fff_ffff;
/// Mantissas with which each exponent is tried.
const MANTISSAS: [u32; 6] = [0, 1, 0x2a_aaaa, 0x40_0000, 0x55_5555, 0x7f_ffff];
/// Arguments per dense part of the sweep.
const DENSE: u32 = 1000;

/// Every exponent with both signs, the subnormal numbers among them; infinities, NaNs; and densely where the
/// functions bend.
fn arguments() -> Vec<u32> {
    let mut bits = vec![0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_1234, 0x7f80_0001];
    for exponent in 0..255u32 {
        for mantissa in MANTISSAS {
            let magnitude = exponent << 23 | mantissa;
            bits.extend([magnitude, magnitude | 1 << 31]);
        }
    }
    // Every power of two that is subnormal, and its neighbours.
    for power in 0..23 {
        bits.extend([1 << power, (1 << power) + 1, (2 << power) - 1]);
    }
    bits.extend(between(-152.0, 129.0));
    bits.extend(between(0.4, 2.2));
    bits.extend(between(0.999, 1.001));
    bits.extend(between(-10.0, 10.0));
    bits
}

/// Arguments from one to another, both included.
fn between(low: f64, high: f64) -> impl Iterator<Item = u32> {
    (0..DENSE).map(move |i| {
        // An odd step, so that the mantissas vary.
        let part = f64::from(i) / f64::from(DENSE - 1);
        ((low + (high - low) * part) as f32).to_bits()
    })
}

/// What a function may give for an argument: the value of a corner case, or the exact result and the largest
/// distance from it.
type Expected = fn(f32) -> Allowed;

fn is(x: f32) -> Allowed {
    Allowed::Is(if x.is_nan() { NAN } else { x.to_bits() })
}

fn near(want: f64, bound: f64) -> Allowed {
    Allowed::Near { want, bound }
}

/// The distance between neighbouring floats at `x`.
fn ulp(x: f64) -> f64 {
    let exponent = if x == 0.0 { -149 } else { x.abs().log2().floor() as i32 - 23 };
    2f64.powi(exponent.max(-149))
}

fn ex2(x: f32) -> Allowed {
    let rounded = f64::from(x).exp2() as f32;
    if !rounded.is_finite() || x == 0.0 || x == f32::NEG_INFINITY {
        return is(rounded);
    }
    near(rounded.into(), 2.0 * ulp(rounded.into()))
}

fn ex2_ftz(x: f32) -> Allowed {
    if x.abs() < f32::MIN_POSITIVE {
        return is(1.0);
    }
    let rounded = f64::from(f64::from(x).exp2() as f32);
    flushed(rounded, 2.0 * ulp(rounded)).unwrap_or_else(|| ex2(x))
}

fn rcp_ftz(x: f32) -> Allowed {
    if x.is_subnormal() {
        return is(f32::INFINITY.copysign(x));
    }
    let exact = f64::from(x).recip();
    if x.is_infinite() { rcp(x) } else { flushed(exact, ulp(exact)).unwrap_or_else(|| rcp(x)) }
}

/// What is allowed with `.ftz` for a result within `bound` of `want`, if it is subnormal or may be.
fn flushed(want: f64, bound: f64) -> Option<Allowed> {
    let from_least = want.abs() - f64::from(f32::MIN_POSITIVE);
    if from_least < -bound {
        return Some(is(0f32.copysign(want as f32)));
    }
    // The chip's result may be normal or not: from 0 up to what the error allows.
    let middle = want / 2.0;
    (from_least <= bound && want.is_finite()).then(|| near(middle, middle.abs() + bound))
}

fn lg2(x: f32) -> Allowed {
    if x == 0.0 {
        return is(f32::NEG_INFINITY);
    }
    let exact = f64::from(x).log2();
    if !exact.is_finite() {
        return is(exact as f32);
    }
    let relative = !(0.5..=2.0).contains(&x);
    near(exact, if relative { exact.abs() } else { 1.0 } * 2f64.powi(-22))
}

fn rcp(x: f32) -> Allowed {
    let exact = f64::from(x).recip();
    // The reciprocals of the least subnormal numbers are beyond the largest float.
    if !(exact as f32).is_finite() || x.is_infinite() {
        return is(exact as f32);
    }
    near(exact, ulp(exact))
}

fn rsqrt(x: f32) -> Allowed {
    let exact = f64::from(x).sqrt().recip();
    if !exact.is_finite() || x.is_infinite() {
        return is(exact as f32);
    }
    near(exact, exact * 2f64.powf(-22.9))
}

fn sqrt(x: f32) -> Allowed {
    let exact = f64::from(x).sqrt();
    if !exact.is_finite() || x == 0.0 {
        return is(exact as f32);
    }
    near(exact, exact * 2f64.powi(-23))
}

fn tanh(x: f32) -> Allowed {
    if !x.is_finite() || x.abs() < f32::MIN_POSITIVE {
        return is(x.tanh());
    }
    let exact = f64::from(x).tanh();
    near(exact, exact.abs() * 2f64.powi(-11))
}

fn approximate(
    bench: &Bench,
    log: &mut Log,
    function: u32,
    expected: Expected,
) -> Result<(), Error> {
    approximate_at(bench, log, function, expected, &arguments())
}

/// A function of arguments by their bits.
fn approximate_at(
    bench: &Bench,
    log: &mut Log,
    function: u32,
    expected: Expected,
    bits: &[u32],
) -> Result<(), Error> {
    let buffer = bench.upload(bits)?;
    let params = vec![Param::slice::<u32>(&buffer), Param::value(function)];
    let have = bench.observe::<approximation>(1, bits.len(), params)?;
    for (&b, &have) in bits.iter().zip(&have) {
        let x = f32::from_bits(b);
        log.part(format!("of {b:#x} ({x:e})"));
        log.push(have, expected(x));
    }
    Ok(())
}

fn exact(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let corners = [
        0u32,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f80_0001,
        0x3fff_ffff,
        0xbf00_0001,
        0x4b7f_ffff,
        0xcb00_0001,
        0x7f7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_1234,
    ];
    let mut triples = Vec::new();
    for a in corners {
        for b in corners {
            triples.extend([[a, b, 0], [a, b, 0xbf80_0000], [a, b, 0x7f7f_ffff], [a, b, a ^ b]]);
        }
    }
    let words: Vec<u32> = triples.concat();
    let buffer = bench.upload(&words)?;
    let count = EXACT * triples.len();
    let have = bench.observe::<exact_arithmetic>(1, count, vec![Param::slice::<u32>(&buffer)])?;
    for (bits, have) in triples.iter().zip(have.chunks_exact(EXACT)) {
        let [a, b, c] = bits.map(f32::from_bits);
        log.part(format!("{bits:#x?}: min, max, fma, abs, floor"));
        let (least, greatest) = match (a.is_nan(), b.is_nan()) {
            (true, _) => (b, b),
            (_, true) => (a, a),
            // The order of the bits' signs tells zeros apart.
            _ if a < b || (a <= b && a.is_sign_negative()) => (a, b),
            _ => (b, a),
        };
        log.push(have[0], is(least));
        log.push(have[1], is(greatest));
        log.push(have[2], is(a.mul_add(b, c)));
        log.push(have[3], if a.is_nan() { Allowed::Any } else { is(a.abs()) });
        log.push(have[4], is(a.floor()));
    }
    Ok(())
}
