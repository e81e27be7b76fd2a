//! Values on the host: conversions between f32 and the element types, and seeded normal data.

use crate::error::Error;
use crate::tensor_error::dtype_name;
use float8::{F8E4M3, F8E5M2};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use isa::Tf32;
use isa::kernel::Dtype;

/// Number of values from one stream of the generator.
#[cfg(feature = "reference")]
const CHUNK: usize = 1 << 16;

/// `count` values of the standard normal distribution.
///
/// The same `seed` gives the same values on any machine with any number of threads: chunk `i` of
/// 65536 values is stream `i` of a ChaCha8 generator.
#[cfg(feature = "reference")]
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    use rayon::prelude::*;
    let mut values = vec![0.0; count];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(i, chunk)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(i as u64);
        for value in chunk {
            *value = StandardNormal.sample(&mut rng);
        }
    });
    values
}

/// The bytes of `values` as `dtype`, rounded to nearest even; to tf32, ties go away from zero.
///
/// What is beyond the range of e4m3, e5m2, i8 or i32 becomes the number of its sign that is farthest from zero. A
/// NaN becomes 0 as i8 or i32.
///
/// # Errors
/// [`Error::GemmDtype`] for u8 and u32.
pub fn encode(values: &[f32], dtype: Dtype) -> Result<Vec<u8>, Error> {
    Ok(match dtype {
        Dtype::F32 => to_bytes(values, f32::to_ne_bytes),
        Dtype::Bf16 => {
            let mut out = vec![bf16::ZERO; values.len()];
            out.convert_from_f32_slice(values);
            to_bytes(&out, bf16::to_ne_bytes)
        }
        Dtype::F16 => {
            let mut out = vec![f16::ZERO; values.len()];
            out.convert_from_f32_slice(values);
            to_bytes(&out, f16::to_ne_bytes)
        }
        Dtype::E4m3 => to_bytes(values, |x| [F8E4M3::from_f32(x).to_bits()]),
        Dtype::E5m2 => to_bytes(values, |x| [F8E5M2::from_f32(x).to_bits()]),
        Dtype::I8 => to_bytes(values, |x| (x.round_ties_even() as i8).to_ne_bytes()),
        Dtype::Tf32 => to_bytes(values, |x| Tf32::from_f32(x).to_bits().to_ne_bytes()),
        Dtype::I32 => to_bytes(values, |x| (x.round_ties_even() as i32).to_ne_bytes()),
        Dtype::U8 | Dtype::U32 => return Err(not_coded(dtype)),
    })
}

/// The values of `bytes` as f32, exactly, but for i32 beyond 2^24, which is rounded. Of a tf32, the 13 lowest bits are not read.
///
/// # Errors
/// [`Error::GemmDtype`] for u8 and u32; [`Error::LengthMismatch`] if `bytes` is not a
/// whole number of elements.
pub fn decode(bytes: &[u8], dtype: Dtype) -> Result<Vec<f32>, Error> {
    let whole = bytes.len() - bytes.len() % dtype.size();
    if whole != bytes.len() {
        return Err(Error::LengthMismatch {
            what: "decoding whole elements",
            host: bytes.len() as u64,
            device: whole as u64,
        });
    }
    Ok(match dtype {
        Dtype::F32 => from_bytes(bytes, f32::from_ne_bytes),
        Dtype::Bf16 => {
            from_bytes(bytes, u16::from_ne_bytes).reinterpret_cast::<bf16>().to_f32_vec()
        }
        Dtype::F16 => from_bytes(bytes, u16::from_ne_bytes).reinterpret_cast::<f16>().to_f32_vec(),
        Dtype::E4m3 => from_bytes(bytes, |[byte]| F8E4M3::from_bits(byte).to_f32()),
        Dtype::E5m2 => from_bytes(bytes, |[byte]| F8E5M2::from_bits(byte).to_f32()),
        Dtype::I8 => from_bytes(bytes, |byte| f32::from(i8::from_ne_bytes(byte))),
        Dtype::Tf32 => from_bytes(bytes, |word| f32::from_bits(u32::from_ne_bytes(word) & !0x1fff)),
        Dtype::I32 => from_bytes(bytes, |word| i32::from_ne_bytes(word) as f32),
        Dtype::U8 | Dtype::U32 => return Err(not_coded(dtype)),
    })
}

/// The bytes of values of `N` bytes each. The loop becomes a copy.
fn to_bytes<T: Copy, const N: usize>(values: &[T], bytes_of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = vec![0; N * values.len()];
    for (to, &value) in bytes.chunks_exact_mut(N).zip(values) {
        to.copy_from_slice(&bytes_of(value));
    }
    bytes
}

/// The values of `N` bytes each.
fn from_bytes<T, const N: usize>(bytes: &[u8], value_of: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (whole, _) = bytes.as_chunks::<N>();
    whole.iter().map(|&value| value_of(value)).collect()
}

fn not_coded(dtype: Dtype) -> Error {
    let dtype = dtype_name(dtype);
    Error::GemmDtype { side: "values", dtype, right: "a float type, i8 or i32" }
}

/// The rows of gates and those that they let through, in the order of a [gated](crate::gemm::Gemm::gated) product: 8
/// gates, and then the 8 rows that belong to them.
///
/// Rows have `row_bytes` bytes each. A fused weight [2 N, K] as checkpoints store it is `gate` and `up` one behind the
/// other: `interleaved_gates(&w[..half], &w[half..], row_bytes)`. For a bias, a row is one value.
///
/// ```
/// use warpipe_host::data::interleaved_gates;
/// let (gate, up): (Vec<u8>, Vec<u8>) = ((0..16).collect(), (100..116).collect());
/// let order = interleaved_gates(&gate, &up, 1).unwrap();
/// assert_eq!(order[..16], [0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 104, 105, 106, 107]);
/// ```
///
/// # Errors
/// [`Error::Gates`] unless both have the same number of rows, a multiple of 8.
pub fn interleaved_gates(gate: &[u8], up: &[u8], row_bytes: usize) -> Result<Vec<u8>, Error> {
    let block = 8 * row_bytes;
    let whole = block > 0 && gate.len().is_multiple_of(block);
    if gate.len() != up.len() || !(whole || gate.is_empty()) {
        return Err(Error::Gates { gate: gate.len(), up: up.len(), row_bytes });
    }
    if gate.is_empty() {
        return Ok(Vec::new());
    }
    let pairs = gate.chunks_exact(block).zip(up.chunks_exact(block));
    Ok(pairs.flat_map(|(gate, up)| [gate, up]).flatten().copied().collect())
}

/// `values` rounded to `dtype`. A reference product uses these values, because the device sees them.
///
/// # Errors
/// The errors of [`encode`].
pub fn rounded(values: &[f32], dtype: Dtype) -> Result<Vec<f32>, Error> {
    decode(&encode(values, dtype)?, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_data_is_normal_and_the_seed_decides_it() {
        let n = 3 * CHUNK + 17;
        let a = normal(7, n);
        assert_eq!(a, normal(7, n));
        assert_eq!(a[..=CHUNK], normal(7, CHUNK + 1)[..]);
        assert_ne!(a, normal(8, n));
        assert_ne!(a[..CHUNK], a[CHUNK..2 * CHUNK]);
        let mean = a.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
        let var = a.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n as f64 - mean * mean;
        // The mean's standard deviation is 1/sqrt(n) = 0.0023, the variance's sqrt(2/n) = 0.0032.
        assert!(mean.abs() < 0.01 && (var - 1.0).abs() < 0.015, "{mean} {var}");
    }

    #[test]
    fn conversions_round_to_nearest_even() {
        // 1 + 2^-8 lies between two bf16 and goes to the even one; 1 + 3 * 2^-8 likewise, upwards.
        let odd = [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -2.5, f32::INFINITY];
        assert_eq!(rounded(&odd, Dtype::Bf16).unwrap(), [1.0, 1.015625, -2.5, f32::INFINITY]);
        assert_eq!(rounded(&[65520.0, 1e-8], Dtype::F16).unwrap(), [f32::INFINITY, 0.0]);
        assert_eq!(encode(&[1.0], Dtype::Bf16).unwrap(), [0x80, 0x3f]);
        assert_eq!(encode(&[1.0], Dtype::F16).unwrap(), [0x00, 0x3c]);
        assert_eq!(encode(&[1.0], Dtype::F32).unwrap(), [0, 0, 0x80, 0x3f]);
        assert!(decode(&[0; 3], Dtype::F16).unwrap_err().to_string().contains("3 bytes"));
        assert!(encode(&[1.0], Dtype::U8).is_err());
    }

    #[test]
    fn types_of_tensor_cores_saturate_and_round() {
        let values = [1.0, -0.3, 17.0, 500.0, -1e9];
        assert_eq!(rounded(&values, Dtype::E4m3).unwrap(), [1.0, -0.3125, 16.0, 448.0, -448.0]);
        assert_eq!(rounded(&values, Dtype::E5m2).unwrap(), [1.0, -0.3125, 16.0, 512.0, -57344.0]);
        assert_eq!(rounded(&values, Dtype::I8).unwrap(), [1.0, 0.0, 17.0, 127.0, -128.0]);
        assert_eq!(rounded(&[2.5, -3.5], Dtype::I8).unwrap(), [2.0, -4.0]);
        let fine = [1.0 + 2f32.powi(-11), 1.0 - 2f32.powi(-13)];
        assert_eq!(rounded(&fine, Dtype::Tf32).unwrap(), [1.0 + 2f32.powi(-10), 1.0]);
        assert_eq!(encode(&[1.0, 1.0], Dtype::E4m3).unwrap(), [0x38, 0x38]);
        assert_eq!(encode(&[-1.0], Dtype::E5m2).unwrap(), [0xbc]);
        assert_eq!(encode(&[-1.0], Dtype::I8).unwrap(), [0xff]);
        assert_eq!(decode(&[0xff, 0x1f, 0x80, 0x3f], Dtype::Tf32).unwrap(), [1.0]);
        assert_eq!(rounded(&[-7.5, 1e20], Dtype::I32).unwrap(), [-8.0, 2_147_483_648.0]);
    }
}
