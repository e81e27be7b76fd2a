//! The options that name the family of a product, as `gemm`, `check` and `plan` have them, and its kernels.

use super::args::{OperandTypes, gemm_result_dtype};
use super::error::Error;
use super::instance::Kernels;
use super::layer::Epilogue;
use super::operands::default_result;
use super::scaled::{ScaleOf, refuse_without_scales};
use super::scaled_plan;
use super::strided;
use host::Device;
use host::gemm::{Gemm, GemmProblem, StridedProblem};
use isa::kernel::Dtype;
use std::path::PathBuf;
use std::sync::Arc;

/// Types, scales, epilogue and groups of a product.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Product")]
pub struct FamilyArgs {
    /// Element type of A and B: bf16, f16, tf32 (f32 in memory), int8, e4m3, e5m2, or a mix of A and B: e5m2xe4m3,
    /// e4m3xe5m2 [default: bf16]
    #[arg(long)]
    pub dtype: Option<OperandTypes>,
    /// Element type of the result: bf16, f16, f32, e4m3 or int32 [default: that of A and B, bf16 for e4m3 and e5m2, int32 for
    /// int8, f32 for tf32]
    #[arg(long, value_parser = gemm_result_dtype, value_name = "DTYPE")]
    pub out_dtype: Option<Dtype>,
    /// What becomes of the product: bias, an activation (relu, silu, gelu, gelu-tanh, swiglu, geglu, geglu-tanh) and
    /// residual, in this order, for example bias+gelu+residual. A residual is C, added behind the activation. With
    /// swiglu and geglu the result has N / 2 columns: rows of B come in blocks of 8, gates and then what belongs to them
    #[arg(long, value_name = "LINKS")]
    pub epilogue: Option<Epilogue>,
    /// What has a scale of its own, for operands of 8 bits [default: tensor, or in files what the number of scales says, but
    /// never block]
    #[arg(long, value_name = "WHAT")]
    pub scales: Option<ScaleOf>,
    /// Keep the sums of 8-bit floats in the tensor cores, which keep them short. Otherwise each 128 of K are added up in f32
    #[arg(long)]
    pub fast_accum: bool,
    /// Rows of groups of a generated A, one number on each line: each group has its own B, and D = A * B^T of its group, as
    /// for the experts of a mixture (torch._grouped_mm). A line may be 0
    #[arg(long, value_name = "FILE", conflicts_with_all = ["m", "epilogue", "scales", "fast_accum", "out_dtype", "dtype", "layout", "batch", "column_major"])]
    pub groups: Option<PathBuf>,
    /// Give each group room for this many rows of A and D, of which it has those that --groups says
    #[arg(long, value_name = "MAXROWS", requires = "groups")]
    pub masked: Option<u64>,
}

impl FamilyArgs {
    /// Whether an option is given that the plain kernels of bf16 and f16 do not have.
    pub fn any(&self) -> bool {
        let plain = |dtype| matches!(dtype, Dtype::Bf16 | Dtype::F16 | Dtype::F32);
        let types = self.dtype.is_some_and(|types| !plain(types.a));
        let out = self.out_dtype.is_some_and(|out| !plain(out));
        let way = self.scales.is_some() || self.fast_accum || self.epilogue.is_some();
        types || out || way || self.groups.is_some()
    }

    /// The types of A and B.
    pub fn types(&self) -> OperandTypes {
        self.dtype.unwrap_or(OperandTypes::of(Dtype::Bf16))
    }

    /// Whether the epilogue adds C behind the activation.
    pub fn residual(&self) -> bool {
        self.epilogue.as_ref().is_some_and(|epilogue| epilogue.residual)
    }

    /// A product of this size, with C if `c` or if the epilogue reads it. Options that its types do not have are refused.
    pub fn problem(&self, [m, n, k]: [u64; 3], c: bool) -> Result<GemmProblem, Error> {
        let types = self.types();
        let out = self.out_dtype.unwrap_or(default_result(types.a));
        let beta_c = c || self.residual();
        let problem = GemmProblem { m, n, k, ab: types.a, out, beta_c };
        self.check(&problem, types)?;
        Ok(problem)
    }

    /// Refuses options that are not for operands and results of these types.
    pub fn check(&self, problem: &GemmProblem, types: OperandTypes) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        if let Some(epilogue) = &self.epilogue {
            if types.have_scales() && (!types.are_e4m3() || self.scales == Some(ScaleOf::Block)) {
                return usage(
                    "of operands of 8 bits, only e4m3 with scales of tensors or rows has an --epilogue: omit it",
                );
            }
            if types.a == Dtype::Tf32 {
                return usage("products of tf32 have no --epilogue: omit it");
            }
            epilogue.check(problem)?;
        }
        if !types.have_scales() {
            let options = [("--scales", self.scales.is_some()), ("--fast-accum", self.fast_accum)];
            return refuse_without_scales(problem.ab, &options);
        }
        let block = self.scales == Some(ScaleOf::Block);
        if block && !types.are_e4m3() {
            return usage("block scales are for operands of e4m3: give --scales tensor or row");
        }
        if block && self.fast_accum {
            return usage("block scales are applied to each 128 of K: omit --fast-accum");
        }
        if block && problem.out == Dtype::E4m3 {
            return usage("results of e4m3 are for --scales tensor or row");
        }
        if types.a == Dtype::I8 && self.fast_accum {
            return usage("sums of int8 are exact: omit --fast-accum");
        }
        if problem.out == Dtype::I32 && self.scales.is_some() {
            return usage("int32 results have no scales: omit them, or give --out-dtype bf16");
        }
        let reads_c = types.are_e4m3() && problem.out == Dtype::Bf16 && !block && !self.fast_accum;
        if problem.beta_c && !reads_c {
            return usage(
                "of operands of 8 bits, only e4m3 with bf16 results, promoted sums and scales of tensors or rows reads C: omit --c and --beta",
            );
        }
        Ok(())
    }

    /// The kernels for products of the types of `problem`.
    pub fn kernels(
        &self,
        device: &Device,
        problem: &GemmProblem,
    ) -> Result<Arc<dyn Kernels>, Error> {
        let types = self.types();
        if let Some(epilogue) = &self.epilogue {
            return Ok(epilogue.kernels(device, problem.ab, self.fast_accum)?);
        }
        if types.have_scales() {
            let of = self.scales.unwrap_or(ScaleOf::Tensor);
            let table = scaled_plan::Table::new(device, problem, types, of, self.fast_accum)?;
            return Ok(table.kernels());
        }
        Ok(Arc::new(Gemm::new(device, &warpipe::GEMM_IMAGE)?))
    }

    /// A usage error for options that products with layouts do not have, whatever their types are.
    pub fn refuse_with_layouts(&self) -> Result<(), Error> {
        refuse_with_layouts(&[
            ("--epilogue", self.epilogue.is_some()),
            ("--scales", self.scales.is_some()),
            ("--fast-accum", self.fast_accum),
        ])
    }

    /// The product of this size with these layouts, and whether B is shared.
    pub fn strided_problem(
        &self,
        layouts: &strided::Options,
        size: [u64; 3],
    ) -> Result<(StridedProblem, bool), Error> {
        self.refuse_with_layouts()?;
        let types = self.types();
        refuse_with_layouts(&[
            ("--out-dtype", self.out_dtype.is_some_and(|out| out != types.a)),
            ("mix of types", types.a != types.b),
        ])?;
        let (problem, broadcast_b) = layouts.problem(size, types.a);
        problem.check()?;
        Ok((problem, broadcast_b))
    }
}

/// A usage error for options that products with layouts and batches do not have.
pub fn refuse_with_layouts(options: &[(&str, bool)]) -> Result<(), Error> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Usage(format!(
            "products with --layout, --batch or --column-major have no {option}: omit it"
        ))),
    }
}
