//! A record of the times of many kernels and schedules: the data that the picker's predictions are fitted to and
//! tested with.
//!
//! It is a file of JSON lines: a [`Header`], then a [`Record`] for each product.

use super::line::{Shape, without_types};
use super::scales::ScaleOf;
use super::search::Search;
use gpu_kernels::gemm::Epilogue;
use host::Error;
use host::gemm::{Gemm, GemmPlan, GemmProblem};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Value of the header's first field.
pub const FORMAT: &str = "warpipe times 1";

/// Plans whose predicted time is more than this many times the shortest are not timed.
const HOPELESS: f64 = 4.0;

/// The first line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Its number of SMs.
    pub sms: u32,
    /// Its driver, if NVML reports it.
    pub driver: Option<String>,
    /// Version number of cuBLASLt, if it took part.
    pub cublaslt: Option<usize>,
    /// Arguments of the command.
    pub command: String,
    /// Start of the measurement, in seconds since 1970.
    pub unix_time: u64,
    /// Type of A and B.
    pub ab: String,
    /// Type of D.
    pub out: String,
    /// What has a scale, for operands of e4m3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scales: Option<ScaleOf>,
    /// Whether the tensor cores keep the sums of products of e4m3; otherwise they are promoted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fast_accum: bool,
}

/// The times of one product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// M, N and K.
    #[serde(flatten)]
    pub shape: Shape,
    /// Time of the kernel that cuBLASLt's heuristic proposes first, in microseconds.
    pub cublaslt_us: Option<f64>,
    /// Time of the fastest of its proposals.
    pub fastest_us: Option<f64>,
    /// Index in `runs` of the picker's choice at the time of the record.
    pub picked: usize,
    /// Warpipe's kernels and schedules, fastest first: first those that were timed in turn.
    pub runs: Vec<Timed>,
}

/// Kernel without its types, clusters, split cluster tiles, microseconds, and whether it was timed in turn with the
/// others that come near the fastest.
pub type Timed = (String, u32, u32, f64, bool);

impl Record {
    /// What a search found. The first plan is the picker's choice.
    ///
    /// Returns `None` for plans of an empty product, which have no kernel.
    pub fn new<E: Epilogue>(plans: &[GemmPlan<E>], search: &Search) -> Option<Self> {
        let GemmProblem { m, n, k, .. } = *plans.first()?.problem();
        // A nanosecond is a thousandth of what is worth knowing.
        let us = |us: f64| (us * 1e3).round() / 1e3;
        let mut runs = Vec::with_capacity(search.found.len());
        for found in &search.found {
            let kernel = plans[found.contender].describe().kernel.as_ref()?;
            let schedule = kernel.schedule();
            let name = without_types(&kernel.name).to_owned();
            runs.push((name, schedule.clusters, schedule.streamed, us(found.us), found.in_turn));
        }
        Some(Self {
            shape: Shape { m, n, k },
            cublaslt_us: search.cublaslt_us.map(us),
            fastest_us: search.fastest_us.map(us),
            picked: search.found.iter().position(|found| found.contender == 0)?,
            runs,
        })
    }

    /// Time of the fastest kernel and schedule divided by that of the picker's choice: at most 1, apart from noise.
    pub fn picked_ratio(&self) -> f64 {
        self.best_us() / self.runs[self.picked].3
    }

    /// Time of the fastest kernel and schedule in microseconds.
    pub fn best_us(&self) -> f64 {
        self.runs.iter().map(|run| run.3).fold(f64::INFINITY, f64::min)
    }
}

/// Schedules of a kernel among the plans with the shortest predicted times, so that they are of many kernels.
const SCHEDULES: usize = 3;

/// The plans to time for a product, at most `most`: the picker's choice, then those with the shortest predicted
/// times, up to three schedules of a kernel, and, for a quarter of `most`, others, evenly spread.
///
/// # Errors
/// The errors of [`Gemm::plan_scheduled`].
pub fn plans<E: Epilogue>(
    gemm: &Gemm<E>,
    problem: &GemmProblem,
    most: usize,
) -> Result<Vec<GemmPlan<E>>, Error> {
    let mut plans = vec![gemm.plan(problem)?];
    let picked = plans[0].describe().kernel.as_ref().map(|k| (k.index, k.schedule()));
    let mut pairs = Vec::new();
    for (index, i) in gemm.instances().iter().enumerate() {
        if (i.ab, i.out, i.has_c) == (problem.ab, problem.out, problem.beta_c) {
            let schedules = gemm.schedules(problem, index)?;
            pairs.extend(schedules.into_iter().map(|(us, schedule)| (us, index, schedule)));
        }
    }
    pairs.retain(|&(_, index, schedule)| picked != Some((index, schedule)));
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some(&(shortest, ..)) = pairs.first() {
        pairs.retain(|(us, ..)| *us <= HOPELESS * shortest);
    }
    let most = most.max(1) - 1;
    let mut of_kernel = HashMap::new();
    let (mut pairs, mut others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(_, index, _)| {
        let seen = of_kernel.entry(*index).or_insert(0);
        *seen += 1;
        *seen <= SCHEDULES
    });
    others.splice(0..0, pairs.split_off(pairs.len().min(most - most / 4)));
    let step = others.len().div_ceil((most / 4).max(1)).max(1);
    for (_, index, schedule) in pairs.into_iter().chain(others.into_iter().step_by(step)) {
        plans.push(gemm.plan_scheduled(problem, index, schedule)?);
    }
    plans.truncate(most + 1);
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_an_earlier_version_is_one_of_operands_without_scales() {
        let earlier = r#"{"format":"warpipe times 1","gpu":"NVIDIA H200","sms":132,"driver":null,"cublaslt":130101,
            "command":"bench","unix_time":0,"ab":"bf16","out":"bf16"}"#;
        let header: Header = serde_json::from_str(earlier).unwrap();
        assert_eq!((header.scales, header.fast_accum), (None, false));
        // A header without scales is written as before.
        let json = serde_json::to_string(&header).unwrap();
        assert!(json.ends_with(r#""ab":"bf16","out":"bf16"}"#), "{json}");
        let scaled = Header { scales: Some(ScaleOf::Row), fast_accum: true, ..header };
        let json = serde_json::to_string(&scaled).unwrap();
        assert!(json.ends_with(r#""scales":"row","fast_accum":true}"#), "{json}");
        assert_eq!(serde_json::from_str::<Header>(&json).unwrap(), scaled);
    }

    #[test]
    fn a_record_is_a_short_line_that_comes_back() {
        let timed = |name: &str, us, in_turn| (name.to_owned(), 66, 22, us, in_turn);
        let record = Record {
            shape: Shape { m: 1, n: 128, k: 256 },
            cublaslt_us: Some(5.0),
            fastest_us: None,
            picked: 1,
            runs: vec![timed("128x256_2x1", 2.0, true), timed("64x64_1x1", 2.5, false)],
        };
        let json = serde_json::to_string(&record).unwrap();
        assert!(json.contains(r#""runs":[["128x256_2x1",66,22,2.0,true],["64x64"#), "{json}");
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
        assert!((record.picked_ratio() - 0.8).abs() < 1e-12);
    }
}
