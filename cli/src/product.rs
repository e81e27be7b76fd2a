//! A product with its operands, and what its family adds to them: scales, or an epilogue.

use super::check::Judged;
use super::error::Error;
use super::gemm::timed;
use super::instance::{Which, planned};
use super::layer::Layer;
use super::operands::Operands;
use super::scaled::{self, ScalesOf};
use super::scaled_plan::{Planned, Ways};
use host::gemm::{Gemm, PlanInfo};
use host::{Device, View};

/// A product with its operands.
pub struct Product {
    pub operands: Operands,
    pub with: With,
    /// Factors of the product and of C.
    pub factors: [f32; 2],
}

/// What a family adds to the operands.
pub enum With {
    Nothing,
    Scales(ScalesOf, Ways),
    Epilogue(Layer),
}

/// A run of a product.
pub struct Run {
    pub plan: PlanInfo,
    pub d: Vec<u8>,
    pub seconds: f64,
    /// The maximum of a result of e4m3, if it is kept.
    pub amax: Option<f32>,
}

impl Product {
    /// Columns of the result.
    pub fn columns(&self) -> u64 {
        let problem = &self.operands.problem;
        match &self.with {
            With::Epilogue(layer) => layer.columns(problem),
            _ => problem.n,
        }
    }

    /// Plans the product and runs it.
    pub fn run(&self, device: &Device, which: Which<'_>) -> Result<Run, Error> {
        let Self { operands, factors: [alpha, beta], .. } = self;
        let columns = self.columns();
        match &self.with {
            With::Nothing => {
                let gemm = Gemm::new(device, &warpipe::GEMM_IMAGE)?;
                // A search reads C even if its factor is 0: the plan has a kernel of its own for that.
                let of_search = f32::from(operands.problem.beta_c);
                let plan = planned(&gemm, &operands.problem, which, |bound, stream| {
                    bound.run(1.0, of_search, stream)
                })?;
                let c = operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?;
                let (d, seconds) = timed(device, operands, columns, |a, b, d| {
                    plan.run(a, b, c.as_ref().map(View::from), d, *alpha, *beta)
                })?;
                Ok(Run { plan: plan.describe().clone(), d, seconds, amax: None })
            }
            With::Scales(scales, ways) => {
                let planned = Planned::new(device, operands, scales, *ways, which)?;
                let (d, seconds) =
                    timed(device, operands, columns, |a, b, d| planned.run(a, b, d))?;
                let (plan, amax) = (planned.describe().clone(), planned.amax()?);
                Ok(Run { plan, d, seconds, amax })
            }
            With::Epilogue(layer) => {
                let (plan, d, seconds) = layer.run(device, operands, which)?;
                Ok(Run { plan, d, seconds, amax: None })
            }
        }
    }

    /// Compares `d` with the product in f64.
    pub fn judge(&self, d: &[u8]) -> Result<Judged, host::Error> {
        let Self { operands, factors: [alpha, beta], .. } = self;
        match &self.with {
            With::Nothing => Judged::new(operands, *alpha, *beta, d),
            With::Scales(ScalesOf { a, b, .. }, ways) => {
                let bound = scaled::bound(operands.problem.out, ways.fast_accum);
                let alpha = alpha * ways.d_scale.unwrap_or(1.0);
                Judged::with_scales(operands, [a, b], [alpha, *beta], d, bound)
            }
            With::Epilogue(layer) => layer.judge(operands, d),
        }
    }
}
