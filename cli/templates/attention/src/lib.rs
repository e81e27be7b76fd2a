//! The host's side of the kernel: its image, its launch, and what it should compute.

use kernels::{Alibi, KERNELS};
use warpipe::host::attention::{
    Attention, AttentionPlan, AttentionProblem, Heads, Mask, Sequences,
};
use warpipe::host::{Device, Dtype, Error, data};
use warpipe::isa::kernel::Image;

/// The kernel as PTX, which `build.rs` compiles.
pub static IMAGE: Image = warpipe::kernel_image!("{{crate}}_kernels");

/// Sizes of Q and O \[batch, tokens, heads.q, heads.dim\], and of K and V \[batch, tokens, heads.kv, heads.dim\].
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Sequences.
    pub batch: u32,
    /// Queries of a sequence, and keys.
    pub tokens: u32,
    /// Heads of Q and of K, and their columns.
    pub heads: Heads,
}

impl Size {
    /// Numbers of Q and O, and of K and V.
    pub fn values(&self) -> [usize; 2] {
        let of = |heads: u32| {
            let sizes = [self.batch, self.tokens, heads, self.heads.dim];
            sizes.map(|size| size as usize).iter().product()
        };
        [of(self.heads.q), of(self.heads.kv)]
    }
}

/// The kernel, loaded on a device.
pub struct AlibiAttention {
    device: Device,
    attention: Attention,
}

impl AlibiAttention {
    /// Loads the kernel on a GPU or on the SM model.
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            device: device.clone(),
            attention: Attention::with_instances(device, &IMAGE, KERNELS)?,
        })
    }

    /// Plans causal attention of bf16. Make a plan once, and run it many times.
    ///
    /// # Errors
    /// A size of 0; a head with more columns than the kernel has; heads of Q that those of K do not divide.
    pub fn plan(&self, size: Size) -> Result<AttentionPlan, Error> {
        let sequences = Sequences::Equal {
            batch: size.batch,
            q: size.tokens,
            kv: size.tokens,
        };
        self.attention.plan(&AttentionProblem {
            mask: Mask::CAUSAL,
            ..AttentionProblem::bshd(Dtype::Bf16, size.heads, sequences)
        })
    }

    /// O: copies Q, K, V and the slopes (one for each head of Q) to the device, runs `plan`, and copies O back.
    ///
    /// # Errors
    /// An operand that does not have the plan's size; another number of slopes; an error of the launch.
    pub fn run(
        &self,
        plan: &AttentionPlan,
        [q, k, v]: [&[f32]; 3],
        slopes: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let (given, heads) = (slopes.len() as u64, u64::from(plan.problem().heads.q));
        if given != heads {
            return Err(Error::LengthMismatch {
                what: "the slopes of the heads",
                host: 4 * given,
                device: 4 * heads,
            });
        }
        let upload = |values: &[f32], dtype| self.device.upload(&data::encode(values, dtype)?);
        let mut o = self.device.alloc(2 * q.len())?;
        let [q, k, v] = [q, k, v].map(|values| upload(values, Dtype::Bf16));
        let (q, k, v) = (q?, k?, v?);
        let slopes = upload(slopes, Dtype::F32)?;
        let score = Alibi {
            slopes: slopes.dependent_slice(),
        };
        plan.bind(&q, &k, &v, &mut o, None)?
            .run_with(score, &self.device.stream())?;
        data::decode(&o.to_vec()?, Dtype::Bf16)
    }
}

/// The slopes of the paper: 2^(-8 / heads), and its powers.
pub fn slopes(heads: u32) -> Vec<f32> {
    (1..=heads)
        .map(|head| (-8.0 * head as f32 / heads as f32).exp2())
        .collect()
}

/// The largest difference between O and attention in f64, in units of what the rounding of the weights and of O to bf16
/// explains: a correct result has at most 1.
///
/// # Errors
/// A value that bf16 can't hold.
///
/// # Panics
/// An operand or slopes of another number of values than `size` says.
pub fn error(size: Size, qkv: [&[f32]; 3], slopes: &[f32], o: &[f32]) -> Result<f64, Error> {
    let [q, k, v] = qkv.map(|values| data::rounded(values, Dtype::Bf16));
    let (q, k, v) = (q?, k?, v?);
    let Heads {
        q: heads,
        kv: kv_heads,
        ..
    } = size.heads;
    let [queries, keys] = size.values();
    let have = [q.len(), k.len(), v.len(), o.len(), slopes.len()];
    assert_eq!(have, [queries, keys, keys, queries, heads as usize]);
    let mut worst: f64 = 0.0;
    for (b, head) in (0..size.batch).flat_map(|b| (0..heads).map(move |head| (b, head))) {
        let kv_head = head / (heads / kv_heads);
        let [q, o] = [&q, o].map(|x| rows(x, size, heads, [b, head]));
        let [k, v] = [&k, &v].map(|x| rows(x, size, kv_heads, [b, kv_head]));
        let slope = f64::from(slopes[head as usize]);
        for (i, (query, o)) in q.iter().zip(&o).enumerate() {
            // Query i sees the keys up to its own.
            let off = row_error(query, &k[..=i], &v[..=i], slope, o);
            // A NaN is an error, too.
            worst = worst.max(if off.is_nan() { f64::INFINITY } else { off });
        }
    }
    Ok(worst)
}

/// The rows of a head of a sequence.
fn rows(x: &[f32], size: Size, heads: u32, [b, head]: [u32; 2]) -> Vec<Vec<f64>> {
    let [tokens, heads, dim] = [size.tokens, heads, size.heads.dim].map(|size| size as usize);
    let rows = x
        .chunks(dim)
        .skip(b as usize * tokens * heads + head as usize);
    let values = |row: &[f32]| row.iter().copied().map(f64::from).collect();
    rows.step_by(heads).take(tokens).map(values).collect()
}

/// The largest error of a row of O, for a query whose own key is the last one.
fn row_error(query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>], slope: f64, o: &[f64]) -> f64 {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let score = |(j, key): (usize, &Vec<f64>)| {
        let product: f64 = query.iter().zip(key).map(|(a, b)| a * b).sum();
        scale * product - slope * (keys.len() - 1 - j) as f64
    };
    let scores: Vec<f64> = keys.iter().enumerate().map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
    let total: f64 = weights.iter().sum();
    let error = |(column, have): (usize, &f64)| {
        let terms = weights.iter().zip(values);
        let terms: Vec<f64> = terms.map(|(w, v)| w * v[column] / total).collect();
        let want: f64 = terms.iter().sum();
        let size: f64 = terms.iter().map(|term| term.abs()).sum();
        // Each of the two roundings changes a value by at most 2^-9 of its size; and twice that.
        (have - want).abs() / (2.0 * (size + want.abs()) / 512.0)
    };
    // In this order a NaN is larger than any number.
    let errors = o.iter().enumerate().map(error);
    errors.max_by(f64::total_cmp).unwrap_or_default()
}
