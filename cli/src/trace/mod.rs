//! `warpipe trace`: draws one run of a kernel.

mod gpu;
mod lanes;
mod model;
mod perfetto;
mod records;
mod svg;
mod timeline;

use super::args::{DeviceArg, finite, operand_dtype, result_dtype};
use super::attention::shape::{BatchArgs, ShapeArgs};
use super::error::Error;
use super::output::Place;
use super::progress::Progress;
use super::say;
use super::schedules::{Case, Failure, attention, examples, gemm};
use clap::ValueEnum;
use host::gemm::GemmProblem;
use host::sim::Schedule;
use host::sim::trace::{Trace, Tracing};
use host::{Device, SimConfig};
use isa::kernel::Dtype;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use timeline::Timeline;

/// Most events of a traced cluster.
const EVENTS: usize = 1 << 20;
/// Default shape: two tiles of the largest instance for each CTA.
const SHAPE: [u64; 3] = [512, 512, 512];
/// Default number of SMs: every cluster fits, and each has several tiles.
const SMS: u32 = 4;
/// Default rows of an example: enough for every example to use each slot of its ring more than once.
const ROWS: u64 = 1536;

/// Kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The GEMM kernel
    Gemm,
    /// The attention kernel
    Attention,
    /// An example kernel, by its name
    Example,
}

/// CTAs of the cluster to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ctas {
    All,
    One(u32),
}

impl FromStr for Ctas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text
                .parse()
                .map(Self::One)
                .map_err(|_| "expected a CTA's rank in its cluster (from 0) or all".to_owned()),
        }
    }
}

/// Options of `warpipe trace`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to trace
    #[arg(value_enum, default_value = "gemm")]
    what: What,
    /// Name of the example
    name: Option<String>,
    /// Write the picture to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a trace that ui.perfetto.dev opens to this file
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Index of the cluster in the grid
    #[arg(long, value_name = "N", default_value_t = 0)]
    cluster: u32,
    /// Rank of the CTA in the cluster, or all
    #[arg(long, value_name = "RANK", default_value = "0")]
    cta: Ctas,
    /// Rows of A and D
    #[arg(long, value_name = "M", requires_all = ["n", "k"])]
    m: Option<u64>,
    /// Rows of B, columns of D
    #[arg(long, value_name = "N", requires_all = ["m", "k"])]
    n: Option<u64>,
    /// Columns of A and B
    #[arg(long, value_name = "K", requires_all = ["m", "n"])]
    k: Option<u64>,
    /// Element type of A and B: bf16 or f16 [default: bf16]
    #[arg(long, value_parser = operand_dtype)]
    dtype: Option<Dtype>,
    /// Element type of the result: bf16, f16 or f32 [default: that of A and B]
    #[arg(long, value_parser = result_dtype, value_name = "DTYPE")]
    out_dtype: Option<Dtype>,
    /// Add C, times X
    #[arg(long, value_parser = finite, allow_hyphen_values = true, value_name = "X")]
    beta: Option<f32>,
    /// Trace this instance instead of the picker's: a kernel's name, or the end of one
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// SMs of the model [default: 4]; with few SMs, a CTA computes several tiles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    sms: Option<u32>,
    /// Rows of an example's tensor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    rows: Option<u64>,
    /// Run this schedule instead of the one in the order of model time: a seed, or the schedule that
    /// a finding prints
    #[arg(long, value_name = "SCHEDULE")]
    seed: Option<String>,
    #[command(flatten)]
    order: BatchArgs,
    #[command(flatten)]
    attention: ShapeArgs,
    /// Device: sim; in a build with the feature `trace` also cuda or cuda:N, for two kernels:
    /// gemm_bf16_bf16_128x256_2x1 and gemm_bf16_bf16_128x128_1x1_pp
    #[arg(long, default_value = "sim")]
    device: DeviceArg,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    args.check()?;
    let svg = args.svg.as_deref().map(|file| Place::prepare(file, &[])).transpose()?;
    let perfetto = args.perfetto.as_deref().map(|file| Place::prepare(file, &[])).transpose()?;
    let (timeline, result) = match args.device {
        DeviceArg::Cuda(index) => (args.on_gpu(index)?, Ok(())),
        _ => args.on_model()?,
    };
    if let Some(place) = svg {
        place.write(svg::draw(&timeline).as_bytes())?;
    }
    if let Some(place) = perfetto {
        place.write(perfetto::write(&timeline).as_bytes())?;
    }
    say(&timeline.summary())?;
    // A finding is reported after its picture is written.
    result
}

impl Args {
    /// Checks that the options do not contradict each other.
    fn check(&self) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let shaped = self.m.is_some()
            || self.dtype.is_some()
            || self.out_dtype.is_some()
            || self.beta.is_some()
            || self.instance.is_some()
            || self.sms.is_some();
        let of_gemm = self.m.is_some() || self.out_dtype.is_some() || self.beta.is_some();
        match (self.what, &self.name) {
            (What::Gemm | What::Example, _) if self.attention().any() => {
                return usage(
                    "--heads, --causal and the like are options of `trace attention`; omit them",
                );
            }
            (What::Attention, Some(_)) => {
                return usage(
                    "trace attention takes no name; give --instance NAME to choose a kernel",
                );
            }
            (What::Attention, None) if of_gemm || self.rows.is_some() => {
                return usage(
                    "attention has no --m, --n, --k, --out-dtype, --beta and --rows; omit them",
                );
            }
            (What::Gemm, Some(_)) => {
                return usage("trace gemm takes no name; give --instance NAME to choose a kernel");
            }
            (What::Gemm, None) if self.rows.is_some() => {
                return usage("--rows is for an example; give --m, --n and --k for a product");
            }
            (What::Example, None) => {
                let names = examples::names().join(", ");
                return usage(&format!("no example given; there are: {names}"));
            }
            (What::Example, Some(_)) if shaped => {
                return usage("an example has its own shape; omit the options of the GEMM");
            }
            _ => {}
        }
        let cuda = matches!(self.device, DeviceArg::Cuda(_));
        if !cuda {
            return Ok(());
        }
        if self.what != What::Gemm {
            return usage(
                "only the GEMM is traced on a GPU, the others on the model; omit --device",
            );
        }
        gpu::kernel(self.instance.as_deref())?;
        let is = |dtype: Option<Dtype>| dtype.is_some_and(|d| d != Dtype::Bf16);
        if is(self.dtype) || is(self.out_dtype) || self.beta.is_some() {
            return usage("the kernels that can be traced on a GPU are bf16 without C");
        }
        if self.seed.is_some() || self.sms.is_some() {
            return usage("--seed and --sms are options of the model; omit them on a GPU");
        }
        gpu::image().map(drop)
    }

    /// The options of attention.
    fn attention(&self) -> ShapeArgs {
        self.attention.in_order(self.order)
    }

    fn shape(&self, otherwise: [u64; 3]) -> [u64; 3] {
        match (self.m, self.n, self.k) {
            (Some(m), Some(n), Some(k)) => [m, n, k],
            _ => otherwise,
        }
    }

    /// Runs the kernel on the model. Returns the timeline and the outcome of the run.
    fn on_model(&self) -> Result<(Timeline, Result<(), Error>), Error> {
        let tracing = Arc::new(Tracing::new(self.cluster, EVENTS));
        let case = self.case()?;
        let progress = Progress::new(1);
        let config = SimConfig {
            sms: self.sms.unwrap_or(SMS),
            schedule: Schedule::timed(),
            trace: Some(Arc::clone(&tracing)),
            ..progress.model()
        };
        let replay = |text: &String| {
            host::testing::replay(&config, text).map_err(|e| Error::Usage(e.to_string()))
        };
        let config = self.seed.as_ref().map_or_else(|| Ok(config.clone()), replay)?;
        let result = progress.step(&case.name(), || case.run(&config));
        drop(progress);
        let name = case.name();
        let Some(trace) = tracing.take().pop() else {
            result.map_err(Error::from)?;
            let text = format!("there is no cluster {} in the grid of {name}", self.cluster);
            return Err(Error::Usage(text));
        };
        let stopped = if trace.finished { "" } else { " (stopped by a finding)" };
        let title = format!("{name}, cluster {} on the SM model{stopped}", trace.cluster);
        let timeline = self.timeline(&trace, &name, title, "cycles")?;
        Ok((timeline, result.map(drop).map_err(Error::from)))
    }

    /// Runs the kernel on a GPU and returns the timeline.
    fn on_gpu(&self, index: usize) -> Result<Timeline, Error> {
        let device = Device::cuda(index)?;
        let kernel = gpu::kernel(self.instance.as_deref())?;
        let (trace, title) = gpu::run(&device, kernel, self.shape(gpu::SHAPE), self.cluster)?;
        self.timeline(&trace, kernel, title, "ns")
    }

    fn case(&self) -> Result<Box<dyn Case>, Error> {
        if self.what == What::Example {
            let rows = self.rows.unwrap_or(ROWS) as usize;
            return examples::case(self.name.as_deref().unwrap_or_default(), rows);
        }
        if self.what == What::Attention {
            let dtype = self.dtype.unwrap_or(Dtype::Bf16);
            let sms = self.sms.unwrap_or(SMS);
            return attention::case(sms, dtype, &self.attention(), self.instance.as_deref());
        }
        let [m, n, k] = self.shape(SHAPE);
        let ab = self.dtype.unwrap_or(Dtype::Bf16);
        let out = self.out_dtype.unwrap_or(ab);
        let problem = GemmProblem { m, n, k, ab, out, beta_c: self.beta.is_some() };
        let beta = self.beta.unwrap_or(0.0);
        gemm::case(self.sms.unwrap_or(SMS), problem, self.instance.as_deref(), beta)
    }

    fn timeline(
        &self,
        trace: &Trace,
        name: &str,
        title: String,
        unit: &'static str,
    ) -> Result<Timeline, Error> {
        if trace.dropped > 0 {
            let have = trace.events.len() as u64 + trace.dropped;
            let kept = trace.events.len();
            return Err(Error::Usage(format!(
                "cluster {} of {name} has {have} events, and the trace has room for {kept}; give a \
                 smaller shape",
                trace.cluster
            )));
        }
        let ctas = trace.ctas;
        let ranks: Vec<u32> = match self.cta {
            Ctas::All => (0..ctas).collect(),
            Ctas::One(rank) if rank < ctas => vec![rank],
            Ctas::One(rank) => {
                return Err(Error::Usage(format!(
                    "there is no CTA {rank} in a cluster of {ctas} of {name}"
                )));
            }
        };
        Ok(model::timeline(trace, &ranks, title, unit))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Report(report) => Self::Host(host::Error::Model(report)),
            Failure::Other(text) => Self::Wrong(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::sim::trace::{Event, What as Happened};

    #[derive(clap::Parser)]
    struct TestLine {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn too_much_for_a_picture_is_refused_with_its_numbers() {
        let args = <TestLine as clap::Parser>::parse_from(["trace", "gemm"]).args;
        let fence = Happened::Fence { name: "fence" };
        let event = Event { thread: 0, step: 0, from: 0, until: 0, at: None, what: fence };
        let trace = |dropped| Trace {
            kernel: "k".to_owned(),
            cluster: 3,
            ctas: 1,
            block: 0,
            smem_base: 0,
            finished: true,
            threads: Vec::new(),
            barriers: Vec::new(),
            events: if dropped > 0 { vec![event; 5] } else { Vec::new() },
            dropped,
        };
        let draw = |dropped| args.timeline(&trace(dropped), "a kernel", String::new(), "ns");
        let e = draw(12).unwrap_err();
        let text = e.to_string();
        assert!(text.contains("cluster 3 of a kernel has 17 events"), "{text}");
        assert!(text.contains("room for 5") && e.exit_code() == 2, "{text}");
        assert!(draw(0).is_ok());
    }
}
