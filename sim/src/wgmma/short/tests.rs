use super::*;
use float8::{F8E4M3, F8E5M2};

const E4M3: OperandType = OperandType::E4m3;
const E5M2: OperandType = OperandType::E5m2;

/// The sum of products on an accumulator, in one of eight columns.
fn dot([a, b]: [&[f32]; 2], types: [OperandType; 2], before: f32) -> f32 {
    const COLUMN: usize = 5;
    let (mut row, mut columns) = ([1.0; K], [-0.5; 8 * K]);
    row[a.len()..].fill(0.0);
    row[..a.len()].copy_from_slice(a);
    for k in 0..K {
        columns[8 * k + COLUMN] = b.get(k).copied().unwrap_or(0.0);
    }
    let powers = |elements: &[f32], dtype| {
        let mut factors = Factors::default();
        factors.take(elements, dtype);
        factors.powers
    };
    let of_row = powers(&row, types[0]);
    let of_row: &[f32; K] = of_row[..].try_into().expect("32 elements");
    let mut sums = [7.0; 8];
    sums[COLUMN] = before;
    add_row([&row, of_row], [&columns, &powers(&columns, types[1])], &mut sums);
    sums[COLUMN]
}

fn e4m3<const N: usize>(a: [f32; N], b: [f32; N], before: f32) -> f32 {
    dot([&a, &b], [E4M3; 2], before)
}

#[test]
fn thirteen_bits_behind_the_point_of_the_largest() {
    // The last bit beside 256 is 2^-5. What is below is cut off, of each product and of the accumulator.
    assert_eq!(e4m3([16.0, 0.25], [16.0, 0.125], 0.0), 256.03125);
    assert_eq!(e4m3([16.0, 0.25], [16.0, 0.0625], 0.0), 256.0);
    assert_eq!(e4m3([16.0, 0.25, 0.25], [16.0, 0.0625, 0.0625], 0.0), 256.0, "before the sum");
    assert_eq!(e4m3([16.0], [16.0], 0.046875), 256.03125, "of the accumulator too");
    assert_eq!(e4m3([1.0], [0.03125], -256.0 - 0.046875), -256.0, "towards zero, in every term");
    assert_eq!(e4m3([0.25], [0.0625], 256.0), 256.0, "the accumulator may be the largest");
    assert_eq!(e4m3([0.0], [0.0], 1.0 + 2f32.powi(-20)), 1.0, "and of the result");
}

#[test]
fn exponents_are_those_of_the_factors() {
    // 1.875 * 1.875 is above 2, but the point is that of 1 * 1: 2^-13 stays, and two of them are seen.
    let small = 2f32.powi(-13);
    let (a, b) = (2f32.powi(-6), 2f32.powi(-7));
    assert_eq!(e4m3([1.875, a, a], [1.875, b, b], 0.0), 3.515625 + 2.0 * small);
    // The least subnormal number counts with the exponent of the least normal one, 2^-6.
    let (least, lost) = (2f32.powi(-9), 2f32.powi(-20));
    assert_eq!(e4m3([least], [1.0], lost), least);
    assert_eq!(e4m3([least], [1.0], 2.0 * lost), least + 2.0 * lost);
    // In e5m2 the least normal number is 2^-14.
    let of = |before| dot([&[2f32.powi(-16)], &[1.0]], [E5M2; 2], before);
    assert_eq!(of(2f32.powi(-28)), 2f32.powi(-16));
    assert_eq!(of(2f32.powi(-27)), 2f32.powi(-16) + 2f32.powi(-27));
}

#[test]
fn infinities_and_nans() {
    let nan = |x: f32| x.to_bits() == NAN;
    let inf = f32::INFINITY;
    assert_eq!(dot([&[inf, 1.0], &[1.0, 1.0]], [E5M2, E4M3], 5.0), inf);
    assert!(nan(dot([&[inf, inf], &[1.0, -1.0]], [E5M2; 2], 0.0)));
    assert!(nan(dot([&[inf, 1.0], &[0.0, 1.0]], [E5M2; 2], 0.0)));
    assert!(nan(dot([&[inf], &[0.0]], [E5M2; 2], 0.0)));
    assert!(nan(e4m3([f32::NAN, 1.0], [1.0, 1.0], 0.0)));
    assert!(nan(e4m3([1.0], [1.0], f32::NAN)));
    assert_eq!(e4m3([1.0], [1.0], -inf), -inf);
    assert_eq!(e4m3([448.0; 32], [448.0; 32], f32::MAX).to_bits(), 0x7f7f_fc00, "cut off");
}

/// The same in f64, as the module says it.
fn plain(a: &[f32; K], b: &[f32; K], types: [OperandType; 2], before: f32) -> f32 {
    let power = |x: f32, least: f64| {
        let exponent = f64::from(x).abs().log2().floor();
        if x == 0.0 { 0.0 } else { exponent.exp2().max(least) }
    };
    let least = |dtype| if dtype == E4M3 { 2f64.powi(-6) } else { 2f64.powi(-14) };
    let (of_a, of_b) = (least(types[0]), least(types[1]));
    let products = a.iter().zip(b);
    let powers = products.clone().map(|(&a, &b)| power(a, of_a) * power(b, of_b));
    let largest = powers.fold(power(before, 2f64.powi(-126)), f64::max);
    if largest == 0.0 {
        return 0.0;
    }
    let terms = products.map(|(&a, &b)| f64::from(a) * f64::from(b)).chain([f64::from(before)]);
    let sum: f64 = terms.map(|x| (x / largest * 8192.0).trunc()).sum::<f64>() / 8192.0 * largest;
    let unit = power(sum as f32, 2f64.powi(-126)) / 8192.0;
    if sum == 0.0 { 0.0 } else { ((sum / unit).trunc() * unit) as f32 }
}

/// Random bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
    /// A finite number, of all exponents alike or of few.
    fn element(&mut self, dtype: OperandType, few: bool) -> f32 {
        loop {
            let byte = self.next() as u8;
            let byte = if few { byte & 0x8f | 0x30 } else { byte };
            let x = if dtype == E4M3 {
                F8E4M3::from_bits(byte).to_f32()
            } else {
                F8E5M2::from_bits(byte).to_f32()
            };
            if x.is_finite() {
                return x;
            }
        }
    }
    /// A number of the normal distribution, rounded to e4m3.
    fn normal(&mut self) -> f32 {
        let [x, y] = [0; 2].map(|_| (f64::from(self.next()) + 1.0) / 2_147_483_649.0);
        let normal = (-2.0 * x.ln()).sqrt() * (std::f64::consts::TAU * y).cos();
        F8E4M3::from_f64(normal).to_f32()
    }
}

#[test]
fn sums_are_those_of_plain_arithmetic() {
    let mut random = Random(7);
    for i in 0..20_000 {
        let types = [i & 1, i & 2].map(|bit| if bit == 0 { E4M3 } else { E5M2 });
        let few = i & 4 == 0;
        let a: [f32; K] = std::array::from_fn(|_| random.element(types[0], few));
        let b: [f32; K] = std::array::from_fn(|_| random.element(types[1], few));
        let exponent = (random.next() % 60) as i32 - 40;
        let fraction = f32::from_bits(0x3f80_0000 | random.next() & 0x7f_ffff);
        let before = if i & 8 == 0 { 0.0 } else { -fraction * 2f32.powi(exponent) };
        let (have, want) = (dot([&a, &b], types, before), plain(&a, &b, types, before));
        assert_eq!(have, want, "{a:?} · {b:?} on {before}, {types:?}");
    }
}

/// `add` does not multiply with rows of zeros: `add_row`, which does, has the same sums, and an infinity in B is seen.
#[test]
fn rows_of_zeros() {
    let mut random = Random(5);
    let zeros = vec![0.0; 64 * K];
    let mut of_zeros = Factors::default();
    of_zeros.take(&zeros, E5M2);
    let mut b: Vec<f32> = (0..8 * K).map(|_| random.element(E5M2, false)).collect();
    let mut of_b = Factors::default();
    of_b.take(&b, E5M2);
    // Of 128 threads with four registers each; every eighth is one of a kind.
    let kinds = [0, 1 << 31, NAN, 0xff80_0000, 1, 0x7f80_0001, 0x8000_03ff, 0x7f7f_ffff];
    let before: Vec<u32> =
        (0..512).map(|i| if i % 8 == 0 { kinds[i / 8 % 8] } else { random.next() << 1 }).collect();
    let mut after = before.clone();
    add((&zeros, &of_zeros), (&b, &of_b), 8, true, 0, &mut after);
    for (before, after) in before.chunks_exact(8).zip(after.chunks_exact(8)) {
        let mut sums: Vec<f32> = before.iter().map(|&bits| f32::from_bits(bits)).collect();
        let row = [zeros[..K].try_into().unwrap(), of_zeros.powers[..K].try_into().unwrap()];
        add_row(row, [&b, &of_b.powers], &mut sums);
        let sums: Vec<u32> = sums.iter().map(|sum| sum.to_bits()).collect();
        assert_eq!(sums, after, "{before:x?}");
    }
    b[8 * 3 + 5] = f32::INFINITY;
    of_b.take(&b, E5M2);
    let mut after = vec![0; 512];
    add((&zeros, &of_zeros), (&b, &of_b), 8, false, 0, &mut after);
    assert_eq!(after.iter().filter(|&&bits| bits == NAN).count(), 64, "a column");
}

/// The errors that a chip has at K = 16384 (one H200, relative root mean squares): 22% for normal data of
/// one sign, and 3.5e-3 for normal data, of which rounding to bf16 makes 1.7e-3.
#[test]
fn long_sums_are_as_wrong_as_the_chips() {
    let mut random = Random(11);
    let mut error = |one_sign: bool| {
        let (mut wrong, mut all) = (0.0, 0.0);
        for _ in 0..64 {
            let (mut sum, mut want) = (0.0, 0.0);
            for _ in 0..16384 / K {
                let [a, b] = [0; 2].map(|_| -> [f32; K] {
                    std::array::from_fn(|_| {
                        let x = random.normal();
                        if one_sign { x.abs() } else { x }
                    })
                });
                sum = dot([&a, &b], [E4M3; 2], sum);
                want += a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
            }
            wrong += (f64::from(sum) - want).powi(2);
            all += want * want;
        }
        (wrong / all).sqrt()
    };
    let [biased, normal] = [error(true), error(false)];
    assert!((0.20..0.24).contains(&biased), "one sign: {biased}");
    assert!((2.2e-3..4.2e-3).contains(&normal), "normal: {normal}");
}
