//! The report of a benchmark: machine, settings, a line for each shape, and means.

use super::BenchConfig;
use super::line::{Line, Shape, heading, text_of};
use super::suites::floor;
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A benchmark report, as a file stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of warpipe.
    pub warpipe: String,
    /// Arguments of the command that measured.
    pub command: String,
    /// End of the measurement, in seconds since 1970.
    pub unix_time: u64,
    /// The GPU.
    pub machine: Machine,
    /// Version number of cuBLASLt; `None` if it did not take part.
    pub cublaslt: Option<usize>,
    /// Why cuBLASLt did not take part, if the options name it.
    pub cublaslt_absent: Option<String>,
    /// Settings.
    pub config: BenchConfig,
    /// The result of each shape.
    pub lines: Vec<Line>,
    /// Summaries of each suite and, if there are several, of all shapes.
    pub summaries: Vec<Summary>,
}

impl Report {
    /// Summarises each suite, in the order of the lines, and all shapes if there are several suites.
    pub fn summaries(lines: &[Line]) -> Vec<Summary> {
        let mut suites: Vec<&str> = Vec::new();
        for line in lines {
            if !suites.contains(&line.suite.as_str()) {
                suites.push(&line.suite);
            }
        }
        let of = |name: &str, take: &dyn Fn(&Line) -> bool| {
            let some = lines.iter().filter(|line| take(line));
            Summary::new(name, some.map(|line| (line, floor(&line.suite))))
        };
        let mut all: Vec<Summary> =
            suites.iter().filter_map(|suite| of(suite, &|line| line.suite == *suite)).collect();
        if suites.len() > 1 {
            all.extend(of("all", &|_| true));
        }
        all
    }
}

impl fmt::Display for Report {
    /// Writes the machine and each suite's lines, without the summaries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.machine)?;
        match (self.cublaslt, &self.cublaslt_absent) {
            (Some(version), _) => write!(f, "\ncuBLASLt {version}")?,
            (None, Some(why)) => write!(f, "\n{why}")?,
            (None, None) => {}
        }
        let mut suite = "";
        for line in &self.lines {
            if line.suite != suite {
                suite = &line.suite;
                write!(f, "\n\n{}\n{}", line.title(), heading())?;
            }
            write!(f, "\n{}", text_of(line, floor(suite)))?;
        }
        writeln!(f)
    }
}

/// Summary of the ratios to cuBLASLt over a suite or over all shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The suite's name, or "all".
    pub suite: String,
    /// Ratios to the kernel that cuBLASLt's heuristic proposes first.
    #[serde(flatten)]
    pub first: Ratios,
    /// Ratios to the fastest of its proposals; `None` in a report of an earlier version.
    #[serde(default)]
    pub fastest: Option<Ratios>,
}

/// Ratios of times: cuBLASLt's over warpipe's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Shapes with a ratio.
    pub shapes: usize,
    /// Geometric mean of the ratios.
    pub geomean: f64,
    /// Least ratio.
    pub min: f64,
    /// Shape with the least ratio.
    pub min_shape: Shape,
    /// Shapes below their suite's floor.
    pub below: usize,
}

impl Summary {
    /// Summarises `lines`, each with its floor. Returns `None` if no line has a ratio.
    pub fn new<'a>(suite: &str, lines: impl IntoIterator<Item = (&'a Line, f64)>) -> Option<Self> {
        let lines: Vec<(&Line, f64)> = lines.into_iter().collect();
        let first = Ratios::new(&lines, Line::ratio)?;
        let fastest = Ratios::new(&lines, Line::ratio_to_fastest);
        Some(Self { suite: suite.to_owned(), first, fastest })
    }
}

impl Ratios {
    fn new(lines: &[(&Line, f64)], of: impl Fn(&Line) -> Option<f64>) -> Option<Self> {
        let ratios: Vec<(f64, f64, Shape)> = lines
            .iter()
            .filter_map(|(line, floor)| Some((of(line)?, *floor, line.shape)))
            .collect();
        let &(min, _, min_shape) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mean = ratios.iter().map(|(ratio, ..)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        Some(Self {
            shapes: ratios.len(),
            geomean: mean.exp(),
            min,
            min_shape,
            below: ratios.iter().filter(|(ratio, floor, _)| ratio < floor).count(),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, first, fastest } = self;
        write!(f, "{suite:<8} {:>3} shapes", first.shapes)?;
        if let Some(fastest) = fastest {
            write!(f, "; cuBLASLt's fastest kernels: {fastest}\n{:21}its first ones: ", "")?;
        } else {
            f.write_str(": ")?;
        }
        write!(f, "{first}")
    }
}

impl fmt::Display for Ratios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { geomean, min, min_shape, below, .. } = self;
        write!(
            f,
            "geometric mean {geomean:.3}, least {min:.3} ({min_shape}), {below} below the floor"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::line;
    use super::*;

    #[test]
    fn means_are_geometric_and_floors_the_suite_s() {
        let lines = [
            line("llm", 1, 10.0, Some(20.0)),
            line("decode", 2, 10.0, Some(5.0)),
            line("x", 3, 1.0, None),
        ];
        let floors = [0.97, 0.4, 0.97];
        let s = Summary::new("all", lines.iter().zip(floors)).unwrap();
        let Ratios { shapes, geomean, min, min_shape, below } = s.first.clone();
        assert!((geomean - 1.0).abs() < 1e-12, "{s:?}");
        assert_eq!((shapes, min, min_shape.m, below), (2, 0.5, 2, 0));
        assert_eq!(Summary::new("all", lines.iter().zip([0.97; 3])).unwrap().first.below, 1);
        let fastest = s.fastest.clone().unwrap();
        assert!((fastest.geomean - 0.9).abs() < 1e-12 && (fastest.min - 0.45).abs() < 1e-12);
        assert!(Summary::new("x", lines[2..].iter().map(|l| (l, 0.97))).is_none());
        let text = s.to_string();
        assert!(
            text.contains("first ones: geometric mean 1.000, least 0.500 (2x4096x2048), 0 below")
        );
        let headline = "2 shapes; cuBLASLt's fastest kernels: geometric mean 0.900, least 0.450";
        assert!(text.lines().next().unwrap().contains(headline), "{text}");
        let earlier = Summary { fastest: None, ..s };
        assert!(earlier.to_string().contains("2 shapes: geometric mean 1.000"), "{earlier}");
    }

    #[test]
    fn every_suite_has_a_summary_and_then_all() {
        let lines = [
            line("llm", 1, 10.0, Some(9.6)),
            // A floor of its own.
            line("decode", 2, 10.0, Some(9.6)),
            line("llm", 3, 10.0, Some(9.8)),
        ];
        let all = Report::summaries(&lines);
        let said: Vec<_> =
            all.iter().map(|s| (s.suite.as_str(), s.first.shapes, s.first.below)).collect();
        assert_eq!(said, [("llm", 2, 1), ("decode", 1, 0), ("all", 3, 1)]);
        assert_eq!(Report::summaries(&lines[..1]).len(), 1);
        assert!(Report::summaries(&[line("llm", 1, 1.0, None)]).is_empty());
    }
}
