//! The timeline of a run: lanes with slices, the uses of ring slots, and arrows from causes to waits.

use serde_json::{Map, Value};

/// The timeline of a cluster.
#[derive(Debug)]
pub struct Timeline {
    /// Kernel, shape and device.
    pub title: String,
    /// Unit of time: `cycles` of the model, or `ns`.
    pub unit: &'static str,
    /// Time of the last event's end.
    pub end: u64,
    pub ctas: Vec<CtaLines>,
    pub arrows: Vec<Arrow>,
}

/// The timeline of a CTA.
#[derive(Debug)]
pub struct CtaLines {
    /// Rank in the cluster.
    pub rank: u32,
    pub lanes: Vec<Lane>,
    pub rings: Vec<Ring>,
}

/// Position of a lane, in the order of the data flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Single warps, such as those that load.
    Warps,
    /// Copies to shared memory. (The rings are drawn below.)
    Loads,
    /// Warp groups.
    Groups,
    /// The tensor core.
    Tensor,
    /// Copies from shared memory.
    Stores,
}

/// The activity of a warp, a warp group or an engine.
#[derive(Debug)]
pub struct Lane {
    pub name: String,
    pub place: Place,
    /// Rows for slices that overlap; 1 for a thread, which does one thing at a time.
    pub rows: usize,
    /// Slices, ascending by row and time.
    pub slices: Vec<Slice>,
}

/// Kind of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Wait,
    /// A wait with wgmmas in flight.
    WaitMma,
    /// Issue of copies.
    Issue,
    /// Other work with wgmmas in flight.
    Mma,
    /// Special functions.
    Special,
    /// Other work.
    Work,
    /// A load in flight.
    Load,
    /// The tensor core computes; `slot` is the warp group.
    Tensor,
    /// A store reads shared memory.
    StoreRead,
    /// A store writes global memory.
    StoreWrite,
}

/// A time span in a lane.
#[derive(Debug)]
pub struct Slice {
    pub row: usize,
    pub from: u64,
    pub until: u64,
    pub kind: Kind,
    /// The slot, which decides the colour.
    pub slot: Option<u32>,
    pub name: String,
    /// Details.
    pub args: Map<String, Value>,
}

/// A ring of slots.
#[derive(Debug)]
pub struct Ring {
    pub name: String,
    pub stages: u32,
    /// Uses of the slots, in the order of the steps.
    pub uses: Vec<Use>,
}

/// One use of a slot. Times that the run did not reach are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// Number of the use, from 0: slot `step % stages`, phase `step / stages`.
    pub step: u32,
    pub slot: u32,
    /// The producer acquired the slot.
    pub acquired: u64,
    /// The slot was full.
    pub full: Option<u64>,
    /// The first consumer's wait ended.
    pub read: Option<u64>,
    /// The last consumer released the slot.
    pub released: Option<u64>,
}

/// A point in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Indices in [`Timeline::ctas`] and [`CtaLines::lanes`].
    pub cta: usize,
    pub lane: usize,
    pub row: usize,
    pub at: u64,
}

/// An arrow from a cause to the wait that it ended.
#[derive(Debug)]
pub struct Arrow {
    /// The cause; `None` if it is in a CTA that is not drawn.
    pub from: Option<Spot>,
    /// The end of the wait.
    pub to: Spot,
    /// Whether the arrow goes from consumer to producer: the wait was for an empty slot.
    pub back: bool,
    pub text: String,
}

impl Lane {
    /// Makes a lane whose slices may overlap. Each slice goes to the first free row.
    pub fn packed(name: String, place: Place, mut slices: Vec<Slice>) -> Self {
        slices.sort_by_key(|s| (s.from, s.until));
        let mut rows: Vec<u64> = Vec::new();
        for slice in &mut slices {
            let free = rows.iter().position(|&until| until <= slice.from);
            slice.row = free.unwrap_or(rows.len());
            if free.is_none() {
                rows.push(0);
            }
            rows[slice.row] = slice.until;
        }
        Self { name, place, rows: rows.len().max(1), slices }
    }

    /// Total time of the slices of a kind.
    pub fn time(&self, kind: Kind) -> u64 {
        self.slices.iter().filter(|s| s.kind == kind).map(|s| s.until - s.from).sum()
    }
}

impl Ring {
    /// Over time, the number of slots that the producer holds or has filled ahead of the consumer, and the
    /// number of full slots. Each entry (time, ahead, full) is valid until the next one.
    pub fn ahead(&self) -> Vec<(u64, u32, u32)> {
        let mut changes: Vec<(u64, i32, i32)> = Vec::new();
        for u in &self.uses {
            changes.push((u.acquired, 1, 0));
            if let Some(full) = u.full {
                changes.push((full, 0, 1));
            }
            if let (Some(_), Some(read)) = (u.full, u.read) {
                changes.push((read, -1, -1));
            }
        }
        // At equal times, increments come first: a slot is full before it is read.
        changes.sort_by_key(|&(at, a, b)| (at, -a, -b));
        let mut levels: Vec<(u64, u32, u32)> = Vec::new();
        let (mut held, mut full) = (0, 0);
        for (at, a, b) in changes {
            (held, full) = (held + a, full + b);
            levels.push((at, held as u32, full as u32));
        }
        levels
    }

    /// The maxima of [`Ring::ahead`].
    pub fn most(&self) -> (u32, u32) {
        let levels = self.ahead();
        let most = |f: fn(&(u64, u32, u32)) -> u32| levels.iter().map(f).max().unwrap_or(0);
        (most(|l| l.1), most(|l| l.2))
    }
}

impl Timeline {
    /// A summary of a few lines.
    pub fn summary(&self) -> String {
        let mut lines = vec![self.title.clone()];
        for cta in &self.ctas {
            lines.push(format!("CTA {}, {} {}", cta.rank, self.end, self.unit));
            lines.extend(cta.rings.iter().map(|ring| {
                let (ahead, full) = ring.most();
                let (name, steps, stages) = (&ring.name, ring.uses.len(), ring.stages);
                format!(
                    "  {name}: {steps} steps through {stages} slots; the producer was up to {ahead} \
                     ahead, and up to {full} were full"
                )
            }));
            lines.extend(cta.lanes.iter().map(|lane| format!("  {}", self.about(lane))));
        }
        lines.join("\n")
    }

    fn about(&self, lane: &Lane) -> String {
        let share = |kinds: &[Kind]| {
            let time: u64 = kinds.iter().map(|kind| lane.time(*kind)).sum();
            format!("{:.0} %", 100.0 * time as f64 / self.end.max(1) as f64)
        };
        let (name, count) = (&lane.name, lane.slices.len());
        match lane.place {
            Place::Warps => {
                let [waits, other] = [&[Kind::Wait][..], &[Kind::Work, Kind::Issue]].map(share);
                format!("{name}: waits {waits}, works {other}")
            }
            Place::Groups => {
                let kinds = [&[Kind::Wait][..], &[Kind::Mma, Kind::WaitMma], &[Kind::Work]];
                let [waits, mma, other] = kinds.map(share);
                let special = match lane.time(Kind::Special) {
                    0 => String::new(),
                    _ => format!(", computes special functions {}", share(&[Kind::Special])),
                };
                format!("{name}: waits {waits}, has wgmmas in flight {mma}{special}, works {other}")
            }
            Place::Tensor => format!("{name}: busy {}", share(&[Kind::Tensor])),
            Place::Loads => format!("{name}: {count} copies"),
            Place::Stores => format!("{name}: {} copies", count / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(step: u32, times: [u64; 4]) -> Use {
        let [acquired, full, read, released] = times;
        let (full, read, released) = (Some(full), Some(read), Some(released));
        Use { step, slot: step % 2, acquired, full, read, released }
    }

    #[test]
    fn the_lead_of_a_ring() {
        let uses =
            vec![used(0, [0, 50, 60, 70]), used(1, [5, 55, 80, 90]), used(2, [70, 80, 90, 95])];
        let ring = Ring { name: "r".into(), stages: 2, uses };
        let want = [(0, 1, 0), (5, 2, 0), (50, 2, 1), (55, 2, 2), (60, 1, 1), (70, 2, 1)];
        let levels = ring.ahead();
        assert_eq!(levels[..6], want);
        assert_eq!(levels[6..], [(80, 2, 2), (80, 1, 1), (90, 0, 0)]);
        assert_eq!(ring.most(), (2, 2));
    }

    #[test]
    fn what_overlaps_gets_rows() {
        let slice = |from, until| Slice {
            row: 9,
            from,
            until,
            kind: Kind::Load,
            slot: None,
            name: String::new(),
            args: Map::new(),
        };
        let slices = vec![slice(0, 10), slice(5, 15), slice(10, 20), slice(12, 13)];
        let lane = Lane::packed("TMA".into(), Place::Loads, slices);
        let rows: Vec<usize> = lane.slices.iter().map(|s| s.row).collect();
        assert_eq!((rows, lane.rows), (vec![0, 1, 0, 2], 3));
        assert_eq!(lane.time(Kind::Load), 31);
    }
}
