//! The products that each kernel for Blackwell computes, compared with f64.
//!
//! Shared, by path, by the test on the model (warpipe-host) and the one on a GPU (warpipe).
#![allow(dead_code)]

use gpu_kernels::sm100::Instance;
use host::reference::Product;
use host::sm100::Plan;
use host::{Device, Dtype, Error, data};
use isa::kernel::Image;

const ALPHA: f32 = 0.5;

/// Sizes beyond one cluster tile of `instance`, with residues: rows, columns and K.
pub fn small(instance: &Instance) -> [u32; 3] {
    let [rows, columns] = instance.cluster_tile;
    [rows + 40, columns + 24, 2 * k_tile(instance) + 16]
}

/// More tiles than a GPU has SMs, more k tiles than stages, and residues.
pub fn large(instance: &Instance) -> [u32; 3] {
    [3000, 4104, 9 * k_tile(instance) + 48]
}

fn k_tile(instance: &Instance) -> u32 {
    instance.desc.meta.params[0].box_cols
}

/// Whole numbers from -4 to 4, of which each product is exact; or normal values.
fn values(seed: u64, count: usize, whole: bool, dtype: Dtype) -> Result<Vec<f32>, Error> {
    let normal = data::normal(seed, count);
    if whole {
        return Ok(normal.into_iter().map(|x| (2.0 * x).round().clamp(-4.0, 4.0)).collect());
    }
    data::rounded(&normal, dtype)
}

/// The exponent of the block scale of 32 elements of a row.
fn exponent(operand: usize, row: usize, k_block: usize) -> i32 {
    ((7 * row + row / 32 + 5 * k_block + 3 * operand) % 3) as i32 - 1
}

/// The block scales of an operand of `rows` rows, as the kernels take them: `bytes` bytes.
fn scales(operand: usize, rows: usize, bytes: usize) -> Vec<u8> {
    let k_tiles = bytes / 512 / rows.div_ceil(128);
    let mut scales = vec![0; bytes];
    for row in 0..rows.next_multiple_of(128) {
        for k_block in 0..4 * k_tiles {
            let block = row / 128 * k_tiles + k_block / 4;
            let at = 512 * block + 16 * (row % 32) + 4 * (row % 128 / 32) + k_block % 4;
            scales[at] = (127 + exponent(operand, row, k_block)) as u8;
        }
    }
    scales
}

/// Multiplies, and says what is wrong with the result; the line that describes it if nothing is.
pub fn product(
    device: &Device,
    image: &'static Image,
    instance: &'static Instance,
    size: [u32; 3],
    whole: bool,
) -> Result<String, String> {
    let name = instance.desc.meta.name();
    let [m, n, k] = size.map(|extent| extent as usize);
    let what = format!("{name}, {m} x {n} x {k}, {}", if whole { "whole" } else { "normal" });
    multiply(device, image, instance, size, whole)
        .map_err(|e| format!("{what}: {e}"))
        .and_then(|said| said.map(|s| format!("{what}: {s}")).map_err(|s| format!("{what}: {s}")))
}

fn multiply(
    device: &Device,
    image: &'static Image,
    instance: &'static Instance,
    size: [u32; 3],
    whole: bool,
) -> Result<Result<String, String>, Error> {
    let plan = Plan::new(device, image, instance, size)?;
    let [Some(a_type), Some(b_type), Some(d_type)] = plan.dtypes() else {
        return Ok(Err("an operand without a type".into()));
    };
    let [m, n, k] = size.map(|extent| extent as usize);
    let (mut a, mut b) = (values(1, m * k, whole, a_type)?, values(2, n * k, whole, b_type)?);
    let uploaded =
        [device.upload(&data::encode(&a, a_type)?)?, device.upload(&data::encode(&b, b_type)?)?];
    let factors = match plan.scale_bytes() {
        None => None,
        Some([of_a, of_b]) => {
            for (operand, values) in [&mut a, &mut b].into_iter().enumerate() {
                for (i, x) in values.iter_mut().enumerate() {
                    *x *= 2.0_f32.powi(exponent(operand, i / k, i % k / 32));
                }
            }
            Some([device.upload(&scales(0, m, of_a))?, device.upload(&scales(1, n, of_b))?])
        }
    };
    let mut d = device.alloc(m * n * d_type.size())?;
    // What a kernel leaves out is no number.
    d.fill(0xff)?;
    let factors = factors.as_ref().map(|[a, b]| [a, b]);
    plan.run(&uploaded[0], &uploaded[1], factors, &mut d, ALPHA, &device.stream())?;
    let got = data::decode(&d.to_vec()?, d_type)?;
    let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: ALPHA, beta: 0.0 };
    if whole {
        // The sums fit in f32, so that only the result is rounded.
        let want: Vec<f32> = product.compute()?.into_iter().map(|x| x as f32).collect();
        let want = data::rounded(&want, d_type)?;
        // Of the two zeros, either is right.
        let bits = |x: &f32| (x + 0.0).to_bits();
        let wrong = got.iter().zip(&want).position(|(got, want)| bits(got) != bits(want));
        return Ok(match wrong {
            None => Ok(format!("exact, {} CTAs", plan.ctas())),
            Some(i) => Err(format!("D({}, {}) is {}, not {}", i / n, i % n, got[i], want[i])),
        });
    }
    let check = product.check(&got)?;
    let bound = if d_type == Dtype::F32 { 1e-5 } else { 4e-3 };
    let line = format!("{check}, {} CTAs", plan.ctas());
    Ok(if check.below(bound) { Ok(line) } else { Err(format!("{line}; below {bound} is right")) })
}
