//! The products that each kernel for Blackwell computes, compared with f64.
//!
//! Shared, by path, by the test on the model (warpipe-host) and the one on a GPU (warpipe).
#![allow(dead_code)]

use gpu_kernels::sm100::Instance;
use host::reference::Product;
use host::sm100::Plan;
use host::{Device, Dtype, Error, data};
use isa::E2m1x2;
use isa::kernel::Image;

const ALPHA: f32 = 0.5;

/// Sizes beyond one cluster tile of `instance`, with residues: rows, columns and K.
pub fn small(instance: &Instance) -> [u32; 3] {
    let [rows, columns] = instance.cluster_tile;
    [rows + 40, columns + 24, 2 * k_tile(instance) + 16 * instance.packing]
}

/// More tiles than a GPU has SMs, more k tiles than stages, and residues.
pub fn large(instance: &Instance) -> [u32; 3] {
    [3000, 4104, 9 * k_tile(instance) + 48 * instance.packing]
}

/// Values of a k tile.
fn k_tile(instance: &Instance) -> u32 {
    instance.desc.meta.params[0].box_cols * instance.packing
}

/// The values of an operand, and its bytes: whole numbers from -4 to 4, of which each product is exact; or normal values.
fn values(
    seed: u64,
    count: usize,
    whole: bool,
    (dtype, packing): (Dtype, u32),
) -> Result<(Vec<f32>, Vec<u8>), Error> {
    let mut values = data::normal(seed, count);
    if whole {
        for x in &mut values {
            *x = (2.0 * *x).round().clamp(-4.0, 4.0);
        }
    }
    if packing == 2 {
        let pairs = values.chunks_exact(2).map(|two| E2m1x2::from_f32([two[0], two[1]]));
        let pairs: Vec<_> = pairs.collect();
        let bytes = pairs.iter().map(|pair| pair.to_bits()).collect();
        return Ok((pairs.into_iter().flat_map(E2m1x2::to_f32).collect(), bytes));
    }
    Ok((data::rounded(&values, dtype)?, data::encode(&values, dtype)?))
}

/// Values that share a block scale.
fn scaled_together(packing: u32) -> usize {
    if packing == 2 { 16 } else { 32 }
}

/// A block scale of a row, and its byte.
fn scale(operand: usize, row: usize, block: usize, packing: u32) -> (f32, u8) {
    if packing == 2 {
        // ue4m3: four bits of exponent with a bias of 7, three bits of fraction.
        let all = [(0.5, 0x30), (1.75, 0x3e), (1.0, 0x38), (0.75, 0x34), (2.5, 0x42)];
        return all[(7 * row + row / 32 + 3 * block + 2 * operand) % all.len()];
    }
    // ue8m0: an exponent with a bias of 127.
    let exponent = ((7 * row + row / 32 + 5 * block + 3 * operand) % 3) as i32 - 1;
    (2.0_f32.powi(exponent), (127 + exponent) as u8)
}

/// The block scales of an operand of `rows` rows, as the kernels take them: `bytes` bytes.
fn scales(operand: usize, rows: usize, bytes: usize, packing: u32) -> Vec<u8> {
    // Blocks of 512 bytes along K, of four scales of each row.
    let along_k = bytes / 512 / rows.div_ceil(128);
    let mut scales = vec![0; bytes];
    for row in 0..rows.next_multiple_of(128) {
        for i in 0..4 * along_k {
            let block = row / 128 * along_k + i / 4;
            let at = 512 * block + 16 * (row % 32) + 4 * (row % 128 / 32) + i % 4;
            scales[at] = scale(operand, row, i, packing).1;
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
    let packing = instance.packing;
    let (mut a, bytes_a) = values(1, m * k, whole, (a_type, packing))?;
    let (mut b, bytes_b) = values(2, n * k, whole, (b_type, packing))?;
    let uploaded = [device.upload(&bytes_a)?, device.upload(&bytes_b)?];
    let factors = match plan.scale_bytes() {
        None => None,
        Some([of_a, of_b]) => {
            for (operand, values) in [&mut a, &mut b].into_iter().enumerate() {
                for (i, x) in values.iter_mut().enumerate() {
                    *x *= scale(operand, i / k, i % k / scaled_together(packing), packing).0;
                }
            }
            let [a, b] = [scales(0, m, of_a, packing), scales(1, n, of_b, packing)];
            Some([device.upload(&a)?, device.upload(&b)?])
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
