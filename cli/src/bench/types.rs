//! The types of the operands and results that a benchmark has, and the scales and sums of operands of e4m3.

use super::Args;
use crate::args::{operand_dtype, result_dtype};
use crate::check::{bound, bound_of};
use crate::error::Error;
use crate::scaled;
use host::dtype_name;
use host::gemm::GemmProblem;
use isa::kernel::Dtype;
use warpipe_bench::ScaleOf;
use warpipe_bench::line::{Line, Shape, title};

/// The suite that stands for the shapes of llm and decode with operands of e4m3.
pub const FP8: &str = "fp8";

/// Types of a benchmark's products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Types {
    pub ab: Dtype,
    pub out: Dtype,
    /// What has a scale, for operands of e4m3.
    pub scales: Option<ScaleOf>,
    /// Whether the tensor cores keep the sums of products of e4m3.
    pub fast_accum: bool,
}

impl Args {
    /// The types that the options name.
    pub fn types(&self) -> Result<Types, Error> {
        let usage = |text: String| Err(Error::Usage(text));
        let fp8 = self.suite.iter().any(|suite| suite == FP8);
        let ab = self.dtype.unwrap_or(if fp8 { Dtype::E4m3 } else { Dtype::Bf16 });
        let name = dtype_name(ab);
        if ab != Dtype::E4m3 {
            if fp8 {
                return usage(format!("the suite fp8 has operands of e4m3: omit --dtype {name}"));
            }
            let options = [("--scales", self.scales.is_some()), ("--fast-accum", self.fast_accum)];
            if let Some((option, _)) = options.iter().find(|(_, given)| *given) {
                let text = "is for operands of e4m3; these are";
                return usage(format!("{option} {text} {name}: add --dtype e4m3"));
            }
            let out = self.out_dtype.unwrap_or(ab);
            return Ok(Types { ab, out, scales: None, fast_accum: false });
        }
        let scales = match self.scales.unwrap_or(scaled::ScaleOf::Tensor) {
            scaled::ScaleOf::Tensor => ScaleOf::Tensor,
            scaled::ScaleOf::Row => ScaleOf::Row,
            scaled::ScaleOf::Block => ScaleOf::Block,
        };
        if self.fast_accum && scales == ScaleOf::Block {
            let text = "block scales are applied to each 128 of K: omit --fast-accum";
            return usage(text.to_owned());
        }
        let out = self.out_dtype.unwrap_or(Dtype::Bf16);
        Ok(Types { ab, out, scales: Some(scales), fast_accum: self.fast_accum })
    }
}

impl Types {
    /// A product of this shape.
    pub fn problem(&self, Shape { m, n, k }: Shape) -> GemmProblem {
        GemmProblem { m, n, k, ab: self.ab, out: self.out, beta_c: false }
    }

    /// The bound of the relative error of a product.
    pub fn bound(&self, problem: &GemmProblem) -> f64 {
        match self.scales {
            None => bound_of(problem),
            Some(_) => scaled::bound(problem.out, self.fast_accum),
        }
    }

    /// The heading of a suite's lines.
    pub fn title(&self, suite: &str) -> String {
        title(suite, dtype_name(self.ab), self.scales, self.fast_accum)
    }
}

/// The type of a line's result, and the bound of its relative error.
pub fn bound_of_line(line: &Line) -> (Dtype, f64) {
    let out = result_dtype(&line.out).unwrap_or(Dtype::Bf16);
    let bound = match line.scales {
        None => bound(out, line.shape.k),
        Some(_) => scaled::bound(out, line.fast_accum),
    };
    (out, bound)
}

/// An element type of a benchmark's operands.
pub fn dtype(text: &str) -> Result<Dtype, String> {
    match text {
        "e4m3" => Ok(Dtype::E4m3),
        _ => operand_dtype(text).map_err(|_| "expected bf16, f16 or e4m3".to_owned()),
    }
}
