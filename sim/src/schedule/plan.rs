//! Who decides what happens next in a run, and how that is written down.

use crate::protocol::record::Recorder;
use crate::walk::tree::{Line, Tree, Walk};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Who decides what happens next in a run. Written with its seed, it is what
/// [`crate::Config::replay`] reads.
#[derive(Clone, Debug, Default)]
pub struct Schedule(pub(crate) Kind);

/// The kinds of schedules.
#[derive(Clone, Debug, Default)]
pub(crate) enum Kind {
    /// Every choice is drawn.
    #[default]
    Random,
    /// Priorities are drawn, and `depth - 1` moments among `steps` at which one falls.
    Pct { depth: u32, steps: u64 },
    /// Choices that were written down.
    Choices { script: Arc<BTreeMap<Place, Path>>, launches: Launches },
    /// The next path of each cluster's tree.
    Walk(Home),
    /// Nothing is drawn: whoever is earliest goes.
    Timed,
}

/// A path: choices that are not the first possible, and the lines that are choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    choices: BTreeMap<u32, u32>,
    lines: BTreeSet<Line>,
}

/// The launch in a run, and the cluster in its grid.
pub(crate) type Place = (u32, u32);

/// Counts the launches of a run; a clone starts anew, as it is for another run.
#[derive(Debug, Default)]
pub(crate) struct Launches(AtomicU32);

impl Clone for Launches {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Where the trees of an exploration are between runs.
#[derive(Clone)]
pub(crate) struct Home {
    trees: Arc<Mutex<Trees>>,
    /// Who gets the protocol of each run, if somebody does.
    recorder: Option<Arc<Recorder>>,
}

struct Trees {
    walk: Walk,
    by_place: BTreeMap<Place, Tree>,
    launches: u32,
}

/// What follows a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advance {
    /// More is a choice than was known: the walk begins anew.
    Anew,
    /// Another path; `counts`: the last one repeated none before it.
    Next { counts: bool },
    /// That was the last path.
    Finished { counts: bool },
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Home")
    }
}

impl Home {
    pub fn new(walk: Walk, recorder: Option<Arc<Recorder>>) -> Self {
        let trees = Trees { walk, by_place: BTreeMap::new(), launches: 0 };
        Self { trees: Arc::new(Mutex::new(trees)), recorder }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Trees) -> R) -> R {
        f(&mut self.trees.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn put(&self, place: Place, tree: Tree) {
        self.with(|t| t.by_place.insert(place, tree));
    }

    /// After a run: goes on to the next.
    pub fn advance(&self) -> Advance {
        self.with(|t| {
            t.launches = 0;
            let anew = t.by_place.values().any(Tree::restarts);
            // Clusters are walked side by side; one that is through repeats its first path.
            let fresh = |tree: &Tree| !tree.finished() && !tree.redundant();
            let counts = t.by_place.is_empty() || t.by_place.values().any(fresh);
            let more = t.by_place.values_mut().fold(false, |more, tree| tree.advance() | more);
            match (anew, more) {
                (true, _) => Advance::Anew,
                (_, true) => Advance::Next { counts },
                (_, false) => Advance::Finished { counts },
            }
        })
    }

    /// The paths that have just been run.
    pub fn written(&self) -> String {
        self.with(|t| write(t.by_place.iter().map(|(place, tree)| (*place, tree))))
    }
}

impl Schedule {
    /// Every choice is drawn from [`crate::Config::seed`].
    pub fn random() -> Self {
        Self(Kind::Random)
    }

    /// Priorities of threads and copies are drawn; the first that can go goes; at `depth - 1` of
    /// `steps` instructions the one that is running falls behind all others (PCT: Burckhardt,
    /// Kothari, Musuvathi, Nagarakatte, ASPLOS 2010).
    pub fn pct(depth: u32, steps: u64) -> Self {
        Self(Kind::Pct { depth: depth.max(1), steps: steps.max(1) })
    }

    /// Nothing is drawn: of threads and copies the one that is earliest in model time
    /// ([`mod@crate::trace`]) goes, so that a run happens nearly in the order of its times.
    pub fn timed() -> Self {
        Self(Kind::Timed)
    }

    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.0, Kind::Timed)
    }

    /// Whether it draws from the seed.
    pub(crate) fn draws(&self) -> bool {
        matches!(self.0, Kind::Random | Kind::Pct { .. })
    }

    pub(crate) fn walk(home: Home) -> Self {
        Self(Kind::Walk(home))
    }

    /// A launch begins: gives its number in the run.
    pub(crate) fn launch(&self) -> u32 {
        match &self.0 {
            Kind::Choices { launches, .. } => launches.0.fetch_add(1, Ordering::Relaxed),
            Kind::Walk(home) => home.with(|t| {
                t.launches += 1;
                t.launches - 1
            }),
            _ => 0,
        }
    }

    /// The tree of a cluster, and where it goes back to.
    pub(crate) fn tree(&self, place: Place) -> Option<(Tree, Option<Home>)> {
        match &self.0 {
            Kind::Choices { script, .. } => {
                let path = script.get(&place).cloned().unwrap_or_default();
                Some((Tree::replay(path.choices, path.lines), None))
            }
            Kind::Walk(home) => {
                let take = |t: &mut Trees| t.by_place.remove(&place).unwrap_or(Tree::new(t.walk));
                Some((home.with(take), Some(home.clone())))
            }
            _ => None,
        }
    }

    /// Who gets the protocol of each run.
    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        match &self.0 {
            Kind::Walk(home) => home.recorder.clone(),
            _ => None,
        }
    }

    /// In the form that [`crate::Config::replay`] reads.
    pub(crate) fn with_seed(&self, seed: u64) -> String {
        match &self.0 {
            Kind::Random => format!("seed:{seed}"),
            Kind::Pct { depth, steps } => format!("pct:{seed}:{depth}:{steps}"),
            Kind::Choices { script, .. } => {
                let paths = script.iter().map(|(place, path)| (*place, path));
                write_paths(paths.map(|(place, path)| (place, &path.choices, &path.lines)))
            }
            Kind::Walk(home) => home.written(),
            Kind::Timed => "timed:".to_owned(),
        }
    }
}

/// Paths of trees as text.
pub(crate) fn write<'a>(trees: impl IntoIterator<Item = (Place, &'a Tree)>) -> String {
    write_paths(trees.into_iter().map(|(place, tree)| (place, tree.path(), tree.lines())))
}

/// `choices:LAUNCH.CLUSTER:DEPTH=PLACE,...@FILE:LINE:COLUMN|...;...`
fn write_paths<'a>(
    paths: impl Iterator<Item = (Place, &'a BTreeMap<u32, u32>, &'a BTreeSet<Line>)>,
) -> String {
    let section =
        |((launch, cluster), choices, lines): (Place, &BTreeMap<_, _>, &BTreeSet<Line>)| {
            if choices.is_empty() && lines.is_empty() {
                return None;
            }
            let choices: Vec<_> =
                choices.iter().map(|(d, i): (&u32, &u32)| format!("{d}={i}")).collect();
            let lines: Vec<_> = lines.iter().map(|(f, l, c)| format!("{f}:{l}:{c}")).collect();
            let at = if lines.is_empty() { "" } else { "@" };
            Some(format!("{launch}.{cluster}:{}{at}{}", choices.join(","), lines.join("|")))
        };
    let sections: Vec<String> = paths.filter_map(section).collect();
    format!("choices:{}", sections.join(";"))
}

/// A schedule that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "schedule {0:?}: seed:SEED, pct:SEED:DEPTH:STEPS, timed: or choices:..., as a report prints it, are possible"
)]
pub struct ScheduleError(String);

/// A schedule as it was written, with its seed.
pub(crate) struct Written {
    pub seed: u64,
    pub schedule: Schedule,
}

impl FromStr for Written {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        parse(text).ok_or_else(|| ScheduleError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Written> {
    let (kind, rest) = text.split_once(':')?;
    let (seed, schedule) = match kind {
        "seed" => (rest.parse().ok()?, Schedule::random()),
        "pct" => {
            let mut parts = rest.split(':');
            let mut number = || parts.next()?.parse::<u64>().ok();
            let (seed, depth, steps) = (number()?, number()?, number()?);
            if parts.next().is_some() || depth == 0 || steps == 0 {
                return None;
            }
            (seed, Schedule::pct(depth.try_into().ok()?, steps))
        }
        "timed" if rest.is_empty() => (0, Schedule::timed()),
        "choices" => {
            let sections = rest.split(';').filter(|s| !s.is_empty());
            let script = sections.map(path).collect::<Option<BTreeMap<_, _>>>()?;
            let (script, launches) = (Arc::new(script), Launches::default());
            (0, Schedule(Kind::Choices { script, launches }))
        }
        _ => return None,
    };
    Some(Written { seed, schedule })
}

fn path(section: &str) -> Option<(Place, Path)> {
    let (place, rest) = section.split_once(':')?;
    let (launch, cluster) = place.split_once('.')?;
    let (choices, lines) = rest.split_once('@').unwrap_or((rest, ""));
    let choice = |c: &str| {
        let (depth, place) = c.split_once('=')?;
        Some((depth.parse().ok()?, place.parse().ok()?))
    };
    let line = |l: &str| {
        let mut parts = l.rsplitn(3, ':');
        let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
        Some((file.to_owned(), line.parse().ok()?, column.parse().ok()?))
    };
    let choices = choices.split(',').filter(|c| !c.is_empty()).map(choice);
    let lines = lines.split('|').filter(|l| !l.is_empty()).map(line);
    let path =
        Path { choices: choices.collect::<Option<_>>()?, lines: lines.collect::<Option<_>>()? };
    Some(((launch.parse().ok()?, cluster.parse().ok()?), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "seed:7",
            "pct:3:4:1000",
            "timed:",
            "choices:",
            "choices:0.1:3=1,12=2@/a b/c.rs:4:9|d.rs:1:2;1.0:0=1",
        ] {
            let read: Written = text.parse().unwrap();
            assert_eq!(read.schedule.with_seed(read.seed), text);
        }
        for bad in [
            "",
            "7",
            "seed:",
            "seed:x",
            "pct:1:0:5",
            "pct:1:2",
            "timed:1",
            "choices:1",
            "choices:0.0:4",
        ] {
            let e = bad.parse::<Written>().err().unwrap_or_else(|| panic!("{bad} was read"));
            assert!(e.to_string().contains("pct:SEED"), "{e}");
        }
    }
}
