//! What [`super::certify`] gives: a certificate, or why there is none.

use crate::explore::Finding;
use std::fmt;

/// A statement about a kernel for any number of steps, with its numbers. `Display` writes it out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Certificate {
    /// The kernel's name; several, if the run launches several.
    pub kernel: String,
    /// Clusters of the run, over all its launches.
    pub clusters: usize,
    /// Threads of a cluster.
    pub threads: u32,
    /// Steps after which the protocol is where it was.
    pub period: u32,
    /// The smallest number of steps from which on a longer run is a shorter one with more periods.
    pub first: u32,
    /// Every number of steps up to this was run, with all its schedules.
    pub bound: u32,
    /// Runs of the model for that.
    pub runs: u64,
    /// Different protocol states that these runs went through, as far as a phase completed between them.
    pub states: usize,
    /// Protocol events of a period.
    pub events: usize,
    /// A thread ends period i + `lead` only after all others have ended period i.
    pub lead: u32,
    /// Names of the mbarriers, and stages of each.
    pub barriers: Vec<(String, u32)>,
    /// An instruction by which clusters share a word of global memory, or the launches of their grid.
    pub shares: Option<String>,
}

/// What no run can show: the certificate holds under these assumptions.
pub const ASSUMPTIONS: [&str; 5] = [
    "the number of steps decides only how often loops run: no branch compares with a number of steps \
     beyond the bound",
    "data decide no wait, arrival or address in shared memory (compared: two sets of data)",
    "clusters and launches do not wait for each other, or only as a launch waits for the one before it",
    "each warp's setmaxnreg comes outside of the steps, in the order of the model",
    "addresses and results in global memory are checked only up to the bound",
];

impl Certificate {
    /// The assumptions.
    pub fn assumptions() -> &'static [&'static str] {
        &ASSUMPTIONS
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { period, first, bound, .. } = self;
        let line =
            |f: &mut fmt::Formatter<'_>, name: &str, text: &str| writeln!(f, "  {name:<12}{text}");
        writeln!(f, "certificate of {}, for any number of steps from 1", self.kernel)?;
        line(f, "statement", "all schedules are one trace, up to the order of independent steps;")?;
        line(f, "", "there is no deadlock, no broken rule of barriers, copies or shared memory")?;
        let clusters = if self.clusters == 1 { "cluster" } else { "clusters" };
        line(
            f,
            "runs",
            &format!(
                "1 to {bound} steps, {} {clusters} of {} threads: one trace each, no finding ({} runs)",
                self.clusters, self.threads, self.runs
            ),
        )?;
        line(
            f,
            "period",
            &format!(
                "{period} steps, {} events, from {first} steps on: more steps are more of the same",
                self.events
            ),
        )?;
        line(
            f,
            "states",
            &format!("{} protocol states; each period ends in the one it began in", self.states),
        )?;
        line(
            f,
            "lead",
            &format!("a thread ends period i + {} only after all have ended period i", self.lead),
        )?;
        let stages = |(name, stages): &(String, u32)| match stages {
            1 => name.clone(),
            n => format!("{name} x {n}"),
        };
        let barriers: Vec<String> = self.barriers.iter().map(stages).collect();
        if !barriers.is_empty() {
            line(f, "barriers", &barriers.join(", "))?;
        }
        for (i, text) in ASSUMPTIONS.iter().enumerate() {
            line(f, if i == 0 { "assumed" } else { "" }, text)?;
        }
        Ok(())
    }
}

/// Why a kernel gets no certificate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal<E> {
    /// A schedule of a run failed.
    Finding {
        /// Steps of the run.
        steps: u32,
        /// What it failed with.
        finding: Finding<E>,
    },
    /// The schedules of a run are more than one trace, or more than the limit.
    Traces {
        /// Steps of the run.
        steps: u32,
        /// Schedules that can differ.
        schedules: u64,
        /// Whether these are all.
        complete: bool,
    },
    /// No period, up to a number of steps.
    NoPeriod {
        /// The number of steps.
        bound: u32,
    },
    /// A thread can be too far ahead of another.
    Lead {
        /// The kernel.
        kernel: String,
        /// The thread that is ahead, by its index in the cluster.
        ahead: u32,
        /// The thread, or the copy behind the threads, that it does not wait for.
        behind: u32,
        /// Steps of the longest run.
        bound: u32,
    },
    /// With other data, the threads synchronise in another way.
    Data {
        /// Steps of the run.
        steps: u32,
    },
    /// The number of clusters or of launches depends on the number of steps.
    Grid {
        /// Steps of the run.
        steps: u32,
    },
    /// Clusters can wait for each other, or take each other's work, and their orders are not explored.
    Clusters {
        /// The instruction.
        name: &'static str,
        /// Its line.
        line: String,
    },
    /// `setmaxnreg` in every period, and the order of its requests is not explored.
    Registers {
        /// The kernel.
        kernel: String,
    },
    /// A run launched nothing.
    Nothing {
        /// Steps of the run.
        steps: u32,
    },
}

impl<E> Refusal<E> {
    /// The finding, if the kernel is wrong; otherwise it only does not fit.
    pub fn finding(&self) -> Option<&Finding<E>> {
        match self {
            Self::Finding { finding, .. } => Some(finding),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for Refusal<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no certificate: ")?;
        match self {
            Self::Finding { steps, finding } => {
                write!(f, "a run of {steps} steps fails\n{finding}")
            }
            Self::Traces { steps, schedules, complete: true } => write!(
                f,
                "{steps} steps have {schedules} schedules that can differ: what a poll or a race sees \
                 depends on the schedule"
            ),
            Self::Traces { steps, schedules, .. } => {
                write!(f, "{steps} steps have more schedules than the limit; {schedules} were run")
            }
            Self::NoPeriod { bound } => write!(
                f,
                "up to {bound} steps, longer runs are not shorter ones with a period more: data or the \
                 number of steps decide what threads do, one runs ahead without limit, or the period is \
                 longer"
            ),
            Self::Lead { kernel, ahead, behind, bound } => write!(
                f,
                "thread {ahead} of {kernel} can be any number of steps ahead of number {behind}, a thread or a copy: in \
                 {bound} steps it never waits for it"
            ),
            Self::Data { steps } => write!(
                f,
                "in {steps} steps, other data change what the threads wait for, or where they write"
            ),
            Self::Grid { steps } => {
                write!(f, "with {steps} steps there are more or fewer clusters or launches")
            }
            Self::Clusters { name, line } => write!(
                f,
                "several clusters, and {name} at {line}: the orders of clusters are not explored"
            ),
            Self::Registers { kernel } => write!(
                f,
                "{kernel} changes its registers in every period: the orders of setmaxnreg are not explored"
            ),
            Self::Nothing { steps } => write!(f, "a run of {steps} steps launched nothing"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for Refusal<E> {}
