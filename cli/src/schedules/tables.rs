//! The tables of GEMM kernels by family, and generated products for their rows.

use crate::args::OperandTypes;
use crate::check::Judged;
use crate::error::Error;
use crate::family::FamilyArgs;
use crate::grouped::{Groups, Operands as GroupedOperands};
use crate::instance::{Kernels, Which};
use crate::layer::{Epilogue, GATED_ROWS, Layer, Quantised};
use crate::operands::{Generate, Operands};
use crate::product::{Product as Matrices, With};
use crate::scaled::{self, ScaleOf};
use crate::scaled_plan::Ways;
use crate::strided::{self, Operands as StridedOperands, check_memory};
use host::gemm::{
    Gemm, GemmProblem, GroupedGemm, HardwareInfo, Layout, Major, Order, Schedule, StridedGemm,
    StridedProblem, pick,
};
use host::{Device, SimConfig};
use isa::kernel::Dtype;
use std::path::PathBuf;
use std::sync::Arc;
use warpipe::gpu_kernels::gemm::Instance;

/// Factor of products of floating-point numbers.
const ALPHA: f32 = 1.5;
/// Factor of products of whole numbers.
const WHOLE_ALPHA: f32 = 2.0;
/// Factor of C unless the options say it.
const BETA: f32 = -2.0;

/// The kernels of a family, and products for them.
pub trait Table: Send + Sync {
    /// The rows of the table.
    fn rows(&self) -> &'static [Instance];
    /// Whether a row computes what the options name.
    fn fits(&self, row: &Instance) -> bool;
    /// The picker's row for a product of this size, whose D is not empty.
    fn pick(&self, size: [u64; 3]) -> Result<usize, Error>;
    /// The next size that the family takes. Sizes of the user's are taken as they are.
    fn rounded(&self, size: [u64; 3]) -> [u64; 3] {
        size
    }
    /// A generated product of this size for a row.
    fn product(&self, index: usize, size: [u64; 3], seed: u64) -> Result<Arc<dyn Product>, Error>;
}

/// A product for a row of a table.
pub trait Product: Send + Sync {
    /// The size, for messages.
    fn size(&self) -> String;
    /// The schedules that are worth trying, each with its predicted time.
    fn schedules(&self) -> Result<Vec<(f64, Schedule)>, Error>;
    /// Refuses a schedule that the kernel does not have.
    fn check_schedule(&self, schedule: Schedule) -> Result<(), Error>;
    /// Runs the product in a schedule, and returns D.
    fn run(&self, device: &Device, schedule: Schedule) -> Result<Vec<u8>, Error>;
    /// Compares D with the product in f64.
    fn judge(&self, d: &[u8]) -> Result<Judged, host::Error>;
}

/// The table that the options name. `beta` is the factor of C, if they add it.
pub fn table(
    family: &FamilyArgs,
    layouts: strided::Options,
    beta: Option<f32>,
    device: &Device,
) -> Result<Box<dyn Table>, Error> {
    let image = &warpipe::GEMM_IMAGE;
    if let Some(file) = &family.groups {
        let gemm = Arc::new(Gemm::grouped(device, image)?);
        return Ok(Box::new(GroupedTable { gemm, file: file.clone(), masked: family.masked }));
    }
    if layouts.any() {
        // Refuses what no product with layouts has.
        family.strided_problem(&layouts, [8, 8, 8])?;
        let gemm = Arc::new(Gemm::strided(device, image)?);
        let dtype = family.dtype.map(|types| types.a);
        return Ok(Box::new(StridedTable { gemm, layouts, dtype }));
    }
    let problem = family.problem([GATED_ROWS; 3], beta.is_some())?;
    Ok(Box::new(MatricesTable {
        kernels: family.kernels(device, &problem)?,
        problem,
        hardware: HardwareInfo::of(device),
        types: family.dtype,
        out: family.out_dtype,
        epilogue: family.epilogue.clone(),
        scales: family.scales.unwrap_or(ScaleOf::Tensor),
        fast_accum: family.fast_accum,
        factors: [ALPHA, beta.unwrap_or(BETA)],
    }))
}

/// Kernels of one product of row-major matrices, with any epilogue.
pub struct MatricesTable {
    pub kernels: Arc<dyn Kernels>,
    /// The types of the picker's product, and whether it has a C.
    pub problem: GemmProblem,
    pub hardware: HardwareInfo,
    /// The types that the options name.
    pub types: Option<OperandTypes>,
    pub out: Option<Dtype>,
    pub epilogue: Option<Epilogue>,
    pub scales: ScaleOf,
    pub fast_accum: bool,
    /// Factors of products of floating-point numbers, and of C.
    pub factors: [f32; 2],
}

impl Table for MatricesTable {
    fn rows(&self) -> &'static [Instance] {
        self.kernels.rows()
    }

    fn fits(&self, row: &Instance) -> bool {
        let types = OperandTypes { a: row.ab, b: row.b };
        self.types.is_none_or(|asked| asked == types)
            && self.out.is_none_or(|out| out == row.out)
            && (row.has_c || !self.problem.beta_c)
    }

    fn pick(&self, [m, n, k]: [u64; 3]) -> Result<usize, Error> {
        let problem = GemmProblem { m, n, k, ..self.problem };
        problem.check()?;
        Ok(pick(self.rows(), &problem, problem.beta_c, self.hardware)?.index)
    }

    fn rounded(&self, [m, n, k]: [u64; 3]) -> [u64; 3] {
        let gated = self.epilogue.as_ref().is_some_and(Epilogue::gated);
        [m, if gated { n.next_multiple_of(GATED_ROWS) } else { n }, k]
    }

    fn product(
        &self,
        index: usize,
        [m, n, k]: [u64; 3],
        seed: u64,
    ) -> Result<Arc<dyn Product>, Error> {
        let row = &self.rows()[index];
        let problem = GemmProblem { m, n, k, ab: row.ab, out: row.out, beta_c: row.has_c };
        let types = OperandTypes { a: row.ab, b: row.b };
        let alpha = if row.out == Dtype::I32 { WHOLE_ALPHA } else { self.factors[0] };
        let beta = if row.has_c { self.factors[1] } else { 0.0 };
        let generate = Generate { problem, seed };
        let fast_accum = self.fast_accum;
        let (operands, with) = if types.have_scales() {
            let (operands, scales) = scaled::generate(generate, types, self.scales)?;
            let ways = Ways { alpha, beta, fast_accum, d_scale: None, amax: false };
            let with = match &self.epilogue {
                Some(epilogue) => {
                    let quantised = Some(Quantised { scales, fast_accum });
                    let factors = [alpha, beta];
                    With::Epilogue(Layer::new(epilogue, None, &operands, quantised, factors)?)
                }
                None => With::Scales(scales, ways),
            };
            (operands, with)
        } else if let Some(epilogue) = &self.epilogue {
            let operands = Operands::generate(generate)?;
            let layer = Layer::new(epilogue, None, &operands, None, [alpha, beta])?;
            (operands, With::Epilogue(layer))
        } else {
            (Operands::generate(generate)?, With::Nothing)
        };
        let product = Matrices { operands, with, factors: [alpha, beta] };
        Ok(Arc::new(OfMatrices { kernels: Arc::clone(&self.kernels), index, product }))
    }
}

struct OfMatrices {
    kernels: Arc<dyn Kernels>,
    index: usize,
    product: Matrices,
}

impl Product for OfMatrices {
    fn size(&self) -> String {
        let GemmProblem { m, n, k, .. } = self.product.operands.problem;
        format!("{m}x{n}x{k}")
    }

    fn schedules(&self) -> Result<Vec<(f64, Schedule)>, Error> {
        Ok(self.kernels.schedules(&self.product.operands.problem, self.index)?)
    }

    fn check_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        let problem = &self.product.operands.problem;
        Ok(self.kernels.check_schedule(problem, self.index, schedule)?)
    }

    fn run(&self, device: &Device, schedule: Schedule) -> Result<Vec<u8>, Error> {
        Ok(self.product.run(device, Which::Row(self.index, schedule))?.d)
    }

    fn judge(&self, d: &[u8]) -> Result<Judged, host::Error> {
        self.product.judge(d)
    }
}

/// Kernels for layouts and batches. A row says the type and the layouts.
struct StridedTable {
    gemm: Arc<StridedGemm>,
    layouts: strided::Options,
    dtype: Option<Dtype>,
}

impl StridedTable {
    /// The product of this size that a row computes, and whether B is shared.
    fn problem(&self, row: &Instance, size: [u64; 3]) -> (StridedProblem, bool) {
        let (problem, broadcast_b) = self.layouts.problem(size, row.ab);
        let major = |mn| if mn { Major::Mn } else { Major::K };
        let [a, b] = [row.a_mn_major, row.b_mn_major].map(major);
        // If D is column-major, B is the kernel's A.
        let layout = match problem.order {
            Order::RowMajor => Layout { a, b },
            Order::ColumnMajor => Layout { a: b, b: a },
        };
        (StridedProblem { layout, beta_c: row.has_c, ..problem }, broadcast_b)
    }
}

impl Table for StridedTable {
    fn rows(&self) -> &'static [Instance] {
        self.gemm.instances()
    }

    fn fits(&self, row: &Instance) -> bool {
        let layout = self.problem(row, [8, 8, 8]).0.layout;
        self.dtype.is_none_or(|dtype| dtype == row.ab)
            && self.layouts.layout.is_none_or(|asked| asked == layout)
    }

    fn pick(&self, size: [u64; 3]) -> Result<usize, Error> {
        let (problem, _) = self.layouts.problem(size, self.dtype.unwrap_or(Dtype::Bf16));
        let plan = self.gemm.plan(&problem)?;
        let kernel = plan.describe().kernel.as_ref();
        kernel.map(|kernel| kernel.index).ok_or_else(|| super::gemm::empty(size))
    }

    fn rounded(&self, [m, n, k]: [u64; 3]) -> [u64; 3] {
        // The lines of D are stored in place if they are multiples of 16 bytes.
        [m.next_multiple_of(8), n.next_multiple_of(8), k]
    }

    fn product(&self, index: usize, size: [u64; 3], seed: u64) -> Result<Arc<dyn Product>, Error> {
        let problem @ (strided, _) = self.problem(&self.rows()[index], size);
        strided.check()?;
        check_memory(&strided)?;
        let operands = StridedOperands::generate(problem, seed)?;
        Ok(Arc::new(OfLayouts { gemm: Arc::clone(&self.gemm), index, operands }))
    }
}

struct OfLayouts {
    gemm: Arc<StridedGemm>,
    index: usize,
    operands: StridedOperands,
}

impl Product for OfLayouts {
    fn size(&self) -> String {
        let StridedProblem { batch, m, n, k, layout, order, .. } = self.operands.problem;
        let column_major = if order == Order::ColumnMajor { " column-major" } else { "" };
        format!("{batch}x{m}x{n}x{k} {layout}{column_major}")
    }

    fn schedules(&self) -> Result<Vec<(f64, Schedule)>, Error> {
        let all = self.gemm.candidates(&self.operands.problem)?;
        let own = all.iter().filter(|candidate| candidate.index == self.index);
        Ok(own.map(|c| (c.prediction.predicted_us, c.prediction.schedule)).collect())
    }

    fn check_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        self.gemm.plan_with(&self.operands.problem, self.index, Some(schedule))?;
        Ok(())
    }

    fn run(&self, device: &Device, schedule: Schedule) -> Result<Vec<u8>, Error> {
        let gemm = Gemm::strided(device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan_with(&self.operands.problem, self.index, Some(schedule))?;
        Ok(self.operands.run(device, &plan, [ALPHA, BETA])?.0)
    }

    fn judge(&self, d: &[u8]) -> Result<Judged, host::Error> {
        self.operands.judge(d, [ALPHA, BETA])
    }
}

/// Kernels of grouped products. The file says the rows of all groups.
struct GroupedTable {
    gemm: Arc<GroupedGemm>,
    file: PathBuf,
    masked: Option<u64>,
}

impl Table for GroupedTable {
    fn rows(&self) -> &'static [Instance] {
        self.gemm.instances()
    }

    fn fits(&self, _: &Instance) -> bool {
        true
    }

    fn pick(&self, size @ [_, n, k]: [u64; 3]) -> Result<usize, Error> {
        let groups = Groups::read(&self.file, self.masked, [n, k])?;
        let plan = self.gemm.plan(&groups.problem)?;
        let kernel = plan.describe().kernel.as_ref();
        kernel.map(|kernel| kernel.index).ok_or_else(|| super::gemm::empty(size))
    }

    fn rounded(&self, [m, n, k]: [u64; 3]) -> [u64; 3] {
        [m, n.next_multiple_of(8), k.next_multiple_of(8)]
    }

    fn product(
        &self,
        index: usize,
        [_, n, k]: [u64; 3],
        seed: u64,
    ) -> Result<Arc<dyn Product>, Error> {
        let groups = Groups::read(&self.file, self.masked, [n, k])?;
        let operands = GroupedOperands::generate(groups, seed)?;
        Ok(Arc::new(OfGroups { index, operands }))
    }
}

struct OfGroups {
    index: usize,
    operands: GroupedOperands,
}

impl Product for OfGroups {
    fn size(&self) -> String {
        let groups = &self.operands.groups;
        let ([least, most], problem) = (groups.least_and_most(), &groups.problem);
        let (count, n, k) = (problem.groups, problem.n, problem.k);
        format!("{count} groups of {least} to {most} rows, {n}x{k},")
    }

    /// The device distributes the tiles: there is one schedule, of the clusters that the grid has.
    fn schedules(&self) -> Result<Vec<(f64, Schedule)>, Error> {
        let device = Device::sim(SimConfig::default());
        let gemm = Gemm::grouped(&device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan_with(&self.operands.groups.problem, self.index)?;
        let kernel = plan.describe().kernel.as_ref();
        let schedule = |clusters| Schedule { clusters, streamed: 0 };
        let one =
            kernel.map(|kernel| (kernel.predicted_us, schedule(kernel.ctas / kernel.cluster)));
        Ok(one.into_iter().collect())
    }

    fn check_schedule(&self, _: Schedule) -> Result<(), Error> {
        Err(Error::Usage("products with --groups have one schedule: omit --schedule".to_owned()))
    }

    fn run(&self, device: &Device, _: Schedule) -> Result<Vec<u8>, Error> {
        let gemm = Gemm::grouped(device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan_with(&self.operands.groups.problem, self.index)?;
        Ok(self.operands.run(device, &plan, ALPHA)?.0)
    }

    fn judge(&self, d: &[u8]) -> Result<Judged, host::Error> {
        self.operands.judge(d, ALPHA)
    }
}
