//! The plan and the run of a product of operands of 8 bits, with their scales.

use super::args::OperandTypes;
use super::error::Error;
use super::operands::Operands;
use super::scaled::{ScaleOf, ScalesOf, by_blocks_of_k};
use host::data::encode;
use host::gemm::{
    BlockScales, Gemm, GemmPlan, Int8Gemm, OperandScales, PlanInfo, QuantisedGemm, ResultScale,
    ScaledCGemm, ScaledGemm,
};
use host::{Buffer, Device};
use isa::kernel::Dtype;
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

enum Plan {
    /// The epilogue applies the scales of tensors or of rows.
    Epilogue(GemmPlan<Scaled<'static>>),
    /// And adds C.
    Source(GemmPlan<ScaledLinComb<'static>>),
    /// And quantises the result.
    Quantised(GemmPlan<ScaledAmax<'static>>),
    /// The main loop applies the scales of blocks.
    Mainloop(GemmPlan),
    /// Whole numbers have no scales.
    Integer(GemmPlan<IntLinear>, i32),
}

impl Planned {
    pub fn new(
        device: &Device,
        operands: &Operands,
        scales: &ScalesOf,
        ways: Ways,
    ) -> Result<Self, Error> {
        let (problem, image) = (&operands.problem, &warpipe::GEMM_IMAGE);
        let types = OperandTypes { a: operands.a.dtype, b: operands.b.dtype };
        let fast = ways.fast_accum;
        let plan = match (types.a, problem.out) {
            (Dtype::I8, Dtype::I32) => {
                let alpha = whole(ways.alpha)?;
                Plan::Integer(Int8Gemm::int8(device, image)?.plan(problem)?, alpha)
            }
            (Dtype::I8, _) => {
                Plan::Epilogue(ScaledGemm::int8_scaled(device, image)?.plan(problem)?)
            }
            _ if scales.of == ScaleOf::Block => {
                Plan::Mainloop(Gemm::block_scaled(device, image)?.plan(problem)?)
            }
            _ if !types.are_e4m3() => {
                let gemm = ScaledGemm::scaled_mix(device, image, [types.a, types.b], fast)?;
                Plan::Epilogue(gemm.plan(problem)?)
            }
            (_, Dtype::E4m3) => {
                Plan::Quantised(QuantisedGemm::quantised(device, image, fast)?.plan(problem)?)
            }
            _ if problem.beta_c => {
                Plan::Source(ScaledCGemm::scaled_c(device, image)?.plan(problem)?)
            }
            _ => Plan::Epilogue(ScaledGemm::scaled(device, image, fast)?.plan(problem)?),
        };
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
