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
        let row = |heads: u32| (self.batch * self.tokens * heads * self.heads.dim) as usize;
        [row(self.heads.q), row(self.heads.kv)]
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
    /// An operand that does not have the plan's size; an error of the launch.
    pub fn run(
        &self,
        plan: &AttentionPlan,
        [q, k, v]: [&[f32]; 3],
        slopes: &[f32],
    ) -> Result<Vec<f32>, Error> {
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
pub fn error(size: Size, qkv: [&[f32]; 3], slopes: &[f32], o: &[f32]) -> Result<f64, Error> {
    let [q, k, v] = qkv.map(|values| data::rounded(values, Dtype::Bf16));
    let (q, k, v) = (q?, k?, v?);
    let Heads {
        q: heads,
        kv: kv_heads,
        dim,
    } = size.heads;
    let row = |x: &[f32], heads: u32, b: u32, token: u32, head: u32| -> Vec<f64> {
        let first = (((b * size.tokens + token) * heads + head) * dim) as usize;
        let row = &x[first..first + dim as usize];
        row.iter().copied().map(f64::from).collect()
    };
    let mut worst: f64 = 0.0;
    for (b, head) in (0..size.batch).flat_map(|b| (0..heads).map(move |head| (b, head))) {
        let group = head / (heads / kv_heads);
        let keys: Vec<_> = (0..size.tokens)
            .map(|token| {
                (
                    row(&k, kv_heads, b, token, group),
                    row(&v, kv_heads, b, token, group),
                )
            })
            .collect();
        for i in 0..size.tokens {
            let query = row(&q, heads, b, i, head);
            let seen = &keys[..=i as usize];
            let scores: Vec<f64> = seen
                .iter()
                .enumerate()
                .map(|(j, (key, _))| {
                    let product: f64 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                    let distance = f64::from(i) - j as f64;
                    product / f64::from(dim).sqrt() - f64::from(slopes[head as usize]) * distance
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (column, have) in row(o, heads, b, i, head).into_iter().enumerate() {
                let terms = weights
                    .iter()
                    .zip(seen)
                    .map(|(w, (_, value))| w * value[column]);
                let (want, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
                    (sum + term / total, size + term.abs() / total)
                });
                // Each of the two roundings changes a value by at most 2^-9 of its size; and twice that.
                let error = (have - want).abs() / (2.0 * (size + want.abs()) / 512.0);
                // A NaN is an error, too.
                worst = worst.max(if error.is_nan() { f64::INFINITY } else { error });
            }
        }
    }
    Ok(worst)
}
