//! Values on the host: conversions between f32 and the element types, and seeded normal data.

use crate::error::Error;
use crate::tensor_error::dtype_name;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
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

/// The bytes of `values` as `dtype`, rounded to nearest even.
///
/// # Errors
/// [`Error::GemmDtype`] for types that are not floats.
pub fn encode(values: &[f32], dtype: Dtype) -> Result<Vec<u8>, Error> {
    Ok(match dtype {
        Dtype::F32 => to_bytes(values, |x| x.to_ne_bytes()),
        Dtype::Bf16 => {
            let mut out = vec![bf16::ZERO; values.len()];
            out.convert_from_f32_slice(values);
            to_bytes(&out, |x| x.to_ne_bytes())
        }
        Dtype::F16 => {
            let mut out = vec![f16::ZERO; values.len()];
            out.convert_from_f32_slice(values);
            to_bytes(&out, |x| x.to_ne_bytes())
        }
        Dtype::U8 | Dtype::U32 => return Err(not_a_float(dtype)),
    })
}

/// The values of `bytes` as f32, exactly.
///
/// # Errors
/// [`Error::GemmDtype`] for types that are not floats; [`Error::LengthMismatch`] if `bytes` is not a
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
        Dtype::U8 | Dtype::U32 => return Err(not_a_float(dtype)),
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

fn not_a_float(dtype: Dtype) -> Error {
    let dtype = dtype_name(dtype);
    Error::GemmDtype { side: "values", dtype, right: "bf16, f16 or f32" }
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
}
