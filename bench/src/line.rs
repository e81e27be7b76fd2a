//! The result of a benchmark for one shape, as text and as JSON.
//!
//! A [`Line`] comes from [`Measured`] or from a file; this module does not measure.

mod run;

pub(super) use run::without_types;
pub use run::{Rival, Run, Times};

use super::measure::{Isolated, Measured};
use super::scales::ScaleOf;
use host::dtype_name;
use host::gemm::GemmProblem;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number of fastest instances and schedules that the text lists below a shape.
const FASTEST: usize = 5;

/// M, N and K of a product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u64,
    /// Rows of B, columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}", self.m, self.n, self.k))
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<u64>, _> = text.split('x').map(str::parse).collect();
        match sizes.as_deref() {
            Ok(&[m, n, k]) => Ok(Self { m, n, k }),
            _ => Err("a shape is MxNxK, for example 4096x14336x4096".to_owned()),
        }
    }
}

/// A shape with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The suite of the shape.
    pub suite: String,
    /// M, N and K.
    #[serde(flatten)]
    pub shape: Shape,
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
    /// Floating-point operations, 2 * M * N * K.
    pub flops: f64,
    /// Bytes of A, B and D, the least memory traffic.
    pub bytes: f64,
    /// Samples of each contender.
    pub samples: usize,
    /// Launches per sample.
    pub launches: usize,
    /// Sets of operands in rotation.
    pub sets: usize,
    /// The picker's choice, or the instance that the options name.
    #[serde(flatten)]
    pub run: Run,
    /// Times of the kernel that cuBLASLt's heuristic proposes first, if cuBLASLt took part.
    pub cublaslt: Option<Times>,
    /// cuBLASLt's fastest kernel, if cuBLASLt took part.
    #[serde(default)]
    pub fastest: Option<Rival>,
    /// Times of isolated launches, if they were measured.
    #[serde(default)]
    pub isolated: Option<Isolated>,
    /// Every instance in every schedule, if all were timed. The first one is `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Run>,
}

impl Line {
    /// Makes a line from a measurement. The first plan is `run`; if there are more, `instances` has all. The operands have
    /// no scales; [`Line::with_scales`] says which they have.
    ///
    /// Returns `None` if no plan was measured.
    pub fn new(
        suite: &str,
        problem: &GemmProblem,
        measured: &Measured,
        bound: f64,
    ) -> Option<Self> {
        let runs: Vec<Run> = measured.ours.iter().map(|ours| Run::new(ours, bound)).collect();
        let run = runs.first()?.clone();
        let bytes = ['A', 'B', 'D'].into_iter().map(|operand| problem.bytes(operand) as f64);
        Some(Self {
            suite: suite.to_owned(),
            shape: Shape { m: problem.m, n: problem.n, k: problem.k },
            ab: dtype_name(problem.ab).to_owned(),
            out: dtype_name(problem.out).to_owned(),
            scales: None,
            fast_accum: false,
            flops: problem.flops(),
            bytes: bytes.sum(),
            samples: measured.ours[0].timing.samples_us.len(),
            launches: measured.launches,
            sets: measured.sets,
            run,
            cublaslt: measured.cublaslt.as_ref().map(Times::of),
            fastest: measured.fastest.as_ref().map(|fastest| Rival {
                candidate: fastest.candidate,
                candidates: fastest.candidates,
                times: Times::of(&fastest.timing),
            }),
            isolated: measured.isolated,
            instances: if runs.len() > 1 { runs } else { Vec::new() },
        })
    }

    /// The same line of operands with scales, and the sums of their products.
    #[must_use]
    pub fn with_scales(self, scales: Option<ScaleOf>, fast_accum: bool) -> Self {
        Self { scales, fast_accum, ..self }
    }

    /// The heading of the lines that have this one's suite, types and scales.
    pub fn title(&self) -> String {
        title(&self.suite, &self.ab, self.scales, self.fast_accum)
    }

    /// Median of cuBLASLt's first kernel divided by that of warpipe. Above 1, warpipe is faster.
    pub fn ratio(&self) -> Option<f64> {
        self.cublaslt.map(|theirs| theirs.median_us / self.run.times.median_us)
    }

    /// Median of cuBLASLt's fastest kernel divided by that of warpipe.
    pub fn ratio_to_fastest(&self) -> Option<f64> {
        self.fastest.map(|theirs| theirs.times.median_us / self.run.times.median_us)
    }

    /// The same ratio for isolated launches.
    pub fn isolated_ratio(&self) -> Option<f64> {
        self.isolated.and_then(|alone| Some(alone.fastest_us? / alone.us))
    }

    /// Rate in TFLOP/s of a launch of `us` microseconds.
    pub fn tflops(&self, us: f64) -> f64 {
        self.flops / us / 1e6
    }

    /// Arithmetic intensity: operations per byte of A, B and D.
    pub fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    /// Every warpipe kernel that was timed.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.run).chain(self.instances.iter().skip(1))
    }

    /// All instances and schedules, fastest first.
    pub fn by_time(&self) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.instances.iter().collect();
        runs.sort_by(|a, b| a.times.median_us.total_cmp(&b.times.median_us));
        runs
    }

    /// The last column of the table: faults, a ratio below `floor`, a faster instance.
    fn mark(&self, floor: f64) -> String {
        let mut marks = self.run.faults();
        if self.ratio().is_some_and(|ratio| ratio < floor) {
            marks.push(format!("below {floor}"));
        }
        if let Some(best) = self.by_time().first().filter(|best| best.name() != self.run.name()) {
            let gain = 100.0 * (self.run.times.median_us / best.times.median_us - 1.0);
            marks.push(format!("{} is {gain:.1}% faster", best.short()));
        }
        marks.join("; ")
    }

    /// A row of the table for `run`, which is this line's or one of its `instances`.
    fn row(&self, name: &str, run: &Run, isolated: Option<f64>, marks: &str) -> String {
        let Times { median_us, .. } = run.times;
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let (first, fastest) = (self.cublaslt, self.fastest.map(|fastest| fastest.times));
        let ratio = |theirs: Option<Times>| theirs.map(|t| t.median_us / median_us);
        let text = format!(
            "{name:<20} {:<20} {median_us:>9.2} {:>5.1} {:>9} {:>5} {:>9} {:>8.1} {:>6} {:>8} {:>6}  {marks}",
            run.short(),
            run.times.spread(),
            number(first.map(|t| t.median_us), 2),
            number(first.map(|t| t.spread()), 1),
            number(fastest.map(|t| t.median_us), 2),
            self.tflops(median_us),
            number(ratio(first), 3),
            number(ratio(fastest), 3),
            number(isolated, 3),
        );
        text.trim_end().to_owned()
    }
}

/// The heading of a suite: its name, and for operands with scales their type, what has a scale, and how products are summed.
pub fn title(suite: &str, ab: &str, scales: Option<ScaleOf>, fast_accum: bool) -> String {
    let Some(of) = scales else { return suite.to_owned() };
    let sums = if fast_accum { "fast accumulation" } else { "promoted sums" };
    format!("{suite}, {ab} with scales of {of}, {sums}")
}

/// The heading above the rows of [`text_of`].
pub fn heading() -> String {
    format!(
        "{:<20} {:<20} {:>9} {:>5} {:>9} {:>5} {:>9} {:>8} {:>6} {:>8} {:>6}  marks",
        "M x N x K",
        "instance",
        "us",
        "+-%",
        "cuBLASLt",
        "+-%",
        "fastest",
        "TFLOP/s",
        "ratio",
        "/fastest",
        "alone"
    )
}

/// A row of the table. If all instances were timed, the fastest ones follow below it.
pub fn text_of(line: &Line, floor: f64) -> String {
    let (name, marks) = (line.shape.to_string(), line.mark(floor));
    let mut text = line.row(&name, &line.run, line.isolated_ratio(), &marks);
    for run in line.by_time().into_iter().take(FASTEST) {
        let mut marks = run.faults();
        marks.extend(run.predicted_us.map(|us| format!("predicted {us:.2}")));
        text = format!("{text}\n{}", line.row("", run, None, &marks.join("; ")));
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use host::gemm::Schedule;

    pub fn line(suite: &str, m: u64, us: f64, theirs: Option<f64>) -> Line {
        let times =
            |median_us| Times { median_us, p10_us: 0.98 * median_us, p90_us: 1.03 * median_us };
        let run = |tile: [u32; 3], us| Run {
            instance: format!("gemm_bf16_bf16_{}x{}_2x1", tile[0], tile[1]),
            schedule: Some(Schedule { clusters: 66, streamed: 22 }),
            tile,
            predicted_us: Some(0.9 * us),
            times: times(us),
            error: 1.7e-3,
            right: true,
            same_bits: true,
        };
        Line {
            suite: suite.to_owned(),
            shape: Shape { m, n: 4096, k: 2048 },
            ab: "bf16".to_owned(),
            out: "bf16".to_owned(),
            scales: None,
            fast_accum: false,
            flops: 2.0 * m as f64 * 4096.0 * 2048.0,
            bytes: 2.0 * (m * 2048 + 4096 * 2048 + m * 4096) as f64,
            samples: 30,
            launches: 4,
            sets: 2,
            run: run([128, 256, 64], us),
            cublaslt: theirs.map(times),
            fastest: theirs.map(|us| Rival { candidate: 3, candidates: 8, times: times(0.9 * us) }),
            isolated: None,
            instances: Vec::new(),
        }
    }

    #[test]
    fn shapes_are_three_numbers() {
        assert_eq!("1x4096x2048".parse(), Ok(Shape { m: 1, n: 4096, k: 2048 }));
        for bad in ["", "4096", "1x2", "1x2x3x4", "1x-2x3", "ax2x3", "1X2X3", "1x2x3 "] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_says_what_is_wrong_with_it() {
        let mut l = line("llm", 2048, 100.0, Some(96.0));
        assert_eq!(l.ratio(), Some(0.96));
        assert!((l.tflops(100.0) - 343.597).abs() < 1e-3);
        let text = text_of(&l, 0.97);
        let times = "100.00   5.0     96.00   5.0     86.40    343.6";
        let start = format!("2048x4096x2048       128x256_2x1 66/22       {times}  0.960    0.864");
        assert_eq!(text, format!("{start}      -  below 0.97"));
        assert_eq!(text_of(&l, 0.95), format!("{start}      -"));
        l.isolated = Some(Isolated { us: 50.0, cublaslt_us: Some(60.0), fastest_us: Some(55.0) });
        assert_eq!(text_of(&l, 0.95), format!("{start}  1.100"));
        let columns = |text: &str| text.split_whitespace().count();
        // "M x N x K" are five words; the kernel and its schedule are two.
        assert_eq!(columns(&heading()) - 4 - 1, columns(&text_of(&l, 0.95)) - 1);
        l.run.right = false;
        l.run.error = f64::NAN;
        l.run.same_bits = false;
        let text = text_of(&l, 0.97);
        assert!(text.ends_with("WRONG: error NaN; bits differ between runs; below 0.97"), "{text}");
        l = line("llm", 2048, 100.0, None);
        let mut faster = l.run.clone();
        faster.instance = "gemm_bf16_bf16_64x64_1x1".to_owned();
        faster.times.median_us = 80.0;
        l.instances = vec![l.run.clone(), faster];
        let text = text_of(&l, 0.97);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert!(
            rows[0].ends_with("343.6      -        -      -  64x64_1x1 66/22 is 25.0% faster"),
            "{text}"
        );
        // Below it all of them, the fastest first, each with what was predicted.
        assert!(rows[1].trim_start().starts_with("64x64_1x1 66/22 "), "{text}");
        assert!(rows[1].ends_with("429.5      -        -      -  predicted 90.00"), "{text}");
        assert!(rows[2].trim_start().starts_with("128x256_2x1 66/22 "), "{text}");
        assert_eq!(rows[1].find("80.00"), rows[0].find("00.00"), "{text}");
    }

    #[test]
    fn another_schedule_of_the_same_kernel_is_another_contender() {
        let mut l = line("llm", 2048, 100.0, None);
        l.instances = (0..9)
            .map(|i| Run {
                schedule: Some(Schedule { clusters: 66, streamed: 22 - i }),
                times: Times { median_us: 100.0 - f64::from(i), ..l.run.times },
                ..l.run.clone()
            })
            .collect();
        l.instances[3].right = false;
        let text = text_of(&l, 0.97);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].ends_with("128x256_2x1 66/14 is 8.7% faster"), "{text}");
        assert_eq!(rows.len(), 1 + FASTEST, "{text}");
        assert!(rows.iter().all(|row| !row.contains("WRONG")), "{text}");
        l.instances[8].right = false;
        let text = text_of(&l, 0.97);
        assert!(text.contains("WRONG: error 1.7e-3; predicted 90.00"), "{text}");
        assert_eq!(l.run.name(), "gemm_bf16_bf16_128x256_2x1 66/22");
    }

    #[test]
    fn lines_come_back_from_json() {
        let mut l = line("llm", 2048, 100.0, Some(96.0));
        l.instances = vec![l.run.clone(), l.run.clone()];
        l.isolated = Some(Isolated { us: 50.0, cublaslt_us: Some(60.0), fastest_us: None });
        let json = serde_json::to_string(&l).unwrap();
        assert!(json.contains("\"m\":2048") && json.contains("\"median_us\":100.0"), "{json}");
        assert_eq!(serde_json::from_str::<Line>(&json).unwrap(), l);
        assert!(json.contains(r#""schedule":{"clusters":66,"streamed":22}"#), "{json}");
        assert!(json.contains(r#""fastest":{"candidate":3,"candidates":8,"median_us":86.4"#));
        // Operands without scales say nothing of them, as before there were any.
        assert!(!json.contains("scales") && !json.contains("fast_accum"), "{json}");
        let scaled = Line { ab: "e4m3".to_owned(), ..l.clone() };
        let scaled = scaled.with_scales(Some(ScaleOf::Block), false);
        let json_of = serde_json::to_string(&scaled).unwrap();
        assert!(json_of.contains(r#""scales":"block""#), "{json_of}");
        assert_eq!(serde_json::from_str::<Line>(&json_of).unwrap(), scaled);
        assert_eq!(scaled.title(), "llm, e4m3 with scales of blocks, promoted sums");
        assert_eq!(l.title(), "llm");
        // A record of an earlier version has no fastest kernel.
        let earlier = json.replace(r#""fastest""#, r#""unknown""#);
        assert_eq!(serde_json::from_str::<Line>(&earlier).unwrap().ratio_to_fastest(), None);
    }
}
