//! Operands and results of a search. The caller's are not touched.

use crate::buffer::{Buffer, Copy2d};
use crate::data;
use crate::device::Device;
use crate::error::Error;
use crate::gemm::plan::GemmPlan;
use crate::gemm::problem::GemmProblem;
use crate::gemm::run::BoundGemm;
use crate::stream::Stream;
use crate::view::View;
use gpu_kernels::gemm::Epilogue;
use isa::kernel::Dtype;

/// Most sets of operands.
const MOST_SETS: u64 = 256;
/// Number of different values: a prime, so that no two rows of a matrix are alike. (No multiple of a row's length below it
/// is a multiple of the prime.) The device repeats them.
const PERIOD: usize = 1_048_583;
/// Each matrix begins at a multiple of this many bytes, the alignment of an allocation.
const ALIGN: usize = 256;
/// Parts of a result that are compared, and bytes of each, where it is larger than all of them.
const PARTS: usize = 256;
const PART_BYTES: usize = 32 << 10;

/// Sets of operands of a product, and a result for each.
pub(super) struct Scratch {
    sets: Vec<Set>,
}

struct Set {
    a: Buffer,
    b: Buffer,
    c: Option<Buffer>,
    d: Buffer,
}

/// Number of sets: as many as fill the L2 cache twice, so that nothing of a set is left there when it is used again.
fn sets(set_bytes: u64, l2_bytes: u64) -> usize {
    (2 * l2_bytes).div_ceil(set_bytes.max(1)).clamp(1, MOST_SETS) as usize
}

impl Scratch {
    /// Makes operands of random values for products with the epilogue `E`, twice as large as the L2 cache together.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; errors of the driver.
    pub fn new<E: Epilogue>(
        device: &Device,
        problem: &GemmProblem,
        l2_bytes: u64,
    ) -> Result<Self, Error> {
        let bytes = |operand| problem.of::<E>(operand).bytes(operand) as usize;
        let (a, b, d) = (bytes('A'), bytes('B'), bytes('D'));
        let c = if problem.beta_c { bytes('C') } else { 0 };
        let step = |bytes: usize| bytes.next_multiple_of(ALIGN);
        let ab = step(a) + step(b);
        let count = sets((ab + step(c) + step(d)) as u64, l2_bytes);
        let operands = random(device, problem.ab, count * ab)?;
        let addends = random(device, problem.out, count * step(c))?;
        let results = device.alloc(count * step(d))?;
        let set = |i: usize| {
            Ok::<_, Error>(Set {
                a: operands.part(i * ab, a)?,
                b: operands.part(i * ab + step(a), b)?,
                c: problem.beta_c.then(|| addends.part(i * step(c), c)).transpose()?,
                d: results.part(i * step(d), d)?,
            })
        };
        Ok(Self { sets: (0..count).map(set).collect::<Result<_, _>>()? })
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// A plan with each set. All plans write the same results.
    pub fn bind<'p, E: Epilogue>(
        &self,
        plan: &'p GemmPlan<E>,
    ) -> Result<Vec<BoundGemm<'p, E>>, Error> {
        let bind = |set: &Set| {
            let mut d = set.d.part(0, set.d.len())?;
            plan.bind(&set.a, &set.b, set.c.as_ref().map(View::from), &mut d)
        };
        self.sets.iter().map(bind).collect()
    }

    /// The result of a plan with the first set: all of it, or parts that are evenly spread. It is filled with NaN before.
    pub fn result<E: Epilogue>(
        &self,
        plan: &GemmPlan<E>,
        run: impl Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), Error>,
        stream: &Stream,
    ) -> Result<Vec<u8>, Error> {
        let mut d = self.sets[0].d.part(0, self.sets[0].d.len())?;
        d.fill(0xff)?;
        run(&self.bind(plan)?[0], stream)?;
        stream.synchronize()?;
        let mut result = Vec::with_capacity(d.len().min(PARTS * PART_BYTES));
        for (start, bytes) in parts(d.len()) {
            let at = result.len();
            result.resize(at + bytes, 0);
            d.part(start, bytes)?.read(&mut result[at..])?;
        }
        Ok(result)
    }
}

/// Starts and sizes of the parts of a result of `bytes` bytes that are compared: the first and the last are among them.
fn parts(bytes: usize) -> Vec<(usize, usize)> {
    if bytes <= PARTS * PART_BYTES {
        return vec![(0, bytes)];
    }
    // Multiples of 16 bytes are whole elements of any type.
    let last = bytes - PART_BYTES;
    let start = |i: usize| (last / (PARTS - 1) * i) & !15;
    let mut parts: Vec<(usize, usize)> = (0..PARTS - 1).map(|i| (start(i), PART_BYTES)).collect();
    parts.push((last, PART_BYTES));
    parts
}

/// Memory full of about normal values.
fn random(device: &Device, dtype: Dtype, bytes: usize) -> Result<Buffer, Error> {
    let buffer = device.alloc(bytes)?;
    let values = values((bytes / dtype.size()).min(PERIOD), dtype);
    let first = device.upload(&data::encode(&values, dtype)?)?;
    let stream = device.stream();
    for start in (0..bytes).step_by(first.len().max(1)) {
        let width = first.len().min(bytes - start);
        let pitch = width as u64;
        let shape = Copy2d { width: pitch, rows: 1, src_pitch: pitch, dst_pitch: pitch };
        device.copy_2d(&first, &mut buffer.part(start, width)?, shape, &stream)?;
    }
    stream.synchronize()?;
    Ok(buffer)
}

/// About normal values: sums of four uniform ones. (`data::normal` needs the feature `reference` and its dependencies.) Their variance is 1, and 32^2 for integers. The power that a product
/// draws, and so its time, depends on how many bits switch.
fn values(count: usize, dtype: Dtype) -> Vec<f32> {
    let deviation = if matches!(dtype, Dtype::I8 | Dtype::I32) { 32.0 } else { 1.0 };
    // The variance of a uniform value of 16 bits is 2^32 / 12.
    let scale = deviation / (65536.0 * (4.0_f32 / 12.0).sqrt());
    let value = |i: u64| {
        // SplitMix64.
        let mut z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let sum: u64 = (0..4).map(|part| (z >> (16 * part)) & 0xffff).sum();
        (sum as f32 - 131_070.0) * scale
    };
    (0..count as u64).map(value).collect()
}

/// How a result differs from the expected one by more than rounding and another order of the sums explain, as text.
///
/// `k` is the number of terms of the sums of operands of type `ab`.
pub(super) fn difference(
    expected: &[u8],
    result: &[u8],
    [ab, out]: [Dtype; 2],
    k: u64,
) -> Result<Option<String>, Error> {
    let (expected, result) = (data::decode(expected, out)?, data::decode(result, out)?);
    let squares: f64 = expected.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let typical = (squares / expected.len().max(1) as f64).sqrt();
    let bound = tolerance(ab, out, k);
    for (i, (&want, &have)) in expected.iter().zip(&result).enumerate() {
        let [want, have] = [want, have].map(f64::from);
        let most = bound * typical.max(want.abs());
        // In this order, NaN is a difference. Infinite results are equal.
        let right = (want - have).abs() <= most || want.to_bits() == have.to_bits();
        if !right {
            return Ok(Some(format!("element {i} of those compared is {have}, not {want}")));
        }
    }
    Ok(None)
}

/// Largest difference of two correct results, as a part of the larger of the element and a typical one: two units in the
/// last place, and what another order of the sums changes.
fn tolerance(ab: Dtype, out: Dtype, k: u64) -> f64 {
    let rounding = match out {
        Dtype::I32 => return 0.0,
        Dtype::E4m3 | Dtype::E5m2 => 0.5,
        Dtype::Bf16 => 2f64.powi(-6),
        Dtype::F16 => 2f64.powi(-9),
        _ => 2f64.powi(-17),
    };
    // The tensor cores truncate each partial sum. With fast accumulation, sums of 8-bit floats have 14 bits.
    let sums = match ab {
        Dtype::E4m3 | Dtype::E5m2 => 2f64.powi(-12),
        _ => 2f64.powi(-17),
    };
    rounding + sums * (k as f64 / 128.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_about_normal() {
        for (dtype, deviation) in [(Dtype::Bf16, 1.0), (Dtype::I8, 32.0)] {
            let values = values(100_000, dtype);
            let n = values.len() as f64;
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            let variance = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
            assert!(mean.abs() < 0.02 * deviation, "{mean}");
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.02, "{variance}");
        }
        assert!((2..=PERIOD.isqrt()).all(|i| !PERIOD.is_multiple_of(i)));
    }

    #[test]
    fn sets_fill_the_cache_twice_and_the_memory_is_bounded() {
        assert_eq!(
            [sets(1 << 20, 60 << 20), sets(1 << 30, 60 << 20), sets(6, 60 << 20)],
            [120, 1, 256]
        );
    }

    #[test]
    fn parts_of_a_large_result_are_whole_elements_in_it() {
        assert_eq!(parts(100), [(0, 100)]);
        for bytes in [(PARTS * PART_BYTES) + 4, 1 << 30, (5 << 30) + 12] {
            let parts = parts(bytes);
            assert_eq!((parts.len(), parts[0].0), (PARTS, 0));
            assert!(parts.iter().all(|(start, _)| start.is_multiple_of(4)));
            let (start, len) = parts[PARTS - 1];
            assert_eq!(start + len, bytes);
            assert!(parts.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn rounding_is_no_difference_and_anything_else_is() {
        let types = [Dtype::Bf16; 2];
        let want: Vec<f32> = (0..200).map(|i| (i as f32 - 100.0) / 50.0).collect();
        let said = |change: &dyn Fn(&mut Vec<f32>), types: [Dtype; 2]| {
            let mut have = want.clone();
            change(&mut have);
            let [want, have] = [&want, &have].map(|x| data::encode(x, types[1]).unwrap());
            difference(&want, &have, types, 4096).unwrap()
        };
        assert_eq!(said(&|_| {}, types), None);
        assert_eq!(said(&|x| x.iter_mut().for_each(|x| *x *= 1.0 + 2f32.powi(-8)), types), None);
        let text = said(&|x| x[7] += 0.2, types).expect("a difference");
        assert!(text.starts_with("element 7 ") && !text.contains('\n'), "{text}");
        assert!(said(&|x| x[199] = f32::NAN, types).is_some());
        assert!(said(&|x| x[100] = 0.1, types).is_some());
        let f32s = [Dtype::Bf16, Dtype::F32];
        assert_eq!(said(&|x| x[3] *= 1.0 + 1e-6, f32s), None);
        assert!(said(&|x| x[3] *= 1.0 + 1e-3, f32s).is_some());
    }
}
