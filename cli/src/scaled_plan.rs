//! The kernels, the plan and the run of a product of operands of 8 bits, with their scales.

use super::args::OperandTypes;
use super::error::Error;
use super::instance::{Kernels, Which, planned};
use super::operands::Operands;
use super::scaled::{ScaleOf, ScalesOf, by_blocks_of_k};
use host::data::encode;
use host::gemm::{
    BlockScales, BoundGemm, Gemm, GemmPlan, GemmProblem, Int8Gemm, OperandScales, PlanInfo,
    QuantisedGemm, ResultScale, ScaledCGemm, ScaledGemm,
};
use host::{Buffer, Device, Stream, View};
use isa::kernel::Dtype;
use std::sync::Arc;
use warpipe::gpu_kernels::gemm::integer::IntLinear;
use warpipe::gpu_kernels::gemm::quantised::{ScaledAmax, ScaledLinComb};
use warpipe::gpu_kernels::gemm::{Epilogue, Linear, Scaled};

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

/// A plan of a product with its arguments.
pub struct Planned {
    plan: Box<dyn Plan>,
    arguments: Arguments,
    c: Option<Buffer>,
    device: Device,
}

/// What a product has besides its matrices, on the device.
struct Arguments {
    problem: GemmProblem,
    scales: [Buffer; 2],
    d_scale: Option<Buffer>,
    amax: Option<Buffer>,
    ways: Ways,
}

impl Arguments {
    fn new(
        device: &Device,
        problem: GemmProblem,
        [a, b]: [&[f32]; 2],
        ways: Ways,
    ) -> Result<Self, host::Error> {
        let upload = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
        Ok(Self {
            problem,
            scales: [upload(a)?, upload(b)?],
            d_scale: ways.d_scale.map(|scale| upload(&[scale])).transpose()?,
            amax: ways.amax.then(|| upload(&[0.0])).transpose()?,
            ways,
        })
    }

    /// Those of a search: as many, but all factors are 1. The operands of a search are small numbers, whose products would
    /// have few digits in e4m3 with the scales of large ones.
    fn of_search(&self, device: &Device) -> Result<Self, host::Error> {
        let ones = self.scales.each_ref().map(|scales| vec![1.0; scales.len() / 4]);
        let d_scale = self.ways.d_scale.map(|_| 1.0);
        let ways = Ways { alpha: 1.0, beta: 1.0, d_scale, ..self.ways };
        Self::new(device, self.problem, ones.each_ref().map(Vec::as_slice), ways)
    }

    fn operands(&self) -> OperandScales<'_> {
        let [a, b] = &self.scales;
        OperandScales { a, b }
    }
}

/// An epilogue of products of operands of 8 bits.
trait Queue: Epilogue + Sized {
    /// Queues a bound product with its arguments.
    fn queue(
        bound: &BoundGemm<'_, Self>,
        arguments: &Arguments,
        stream: &Stream,
    ) -> Result<(), host::Error>;
}

impl Queue for Scaled<'static> {
    fn queue(bound: &BoundGemm<'_, Self>, with: &Arguments, s: &Stream) -> Result<(), host::Error> {
        bound.run_scaled(with.operands(), with.ways.alpha, s)
    }
}

impl Queue for ScaledLinComb<'static> {
    fn queue(bound: &BoundGemm<'_, Self>, with: &Arguments, s: &Stream) -> Result<(), host::Error> {
        bound.run_scaled_c(with.operands(), [with.ways.alpha, with.ways.beta], s)
    }
}

impl Queue for ScaledAmax<'static> {
    fn queue(bound: &BoundGemm<'_, Self>, with: &Arguments, s: &Stream) -> Result<(), host::Error> {
        let mut amax = with.amax.as_ref().map(|amax| amax.part(0, amax.len())).transpose()?;
        let result = ResultScale { scale: with.d_scale.as_ref(), amax: amax.as_mut() };
        bound.run_quantised(with.operands(), result, with.ways.alpha, s)
    }
}

/// The main loop applies the scales of blocks.
impl Queue for Linear {
    fn queue(bound: &BoundGemm<'_, Self>, with: &Arguments, s: &Stream) -> Result<(), host::Error> {
        let [a, b] = &with.scales;
        let epilogue = Self { alpha: with.ways.alpha, beta: 0.0 };
        bound.run_block_scaled(BlockScales::packed(&with.problem, a, b), epilogue, s)
    }
}

impl Queue for IntLinear {
    fn queue(bound: &BoundGemm<'_, Self>, with: &Arguments, s: &Stream) -> Result<(), host::Error> {
        // A whole number: `Planned::new` has checked it.
        bound.run_with(Self { alpha: with.ways.alpha as i32 }, s)
    }
}

/// A plan with the kernels of a [`Table`].
trait Plan {
    fn describe(&self) -> &PlanInfo;
    fn run(
        &self,
        operands: [&Buffer; 2],
        c: Option<&Buffer>,
        d: &mut Buffer,
        arguments: &Arguments,
        stream: &Stream,
    ) -> Result<(), host::Error>;
}

impl<E: Queue> Plan for GemmPlan<E> {
    fn describe(&self) -> &PlanInfo {
        self.describe()
    }

    fn run(
        &self,
        [a, b]: [&Buffer; 2],
        c: Option<&Buffer>,
        d: &mut Buffer,
        arguments: &Arguments,
        stream: &Stream,
    ) -> Result<(), host::Error> {
        E::queue(&self.bind(a, b, c.map(View::from), d)?, arguments, stream)
    }
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

    /// A plan. A search has these arguments.
    fn plan(
        &self,
        problem: &GemmProblem,
        which: Which<'_>,
        arguments: &Arguments,
    ) -> Result<Box<dyn Plan>, Error> {
        fn plan<E: Queue + 'static>(
            gemm: &Gemm<E>,
            problem: &GemmProblem,
            which: Which<'_>,
            arguments: &Arguments,
        ) -> Result<Box<dyn Plan>, Error> {
            let queue = |bound: &BoundGemm<'_, E>, s: &Stream| E::queue(bound, arguments, s);
            Ok(Box::new(planned(gemm, problem, which, queue)?))
        }
        match self {
            Self::Epilogue(gemm) => plan(gemm, problem, which, arguments),
            Self::Source(gemm) => plan(gemm, problem, which, arguments),
            Self::Quantised(gemm) => plan(gemm, problem, which, arguments),
            Self::Mainloop(gemm) => plan(gemm, problem, which, arguments),
            Self::Integer(gemm) => plan(gemm, problem, which, arguments),
        }
    }
}

impl Planned {
    /// Plans the product.
    pub fn new(
        device: &Device,
        operands: &Operands,
        scales: &ScalesOf,
        ways: Ways,
        which: Which<'_>,
    ) -> Result<Self, Error> {
        let problem = &operands.problem;
        let types = OperandTypes { a: operands.a.dtype, b: operands.b.dtype };
        let table = Table::new(device, problem, types, scales.of, ways.fast_accum)?;
        if matches!(table, Table::Integer(_)) {
            check_whole(ways.alpha)?;
        }
        let a = &scales.a.values;
        let a = match table {
            Table::Mainloop(_) => &by_blocks_of_k(a, problem.m as usize),
            _ => a,
        };
        let arguments = Arguments::new(device, *problem, [a, &scales.b.values], ways)?;
        let plan = match which {
            Which::Tuned(_) => table.plan(problem, which, &arguments.of_search(device)?)?,
            _ => table.plan(problem, which, &arguments)?,
        };
        let c = operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?;
        Ok(Self { plan, arguments, c, device: device.clone() })
    }

    /// Description of the plan.
    pub fn describe(&self) -> &PlanInfo {
        self.plan.describe()
    }

    /// Queues the product on the device's stream.
    pub fn run(&self, a: &Buffer, b: &Buffer, d: &mut Buffer) -> Result<(), host::Error> {
        self.plan.run([a, b], self.c.as_ref(), d, &self.arguments, &self.device.stream())
    }

    /// The maximum of the result, if it is kept. Waits for the product.
    pub fn amax(&self) -> Result<Option<f32>, host::Error> {
        let Some(buffer) = &self.arguments.amax else { return Ok(None) };
        let mut bytes = [0; 4];
        buffer.read(&mut bytes)?;
        Ok(Some(f32::from_ne_bytes(bytes)))
    }
}

/// Checks the factor of a product of whole numbers.
fn check_whole(alpha: f32) -> Result<(), Error> {
    // Each i32 of so many digits is an f32.
    if alpha.fract() == 0.0 && alpha.abs() <= (1 << 24) as f32 {
        return Ok(());
    }
    let usage = format!("--alpha {alpha}: int32 results have a whole factor up to 16777216");
    Err(Error::Usage(usage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Judged;
    use crate::operands::Generate;
    use crate::scaled::{Scales, bound, generate};
    use host::SimConfig;

    /// The product of a search has no factors and keeps the maximum of its own.
    #[test]
    fn factors_of_a_search_are_ones() {
        let device = Device::sim(SimConfig::default());
        let e4m3 = OperandTypes::of(Dtype::E4m3);
        let int8 = OperandTypes::of(Dtype::I8);
        for (types, out, of, beta_c) in [
            (e4m3, Dtype::Bf16, ScaleOf::Row, false),
            (e4m3, Dtype::Bf16, ScaleOf::Block, false),
            (e4m3, Dtype::Bf16, ScaleOf::Tensor, true),
            (e4m3, Dtype::E4m3, ScaleOf::Tensor, false),
            (int8, Dtype::I32, ScaleOf::Tensor, false),
        ] {
            let problem = GemmProblem { m: 9, n: 16, k: 144, ab: types.a, out, beta_c };
            let (operands, scales) = generate(Generate { problem, seed: 1 }, types, of).unwrap();
            let (amax, d_scale) = (out == Dtype::E4m3, (out == Dtype::E4m3).then_some(64.0));
            let ways = Ways { alpha: 3.0, beta: 0.0, fast_accum: false, d_scale, amax };
            let picked = Which::Picked;
            let planned = Planned::new(&device, &operands, &scales, ways, picked).unwrap();
            let of_search = planned.arguments.of_search(&device).unwrap();
            let upload = |bytes: &[u8]| device.upload(bytes).unwrap();
            let (a, b) = (upload(&operands.a.data), upload(&operands.b.data));
            let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
            let (c, stream) = (planned.c.as_ref(), device.stream());
            planned.plan.run([&a, &b], c, &mut d, &of_search, &stream).unwrap();
            let (d, one) = (d.to_vec().unwrap(), Scales::one(1.0));
            let factors = [1.0, if beta_c { 1.0 } else { 0.0 }];
            let bound = bound(out, false);
            let judged = Judged::with_scales(&operands, [&one, &one], factors, &d, bound).unwrap();
            assert!(judged.passed, "{types:?} {out:?} {of:?}: {judged:?}");
            assert_eq!(planned.amax().unwrap(), amax.then_some(0.0));
        }
    }
}
