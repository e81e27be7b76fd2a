//! The kernels, the plan and the run of a product of operands of 8 bits, with their scales.

use super::args::OperandTypes;
use super::error::Error;
use super::instance::{Kernels, planned};
use super::operands::Operands;
use super::scaled::{ScaleOf, ScalesOf, by_blocks_of_k};
use host::data::encode;
use host::gemm::{
    BlockScales, Gemm, GemmPlan, GemmProblem, Int8Gemm, OperandScales, PlanInfo, QuantisedGemm,
    ResultScale, ScaledCGemm, ScaledGemm, Schedule,
};
use host::{Buffer, Device};
use isa::kernel::Dtype;
use std::sync::Arc;
use warpipe::gpu_kernels::gemm::Scaled;
use warpipe::gpu_kernels::gemm::integer::IntLinear;
use warpipe::gpu_kernels::gemm::quantised::{ScaledAmax, ScaledLinComb};

/// Factors and ways of a product, as the options say.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    pub alpha: f32,
    pub beta: f32,
    pub fast_accum: bool,
    /// The scale of a result of e4m3.
    pub d_scale: Option<f32>,
    /// Whether the maximum of a result of e4m3 is kept.
    pub amax: bool,
}

/// A plan of a product with its scales on the device.
pub struct Planned {
    plan: Plan,
    scales: [Buffer; 2],
    c: Option<Buffer>,
    d_scale: Option<Buffer>,
    amax: Option<Buffer>,
    ways: Ways,
}

/// A plan with the kernels of a [`Table`].
enum Plan {
    Epilogue(GemmPlan<Scaled<'static>>),
    Source(GemmPlan<ScaledLinComb<'static>>),
    Quantised(GemmPlan<ScaledAmax<'static>>),
    Mainloop(GemmPlan),
    /// With its whole factor.
    Integer(GemmPlan<IntLinear>, i32),
}

/// The kernels for operands of 8 bits.
pub enum Table {
    /// The epilogue applies the scales of tensors or of rows.
    Epilogue(ScaledGemm),
    /// And adds C.
    Source(ScaledCGemm),
    /// And quantises the result.
    Quantised(QuantisedGemm),
    /// The main loop applies the scales of blocks.
    Mainloop(Gemm),
    /// Whole numbers have no scales.
    Integer(Int8Gemm),
}

impl Table {
    /// The kernels for operands of these types, for the type and the C of `problem`, and for what has a scale.
    pub fn new(
        device: &Device,
        problem: &GemmProblem,
        types: OperandTypes,
        of: ScaleOf,
        fast: bool,
    ) -> Result<Self, host::Error> {
        let image = &warpipe::GEMM_IMAGE;
        Ok(match (types.a, problem.out) {
            (Dtype::I8, Dtype::I32) => Self::Integer(Int8Gemm::int8(device, image)?),
            (Dtype::I8, _) => Self::Epilogue(ScaledGemm::int8_scaled(device, image)?),
            _ if of == ScaleOf::Block => Self::Mainloop(Gemm::block_scaled(device, image)?),
            _ if !types.are_e4m3() => {
                let types = [types.a, types.b];
                Self::Epilogue(ScaledGemm::scaled_mix(device, image, types, fast)?)
            }
            (_, Dtype::E4m3) => Self::Quantised(QuantisedGemm::quantised(device, image, fast)?),
            _ if problem.beta_c => Self::Source(ScaledCGemm::scaled_c(device, image)?),
            _ => Self::Epilogue(ScaledGemm::scaled(device, image, fast)?),
        })
    }

    /// The kernels without their epilogue.
    pub fn kernels(self) -> Arc<dyn Kernels> {
        match self {
            Self::Epilogue(gemm) => Arc::new(gemm),
            Self::Source(gemm) => Arc::new(gemm),
            Self::Quantised(gemm) => Arc::new(gemm),
            Self::Mainloop(gemm) => Arc::new(gemm),
            Self::Integer(gemm) => Arc::new(gemm),
        }
    }

    /// A plan with a row of the table in a schedule, or with the picker's.
    fn plan(
        &self,
        problem: &GemmProblem,
        alpha: f32,
        asked: Option<(usize, Schedule)>,
    ) -> Result<Plan, Error> {
        Ok(match self {
            Self::Epilogue(gemm) => Plan::Epilogue(planned(gemm, problem, asked)?),
            Self::Source(gemm) => Plan::Source(planned(gemm, problem, asked)?),
            Self::Quantised(gemm) => Plan::Quantised(planned(gemm, problem, asked)?),
            Self::Mainloop(gemm) => Plan::Mainloop(planned(gemm, problem, asked)?),
            Self::Integer(gemm) => {
                let alpha = whole(alpha)?;
                Plan::Integer(planned(gemm, problem, asked)?, alpha)
            }
        })
    }
}

impl Planned {
    /// Plans the product with a row of its table in a schedule, or with the picker's.
    pub fn new(
        device: &Device,
        operands: &Operands,
        scales: &ScalesOf,
        ways: Ways,
        asked: Option<(usize, Schedule)>,
    ) -> Result<Self, Error> {
        let problem = &operands.problem;
        let types = OperandTypes { a: operands.a.dtype, b: operands.b.dtype };
        let table = Table::new(device, problem, types, scales.of, ways.fast_accum)?;
        let plan = table.plan(problem, ways.alpha, asked)?;
        let upload = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
        let a = &scales.a.values;
        let a = match plan {
            Plan::Mainloop(_) => &by_blocks_of_k(a, problem.m as usize),
            _ => a,
        };
        Ok(Self {
            plan,
            scales: [upload(a)?, upload(&scales.b.values)?],
            c: operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?,
            d_scale: ways.d_scale.map(|scale| upload(&[scale])).transpose()?,
            amax: ways.amax.then(|| upload(&[0.0])).transpose()?,
            ways,
        })
    }

    /// Description of the plan.
    pub fn describe(&self) -> &PlanInfo {
        match &self.plan {
            Plan::Epilogue(plan) => plan.describe(),
            Plan::Source(plan) => plan.describe(),
            Plan::Quantised(plan) => plan.describe(),
            Plan::Mainloop(plan) => plan.describe(),
            Plan::Integer(plan, _) => plan.describe(),
        }
    }

    /// Queues the product on the device's stream.
    pub fn run(&mut self, a: &Buffer, b: &Buffer, d: &mut Buffer) -> Result<(), host::Error> {
        let [scale_a, scale_b] = &self.scales;
        let (scales, alpha) = (OperandScales { a: scale_a, b: scale_b }, self.ways.alpha);
        match &self.plan {
            Plan::Epilogue(plan) => plan.run_scaled(a, b, d, scales, alpha),
            Plan::Source(plan) => {
                let none = || host::Error::OperandC { planned: "with", run: "without" };
                let c = self.c.as_ref().ok_or_else(none)?;
                plan.run_scaled_c(a, b, c, d, scales, [alpha, self.ways.beta])
            }
            Plan::Quantised(plan) => {
                let result = ResultScale { scale: self.d_scale.as_ref(), amax: self.amax.as_mut() };
                plan.run_quantised(a, b, d, scales, result, alpha)
            }
            Plan::Mainloop(plan) => {
                let scales = BlockScales::packed(plan.problem(), scale_a, scale_b);
                plan.run_block_scaled(a, b, d, scales, alpha)
            }
            Plan::Integer(plan, alpha) => plan.run_int8(a, b, d, *alpha),
        }
    }

    /// The maximum of the result, if it is kept. Waits for the product.
    pub fn amax(&self) -> Result<Option<f32>, host::Error> {
        let Some(buffer) = &self.amax else { return Ok(None) };
        let mut bytes = [0; 4];
        buffer.read(&mut bytes)?;
        Ok(Some(f32::from_ne_bytes(bytes)))
    }
}

/// The factor of a product of whole numbers.
fn whole(alpha: f32) -> Result<i32, Error> {
    // Each i32 of so many digits is an f32.
    if alpha.fract() == 0.0 && alpha.abs() <= (1 << 24) as f32 {
        return Ok(alpha as i32);
    }
    let usage = format!("--alpha {alpha}: int32 results have a whole factor up to 16777216");
    Err(Error::Usage(usage))
}
