//! The scales of operands of e4m3, and the launch of a plan with them.
//!
//! All scales of A are 2 and all of B are 1/2. So the product is that of the operands alone, exactly, and a kernel that leaves out
//! the scales of one operand is wrong by a factor of 2.

use gpu_kernels::gemm::{Epilogue, Linear, Scaled};
use host::gemm::{BlockScales, BoundGemm, GemmProblem, OperandScales};
use host::{Buffer, Device, Dtype, Stream, data};
use serde::{Deserialize, Serialize};

/// Values of the scales of A and of B.
const VALUES: [f32; 2] = [2.0, 0.5];
/// Elements along K, and rows of B, that share a scale.
const BLOCK: u64 = 128;
/// The pitch of block scales is a multiple of this many values, for cuBLASLt and for TMA.
const UNIT: u64 = 4;

/// What has one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaleOf {
    /// The whole operand.
    Tensor,
    /// Each row of A, and each row of B.
    Row,
    /// Each 128 of K, of a row of A and of 128 rows of B.
    Block,
}

impl ScaleOf {
    /// Numbers of scales of A and of B.
    fn lengths(self, problem: &GemmProblem) -> [u64; 2] {
        let GemmProblem { m, n, k, .. } = *problem;
        match self {
            Self::Tensor => [1, 1],
            Self::Row => [m, n],
            Self::Block => [
                k.div_ceil(BLOCK) * m.next_multiple_of(UNIT),
                n.div_ceil(BLOCK) * k.div_ceil(BLOCK).next_multiple_of(UNIT),
            ],
        }
    }
}

impl std::fmt::Display for ScaleOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tensor => "tensors",
            Self::Row => "rows",
            Self::Block => "blocks",
        })
    }
}

/// Scales for any of several products.
pub(super) struct ScalePool {
    of: ScaleOf,
    buffers: [Buffer; 2],
}

impl ScalePool {
    /// Makes as many scales as the largest of `problems` has.
    pub fn new(
        device: &Device,
        of: ScaleOf,
        problems: &[GemmProblem],
    ) -> Result<Self, host::Error> {
        let most = |i: usize| problems.iter().map(|p| of.lengths(p)[i]).max().unwrap_or(1);
        let upload = |i: usize| {
            device.upload(&data::encode(&vec![VALUES[i]; most(i) as usize], Dtype::F32)?)
        };
        Ok(Self { of, buffers: [upload(0)?, upload(1)?] })
    }

    /// The scales of a product.
    ///
    /// # Errors
    /// [`host::Error::OutOfBuffer`] for a product that has more scales than those that the pool was made for.
    pub fn scales(&self, problem: &GemmProblem) -> Result<ProductScales, host::Error> {
        let [a, b] = self.of.lengths(problem).map(|values| 4 * values as usize);
        let [of_a, of_b] = &self.buffers;
        let (a, b) = (of_a.part(0, a)?, of_b.part(0, b)?);
        let pitches =
            [problem.m.next_multiple_of(UNIT), problem.k.div_ceil(BLOCK).next_multiple_of(UNIT)];
        Ok(ProductScales { of: self.of, a, b, pitches })
    }
}

/// The scales of a product's operands, in device memory.
pub struct ProductScales {
    /// What has one scale.
    pub(super) of: ScaleOf,
    pub(super) a: Buffer,
    pub(super) b: Buffer,
    /// Values from one block of K to the next for A, and from one block of rows to the next for B.
    pitches: [u64; 2],
}

/// An epilogue whose plans can be timed.
pub trait Launch: Epilogue + Sized {
    /// Queues a launch of a bound plan, with the scales of its operands if they have any.
    ///
    /// # Errors
    /// [`host::Error::ScalesOfKernel`] for a plan that needs scales; errors of the launch, among them those of scales that the
    /// plan does not take.
    fn launch(
        bound: &BoundGemm<'_, Self>,
        scales: Option<&ProductScales>,
        stream: &Stream,
    ) -> Result<(), host::Error>;
}

impl Launch for Linear {
    fn launch(
        bound: &BoundGemm<'_>,
        scales: Option<&ProductScales>,
        stream: &Stream,
    ) -> Result<(), host::Error> {
        let Some(ProductScales { a, b, pitches: [a_pitch, b_pitch], .. }) = scales else {
            return bound.run(1.0, 0.0, stream);
        };
        let scales = BlockScales { a, a_pitch: *a_pitch, b, b_pitch: *b_pitch };
        bound.run_block_scaled(scales, Linear { alpha: 1.0, beta: 0.0 }, stream)
    }
}

impl Launch for Scaled<'static> {
    fn launch(
        bound: &BoundGemm<'_, Self>,
        scales: Option<&ProductScales>,
        stream: &Stream,
    ) -> Result<(), host::Error> {
        let Some(ProductScales { a, b, .. }) = scales else {
            let (kernel, right) = ("the plan's kernel".to_owned(), "Bench::with_scales");
            return Err(host::Error::ScalesOfKernel { kernel, applies: "scales", right });
        };
        bound.run_scaled(OperandScales { a, b }, 1.0, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::SimConfig;

    fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
        GemmProblem { m, n, k, ab: Dtype::E4m3, out: Dtype::Bf16, beta_c: false }
    }

    #[test]
    fn each_operand_has_as_many_scales_as_its_kind_says() {
        let p = problem(6, 300, 700);
        assert_eq!(ScaleOf::Tensor.lengths(&p), [1, 1]);
        assert_eq!(ScaleOf::Row.lengths(&p), [6, 300]);
        // Six blocks of K, each with a pitch of 8; three blocks of rows, each with a pitch of 8.
        assert_eq!(ScaleOf::Block.lengths(&p), [6 * 8, 3 * 8]);
    }

    #[test]
    fn a_pool_has_the_scales_of_its_products_and_no_more() {
        let device = Device::sim(SimConfig::default());
        let pool = ScalePool::new(&device, ScaleOf::Row, &[problem(6, 8, 16), problem(4, 300, 16)])
            .expect("a pool");
        let scales = pool.scales(&problem(6, 300, 16)).expect("scales");
        let values = |buffer: &Buffer| {
            data::decode(&buffer.to_vec().expect("bytes"), Dtype::F32).expect("f32")
        };
        assert_eq!((values(&scales.a), values(&scales.b)), (vec![2.0; 6], vec![0.5; 300]));
        assert!(pool.scales(&problem(7, 300, 16)).is_err());
        // Their product is 1, so that the reference needs none.
        assert!((VALUES[0] * VALUES[1] - 1.0).abs() < f32::EPSILON);
    }
}
