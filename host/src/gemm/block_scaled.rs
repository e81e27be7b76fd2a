//! Products of operands with block scales, which the main loop applies: D = alpha * sum over the blocks of K of
//! scale of A * scale of B * A * B^T.

use super::{BoundGemm, Gemm, GemmPlan, GemmProblem};
use crate::buffer::{Buffer, span};
use crate::device::Device;
use crate::error::Error;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::scales::{GRANULARITY_K, GRANULARITY_N};
use gpu_kernels::gemm::{BLOCK_SCALED_INSTANCES, Epilogue, Linear, Sfb};
use isa::kernel::{Dtype, Image};

/// Elements of 16 bytes, the unit of a row pitch that TMA accepts.
const UNIT: u64 = 4;

/// The block scales of A and B in device memory, f32 values.
///
/// A has one scale per row and 128 of K. B has one scale per 128 rows and 128 of K. The last block of K, and the last one of
/// B's rows, may be partial. (DeepSeek's recipe; torch: `BlockWise1x128` and `BlockWise128x128`.)
///
/// Row `r` of A has the scale `a[k / 128 * a_pitch + r]`. So the scales of a block of K are adjacent, as `torch._scaled_mm`
/// requires (`stride(0) == 1`) and as DeepGEMM makes them. Row `c` of B, which is column `c` of D, has the scale
/// `b[c / 128 * b_pitch + k / 128]`.
#[derive(Clone, Copy)]
pub struct BlockScales<'s> {
    /// The scales of A: [K/128, M].
    pub a: &'s Buffer,
    /// Values from one block of K to the next in `a`: at least M, and a multiple of 4 if there is more than one block.
    pub a_pitch: u64,
    /// The scales of B: [N/128, K/128].
    pub b: &'s Buffer,
    /// Values from one block of rows to the next in `b`: at least K/128, rounded up.
    pub b_pitch: u64,
}

impl<'s> BlockScales<'s> {
    /// Scales with the shortest pitches: M rounded up to a multiple of 4, and K/128 rounded up.
    #[must_use]
    pub fn packed(problem: &GemmProblem, a: &'s Buffer, b: &'s Buffer) -> Self {
        let (a_pitch, b_pitch) = (problem.m.next_multiple_of(UNIT), blocks(problem)[1]);
        Self { a, a_pitch, b, b_pitch }
    }

    /// Checks the pitches and the lengths.
    fn check(&self, problem: &GemmProblem) -> Result<(), Error> {
        let [n, k] = blocks(problem);
        // One block of K has no pitch.
        let unit = if k > 1 { UNIT } else { 1 };
        let operands = [
            ('A', self.a, self.a_pitch, [k, problem.m], unit),
            ('B', self.b, self.b_pitch, [n, k], 1),
        ];
        for (operand, buffer, pitch, [rows, values], unit) in operands {
            let refuse = |have: String, right: String| {
                Err(Error::BlockScales { operand, rows, values, have, right })
            };
            if pitch < values || !pitch.is_multiple_of(unit) {
                let and =
                    if unit > 1 { format!(" and a multiple of {unit}") } else { String::new() };
                return refuse(format!("a pitch of {pitch}"), format!("at least {values}{and}"));
            }
            let need = if values == 0 { Some(0) } else { span(rows, pitch, values) };
            let have = buffer.len() as u64 / 4;
            if need.is_none_or(|need| need > have) {
                let need = need.map_or_else(|| "more than 2^64".to_owned(), |n| n.to_string());
                return refuse(
                    format!("{have} f32 values with a pitch of {pitch}"),
                    format!("{need} values"),
                );
            }
        }
        Ok(())
    }
}

/// Blocks of B's rows, and of K.
fn blocks(problem: &GemmProblem) -> [u64; 2] {
    [problem.n.div_ceil(GRANULARITY_N.into()), problem.k.div_ceil(GRANULARITY_K.into())]
}

impl Gemm {
    /// Loads the GEMM kernels of `gpu_kernels` for operands with block scales from their image.
    ///
    /// Each 128 of K are multiplied in the tensor cores, scaled, and added to sums in f32: such sums have no fast
    /// accumulation. Run a plan with [`GemmPlan::run_block_scaled`].
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn block_scaled(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, BLOCK_SCALED_INSTANCES)
    }
}

impl GemmPlan {
    /// Queues the product of A and B with their block scales, times `alpha`, on the device's stream. [`Buffer::read`] waits
    /// for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`] and of [`BoundGemm::run_block_scaled`].
    pub fn run_block_scaled<'v>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        scales: BlockScales<'_>,
        alpha: f32,
    ) -> Result<(), Error> {
        let epilogue = Linear { alpha, beta: 0.0 };
        self.bind(a, b, None, d)?.run_block_scaled(scales, epilogue, &self.device.stream())
    }
}

impl<E: Epilogue> BoundGemm<'_, E> {
    /// Queues the product of A and B with their block scales on `stream`, with this epilogue. Like
    /// [`BoundGemm::run_with`], it may wait for runs on other streams. The scales are read when the product runs.
    ///
    /// # Errors
    /// [`Error::BlockScales`] for scales that are too short or whose pitch is wrong; [`Error::ScalesOfKernel`] if the plan's
    /// kernel applies none; [`Error::ForeignDevice`] for scales of another device; [`Error::Tensor`](crate::Error::Tensor)
    /// for scales of A whose address is not a multiple of 16 bytes; the errors of [`BoundGemm::run_with`].
    pub fn run_block_scaled(
        &self,
        scales: BlockScales<'_>,
        epilogue: E,
        stream: &Stream,
    ) -> Result<(), Error> {
        scales.check(self.problem())?;
        for buffer in [scales.a, scales.b] {
            self.device().check_buffer("block scales", buffer)?;
        }
        self.queue_first(Some(scales), epilogue, stream)
    }

    /// The tensor map of the scales of A, for a kernel whose parameter has boxes of `tile`.
    pub(super) fn map_of_scales(
        &self,
        scales: &BlockScales<'_>,
        tile: TensorBox,
    ) -> Result<TensorMap, Error> {
        let (m, k) = (self.problem().m, blocks(self.problem())[1]);
        let dtype = Dtype::F32;
        // One zero k tile is multiplied if K is 0, and no scale exists: the zero row of A serves.
        let zeros = Matrix { offset: 0, dtype, rows: 1, cols: UNIT, pitch: 4 * UNIT };
        // Any pitch describes a single row.
        let pitch = if k > 1 { scales.a_pitch } else { m.next_multiple_of(UNIT) };
        let matrix = Matrix { rows: k, cols: m, pitch: 4 * pitch, ..zeros };
        let (memory, matrix) =
            if k == 0 { (self.zeros()?, zeros) } else { (&scales.a.memory, matrix) };
        self.device().tensor_map_of(memory, &matrix, tile)
    }

    /// The kernel's argument for the scales of B.
    pub(super) fn param_of_scales<'s>(scales: &BlockScales<'s>) -> Param<'s> {
        Param::value(Sfb { values: scales.b.dependent_slice(), pitch: scales.b_pitch })
    }
}
