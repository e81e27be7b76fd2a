//! Quantised results: links of a chain that scale results for e4m3 and keep the largest of them, and the compiled kernels
//! with e4m3 results.
//!
//! ```text
//! Scaled { alpha, a, b } ──► then(Amax) ──► then(ScaleD) ──► e4m3, saturated
//! ```
//! The maximum is that of the results before they are scaled, so that the next scale can be computed from it: 448 / amax.
//! (cuBLASLt: `CUBLASLT_MATMUL_DESC_AMAX_D_POINTER` and `CUBLASLT_MATMUL_DESC_D_SCALE_POINTER`; Transformer Engine: delayed
//! scaling; CUTLASS: `ScaledLinCombPerRowBiasEltActAmaxAux`.)
#![forbid(unsafe_code)]
// Without the feature the tables are empty.
#![cfg_attr(any(not(feature = "gemm-e4m3-e4m3"), feature = "trace"), allow(unused_imports))]

use super::epilogue::{Epilogue, Scaled};
use super::fusion::{Link, Then};
use half::bf16;
use isa::kernel::KernelArg;
use isa::math::max_nan;
use pipeline::cta::{ClusterShape, Role};
use pipeline::grid::{DependentSlice, DependentSliceMut};
use pipeline::mma::Fragment;
use pipeline::prelude::*;

#[allow(dead_code, reason = "a build without the kernels has no use for it")]
#[allow(non_camel_case_types)] // As PTX writes it, and the kernels' names.
type e4m3 = float8::F8E4M3;

/// Raises a value in device memory to the largest magnitude of the results. The results go on as they are.
///
/// The value is never lowered, so set it to 0 first; several products may share it. If any result is NaN, it becomes NaN,
/// as torch's `x.abs().max()` does. An empty slice is for no maximum.
///
/// Each warp makes one access to memory, behind its last tile. In a kernel that reads C or is gated, each thread makes one for
/// each fragment. Nobody waits for them.
///
/// (CUTLASS: `Sm90ScalarReduction` with `maximum_absolute_value_reduction`; cuBLASLt:
/// `CUBLASLT_MATMUL_DESC_AMAX_D_POINTER`.)
///
/// ```
/// use warpipe_gpu_kernels::gemm::{Linear, fusion::{Chain, Silu, Then}, quantised::{Amax, ScaleD}};
/// # use pipeline::grid::{DependentSlice, DependentSliceMut};
///
/// /// alpha · A·Bᵀ, then SiLU, whose maximum is kept, then a scale: for results of e4m3.
/// fn epilogue<'a>(amax: DependentSliceMut<'a, f32>, scale: DependentSlice<'a, f32>, [m, n]: [u32; 2]) {
///     let _ = Linear { alpha: 0.5, beta: 0.0 }
///         .activated::<Silu>()
///         .then(Amax::new(amax, [m, n]))
///         .then(ScaleD { factor: 1.0, scale });
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Amax<'a> {
    /// The maximum: one value, or none.
    pub amax: DependentSliceMut<'a, f32>,
    /// Rows of D. What a tile has behind them is left out: a bias may have made it large.
    pub rows: u32,
    /// Columns of D.
    pub columns: u32,
    /// The largest magnitude that this thread has seen; NaN is larger than all numbers.
    so_far: f32,
}

impl<'a> Amax<'a> {
    /// Raises `amax`, one value or none, to the largest magnitude of a D of `rows` and `columns`.
    #[must_use]
    pub const fn new(amax: DependentSliceMut<'a, f32>, [rows, columns]: [u32; 2]) -> Self {
        Self { amax, rows, columns, so_far: 0.0 }
    }

    /// The larger of `so_far` and the magnitudes of this thread's values in D.
    #[isa::forceinline]
    fn larger(&self, so_far: f32, x: &Fragment) -> f32 {
        // One comparison for each value: a row behind the last one has no columns.
        let columns = |row| if row < self.rows { self.columns } else { 0 };
        let inside = |x: f32, columns: u32, column: u32| if column < columns { x } else { 0.0 };
        let inside = x.map_by(columns, |column| column, inside);
        largest(so_far, &inside)
    }

    /// Whether D has all of the thread's values of `x`.
    #[isa::forceinline]
    fn has(&self, x: &Fragment) -> bool {
        let (row, column) = x.coord(x.values.len() - 1);
        row < self.rows && column < self.columns
    }
}

/// The larger of `so_far` and the values' magnitudes.
///
/// The values come in pairs, and the pairs in pairs: one after another each would wait for the one before it.
#[isa::forceinline]
fn largest(so_far: f32, x: &Fragment) -> f32 {
    let [a, b, c, d, e, f, g, h] = x.values.map(isa::math::abs);
    let four = max_nan(max_nan(a, b), max_nan(c, d));
    max_nan(so_far, max_nan(four, max_nan(max_nan(e, f), max_nan(g, h))))
}

impl Link for Amax<'_> {
    // So that the fragments of a store come together. It loads nothing.
    const LOADS: bool = true;

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        if !self.amax.is_empty() {
            self.amax.by(&x).atomic_max(0, self.larger(0.0, &x));
        }
        x
    }

    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        xs: &mut [Fragment],
    ) {
        if !self.amax.is_empty() {
            // The last fragment has the last row and the last column. Almost no tile hangs over.
            let whole = xs.last().is_some_and(|x| self.has(x));
            self.so_far = if whole {
                xs.iter().fold(self.so_far, largest)
            } else {
                xs.iter().fold(self.so_far, |max, x| self.larger(max, x))
            };
        }
    }

    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>) {
        if !self.amax.is_empty() {
            group.atomic_max(&self.amax, 0, self.so_far);
        }
    }
}

/// Multiplies each result by a scale in device memory, and by a factor.
///
/// (torch: `scale_result` of `torch._scaled_mm`; cuBLASLt: `CUBLASLT_MATMUL_DESC_D_SCALE_POINTER`; CUTLASS: the `scale_d` of
/// `ScaledLinComb…`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct ScaleD<'a> {
    /// A factor, 1 for none.
    pub factor: f32,
    /// The scale: one value, or none for 1.
    pub scale: DependentSlice<'a, f32>,
}

impl Link for ScaleD<'_> {
    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(mut self, group: &Warpgroup<R, Cl>) -> Self {
        self.factor *= self.scale.by(group).get_or(0, 1.0);
        self
    }

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        x.map(|x| x * self.factor)
    }
}

/// alpha · scales of A and B · A·Bᵀ, whose largest magnitude is kept, times the scale of D: what the chain of the three links
/// computes, with fewer instructions.
///
/// If the scales of A and B are those of whole tensors, the largest sum is the largest result, divided by alpha and the scales.
/// So the maximum is that of the sums, and one factor makes a result of a sum.
///
/// (CUTLASS: `ScaledLinComb…Amax…`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct ScaledAmax<'a> {
    scaled: Scaled<'a>,
    amax: Amax<'a>,
    scale: ScaleD<'a>,
    /// What makes D of a sum or, where rows or columns have scales, of a scaled sum.
    factor: f32,
}

impl<'a> ScaledAmax<'a> {
    /// `scaled`, and then `amax`, and then `scale`.
    #[must_use]
    pub const fn new(scaled: Scaled<'a>, amax: Amax<'a>, scale: ScaleD<'a>) -> Self {
        Self { scaled, amax, scale, factor: 1.0 }
    }
}

impl Epilogue for ScaledAmax<'_> {
    const LOADS: bool = true;

    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(mut self, group: &Warpgroup<R, Cl>) -> Self {
        self.factor = self.scale.prepared(group).factor;
        if self.scaled.by_tensor() {
            self.factor *= self.scaled.of_tensors(group);
        }
        self
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        let x = if self.scaled.by_tensor() {
            let alpha = self.scaled.of_tensors(&sum);
            self.amax.visit(sum.map(|x| x * alpha), None);
            sum
        } else {
            self.amax.visit(self.scaled.visit(sum, c), None)
        };
        x.map(|x| x * self.factor)
    }

    // The maximum is computed whether anybody asks for it or not: a branch around it costs more. With scales of tensors, the
    // sums behind the last row and column are 0, and have no part in it. Four fragments at a time take few registers.
    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        sums: &mut [Fragment],
    ) {
        let by_tensor = self.scaled.by_tensor();
        for four in sums.chunks_mut(4) {
            if by_tensor {
                self.amax.so_far = four.iter().fold(self.amax.so_far, largest);
            } else {
                for sum in &mut *four {
                    *sum = self.scaled.visit(*sum, None);
                    self.amax.so_far = self.amax.larger(self.amax.so_far, sum);
                }
            }
            for sum in four {
                *sum = sum.map(|x| x * self.factor);
            }
        }
    }

    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>) {
        let mut amax = self.amax;
        if self.scaled.by_tensor() {
            let alpha = self.scaled.of_tensors(group);
            // Infinity times the 0 of a CTA without tiles would be NaN.
            if amax.so_far != 0.0 || alpha.is_nan() {
                amax.so_far *= alpha;
            }
        }
        amax.end(group);
    }
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// The kernels with operands and results of e4m3. Sums are promoted.
    pub static E4M3_INSTANCES: ScaledAmax<'static>;
    // The store buffers are half as large as those of bf16. With three of them, three parts are stored at once.
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x256_2x1: e4m3 => e4m3, 128 x 256, cluster 2 x 1, SplitN, promoted 64, stages 4, stores 3;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x192_2x1: e4m3 => e4m3, 128 x 192, cluster 2 x 1, SplitN, promoted 96, stages 5;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x128_1x1: e4m3 => e4m3, 128 x 128, cluster 1 x 1, Cooperative, promoted 128;
    // They are half as large as those that `most_stages` counts, so that one more stage fits.
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_32x64t_1x1: e4m3 => e4m3, 64 x 32, cluster 1 x 1, Cooperative, promoted 32, stages 18, operands swapped;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_64x64t_1x1: e4m3 => e4m3, 64 x 64, cluster 1 x 1, Cooperative, promoted 64, operands swapped;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x112_2x1: e4m3 => e4m3, 128 x 112, cluster 2 x 1, Cooperative, promoted 112, stages 7;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_64x112_2x1: e4m3 => e4m3, 64 x 112, cluster 2 x 1, Cooperative, promoted 112;
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// As [`E4M3_INSTANCES`], with fast accumulation.
    pub static E4M3_FAST_INSTANCES: ScaledAmax<'static>;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x256_2x1_fast: e4m3 => e4m3, 128 x 256, cluster 2 x 1, SplitN;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_128x128_1x1_fast: e4m3 => e4m3, 128 x 128, cluster 1 x 1, Cooperative;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_64x64t_1x1_fast: e4m3 => e4m3, 64 x 64, cluster 1 x 1, Cooperative, operands swapped;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_e4m3_64x112_2x1_fast: e4m3 => e4m3, 64 x 112, cluster 2 x 1, Cooperative;
}

/// Adds `beta` · C behind the scales. With a beta of 0 C does not matter, NaN or not, as in BLAS.
///
/// (CUTLASS: the source of `LinearCombination`; cuBLASLt: `beta`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct AddC {
    /// Factor of C.
    pub beta: f32,
}

impl Link for AddC {
    #[isa::forceinline]
    fn visit(&self, x: Fragment, c: Option<Fragment>) -> Fragment {
        match c {
            Some(c) if self.beta != 0.0 => x.zip(c, |x, c| x + self.beta * c),
            _ => x,
        }
    }
}

/// alpha · scales of A and B · A·Bᵀ + beta · C.
pub type ScaledLinComb<'a> = Then<Scaled<'a>, AddC>;

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// The kernels with operands of e4m3, and a C and results of bf16. Sums are promoted.
    pub static SCALED_C_INSTANCES: ScaledLinComb<'static>;
    #[cfg(feature = "gemm-e4m3-e4m3")]
    gemm_e4m3_bf16_128x128_1x1_c: e4m3 => bf16, 128 x 128, cluster 1 x 1, Cooperative, promoted 128, with C;
}
