//! Times linear layers in one kernel, in turn with the product alone and with cuBLASLt's epilogues.
//!
//! The product is multiplied by 1 / sqrt(K), so that activations get values of the size that they have in a network.

mod cases;

pub use cases::{Activation, CASES, Layer, of_shape};

use crate::check::fingerprint;
use crate::cublaslt::{CublasLt, CublasLtPlan};
use crate::error::Error;
use crate::pool::{Operand, Pool};
use crate::runs::{Call, Results, TheirRuns, download, dynamic, finalists};
use crate::{BenchConfig, Contender, Timing, interleave};
use cases::Sampled;
use gpu_kernels::gemm::fused::FusedElement;
use host::gemm::{FusedGemm, Fusion, GatedGemm, Gemm, GemmProblem, PlanInfo, Schedule};
use host::reference::Check;
use host::{Buffer, Device, Dtype, Stream, View};
use serde::Serialize;

/// Operands begin at multiples of this many elements: 256 bytes.
const ALIGN: usize = 128;
/// Most sets of operands in rotation.
const MOST_SETS: u64 = 16;

/// The kernels that are timed. Operands and results have the type `T`.
pub struct Kernels<'g, T: FusedElement> {
    /// The product alone.
    pub plain: &'g Gemm,
    /// With bias, activation and residual.
    pub fused: &'g FusedGemm<T>,
    /// With gates.
    pub gated: &'g GatedGemm<T>,
}

/// The measurement of one layer.
#[derive(Clone, Debug, Serialize)]
pub struct EpilogueLine {
    /// The layer.
    #[serde(flatten)]
    pub layer: Layer,
    /// The plan.
    pub plan: PlanInfo,
    /// The times.
    pub timing: Timing,
    /// Comparison of the first result with the f64 layer, in sampled rows and columns.
    pub check: Check,
    /// Whether the last timed launch gave the same bits as the first launch.
    pub same_bits: bool,
    /// Times of the product alone, in its own kernel.
    pub product: Timing,
    /// Times of the kernel that cuBLASLt's heuristic proposes first, if cuBLASLt took part and has this epilogue.
    pub cublaslt: Option<Timing>,
    /// Times of the fastest kernel that it proposes.
    pub fastest: Option<Timing>,
}

impl EpilogueLine {
    /// Speed as a multiple of that of the product alone: below 1 by what the epilogue costs.
    pub fn ratio_to_product(&self) -> f64 {
        self.product.median_us / self.timing.median_us
    }

    /// Speed as a multiple of that of cuBLASLt's first kernel.
    pub fn ratio(&self) -> Option<f64> {
        self.cublaslt.as_ref().map(|theirs| theirs.median_us / self.timing.median_us)
    }

    /// Speed as a multiple of that of cuBLASLt's fastest kernel.
    pub fn ratio_to_fastest(&self) -> Option<f64> {
        self.fastest.as_ref().map(|theirs| theirs.median_us / self.timing.median_us)
    }
}

/// A GPU with operands for layers.
pub struct EpilogueBench {
    device: Device,
    pool: Pool,
    dtype: Dtype,
    l2_bytes: u64,
}

/// Where the operands of a layer's sets lie in the pool, as elements.
struct Places {
    sets: usize,
    /// A, B, C and the bias of a set, rounded up.
    lengths: [usize; 4],
}

impl Places {
    fn of(layer: &Layer, dtype: Dtype, l2_bytes: u64) -> Self {
        let GemmProblem { m, n, k, beta_c, .. } = layer.problem(dtype);
        let c = if beta_c { m * n } else { 0 };
        let lengths = [m * k, n * k, c, n].map(|len| (len as usize).next_multiple_of(ALIGN));
        let bytes = lengths.iter().sum::<usize>() * dtype.size();
        let sets = crate::rotating_sets(bytes, l2_bytes, MOST_SETS);
        Self { sets, lengths }
    }

    fn set(&self) -> usize {
        self.lengths.iter().sum()
    }
}

/// Queues a launch with one of several sets of operands.
type Launches<'p> = Box<dyn FnMut(usize, &Stream) -> Result<(), Error> + 'p>;

impl EpilogueBench {
    /// Makes operands of type `dtype` for any of `layers`.
    ///
    /// # Errors
    /// [`host::Error::NotOnModel`] on the SM model; [`Error::Setting`] for an empty product; the errors of
    /// [`GemmProblem::check`]; [`host::Error::OutOfMemory`].
    pub fn new(device: &Device, dtype: Dtype, seed: u64, layers: &[Layer]) -> Result<Self, Error> {
        let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
        let l2_bytes = info.l2_bytes;
        layers.iter().try_for_each(|layer| layer.check(dtype))?;
        let of = |layer: &Layer| {
            let places = Places::of(layer, dtype, l2_bytes);
            places.sets * places.set()
        };
        let elements = layers.iter().map(of).max().unwrap_or(0);
        let pool = Pool::new(device, dtype, seed, elements)?;
        Ok(Self { device: device.clone(), pool, dtype, l2_bytes })
    }

    /// The kernels of the tables that compute a layer, by their rows, in every schedule that is worth trying.
    ///
    /// # Errors
    /// The errors of [`Gemm::plan_every`].
    pub fn choices<T: FusedElement>(
        &self,
        kernels: &Kernels<'_, T>,
        layer: &Layer,
    ) -> Result<Vec<(usize, Schedule)>, Error> {
        let problem = layer.problem(self.dtype);
        let of = |info: &PlanInfo| info.kernel.as_ref().map(|k| (k.index, k.schedule()));
        Ok(if layer.gated {
            let plans = kernels.gated.plan_every(&problem)?;
            plans.iter().filter_map(|plan| of(plan.describe())).collect()
        } else {
            let plans = kernels.fused.plan_every(&problem)?;
            plans.iter().filter_map(|plan| of(plan.describe())).collect()
        })
    }

    /// Checks a layer and times it, with one of its [`choices`](Self::choices) or with the picker's kernel, in turn with the
    /// product alone and with cuBLASLt if it is there and has the epilogue.
    ///
    /// # Errors
    /// [`Error::Setting`] for an empty product; [`host::Error::OutOfBuffer`] for a layer that is larger than those given to
    /// [`EpilogueBench::new`]; errors of the plans and of the launches.
    pub fn measure<T: FusedElement>(
        &self,
        kernels: &Kernels<'_, T>,
        lt: Option<&CublasLt>,
        layer: &Layer,
        choice: Option<(usize, Schedule)>,
        config: &BenchConfig,
    ) -> Result<EpilogueLine, Error> {
        layer.check(self.dtype)?;
        let problem = layer.problem(self.dtype);
        let product = GemmProblem { beta_c: false, ..problem };
        let alpha = layer.alpha();
        let (device, stream) = (&self.device, self.device.new_stream()?);
        let (sets, residuals, bias) = self.operands(layer)?;
        let result = GemmProblem { n: layer.columns(), ..product };
        let ours_d = Results::new(device, &result, 1, sets.len())?;
        // The others have results of their own, which nobody reads.
        let their_d = Results::new(device, &product, 1, sets.len())?;
        let d: &[Buffer] = &ours_d.parts[0];
        let fusion = Fusion {
            alpha,
            beta: 0.0,
            bias: layer.bias.then_some(&bias.buffer),
            activation: layer.activation(),
            residual: if layer.residual { 1.0 } else { 0.0 },
        };
        let c = |set: usize| residuals[set].as_ref().map(|c| View::from(&c.buffer));
        // The two kinds of plans have different types.
        let (fused, gated);
        let (info, mut launch): (PlanInfo, Launches<'_>) = if layer.gated {
            gated = match choice {
                Some((row, schedule)) => kernels.gated.plan_scheduled(&problem, row, schedule)?,
                None => kernels.gated.plan(&problem)?,
            };
            let bind = |set: usize| {
                let [a, b] = &sets[set];
                gated.bind(&a.buffer, &b.buffer, None, &mut d[set].part(0, d[set].len())?)
            };
            let bound = (0..sets.len()).map(bind).collect::<Result<Vec<_>, host::Error>>()?;
            let launch =
                move |set: usize, stream: &Stream| Ok(bound[set].run_fused(fusion, stream)?);
            (gated.describe().clone(), Box::new(launch))
        } else {
            fused = match choice {
                Some((row, schedule)) => kernels.fused.plan_scheduled(&problem, row, schedule)?,
                None => kernels.fused.plan(&problem)?,
            };
            let bind = |set: usize| {
                let [a, b] = &sets[set];
                fused.bind(&a.buffer, &b.buffer, c(set), &mut d[set].part(0, d[set].len())?)
            };
            let bound = (0..sets.len()).map(bind).collect::<Result<Vec<_>, host::Error>>()?;
            let launch =
                move |set: usize, stream: &Stream| Ok(bound[set].run_fused(fusion, stream)?);
            (fused.describe().clone(), Box::new(launch))
        };
        let plain = kernels.plain.plan(&product)?;
        let bind = |(set, [a, b]): (usize, &[Operand<'_>; 2])| {
            let d = &their_d.parts[0][set];
            plain.bind(&a.buffer, &b.buffer, None, &mut d.part(0, d.len())?)
        };
        let plain = sets.iter().enumerate().map(bind).collect::<Result<Vec<_>, host::Error>>()?;

        let mut host = Vec::new();
        launch(0, &device.stream())?;
        download(&d[0], &mut host)?;
        let sampled = Sampled::of(layer, &problem, &sets[0], residuals[0].as_ref(), &bias);
        let (check, bits) = (sampled.check(&host)?, fingerprint(&host));
        d[0].part(0, d[0].len())?.fill(0xff)?;

        let rivals: Vec<CublasLtPlan> = match (lt, layer.rival()) {
            (Some(lt), Some(epilogue)) => lt.plans_fused(&product, &bias.buffer, epilogue)?,
            _ => Vec::new(),
        };
        let mut theirs: Vec<TheirRuns<'_>> =
            finalists(&rivals, &sets, &their_d.parts[0], alpha, &stream)?;
        let mut ours = Call::new("warpipe", launch);
        let mut alone = Call::new("the product alone", |set: usize, stream: &Stream| {
            Ok(plain[set].run(alpha, 0.0, stream)?)
        });
        let mut contenders: Vec<&mut dyn Contender> = vec![&mut ours, &mut alone];
        contenders.extend(theirs.iter_mut().map(dynamic));
        let (mut timings, ..) =
            interleave(device, &mut contenders, sets.len(), problem.flops(), config)?;
        let theirs = timings.split_off(2);
        let missing = || Error::Setting { what: "contenders", value: 0, least: 2 };
        let (product, timing) =
            (timings.pop().ok_or_else(missing)?, timings.pop().ok_or_else(missing)?);
        download(&d[0], &mut host)?;
        let same_bits = fingerprint(&host) == bits;
        let fastest = theirs.iter().min_by(|a, b| a.median_us.total_cmp(&b.median_us)).cloned();
        let cublaslt = theirs.into_iter().next();
        let (layer, plan) = (*layer, info);
        Ok(EpilogueLine { layer, plan, timing, check, same_bits, product, cublaslt, fastest })
    }

    /// A and B of each set, its residual if the layer has one, and the bias.
    #[allow(clippy::type_complexity, reason = "the three have nothing in common but their pool")]
    fn operands(
        &self,
        layer: &Layer,
    ) -> Result<(Vec<[Operand<'_>; 2]>, Vec<Option<Operand<'_>>>, Operand<'_>), Error> {
        let GemmProblem { m, n, k, beta_c, .. } = layer.problem(self.dtype);
        let places = Places::of(layer, self.dtype, self.l2_bytes);
        let [of_a, of_b, of_c, _] = places.lengths;
        let (mut sets, mut residuals) = (Vec::new(), Vec::new());
        for set in 0..places.sets {
            let a = set * places.set();
            sets.push([self.pool.matrix(a, m, k)?, self.pool.matrix(a + of_a, n, k)?]);
            let c = beta_c.then(|| self.pool.matrix(a + of_a + of_b, m, n)).transpose()?;
            residuals.push(c);
        }
        Ok((sets, residuals, self.pool.matrix(of_a + of_b + of_c, 1, n)?))
    }
}
