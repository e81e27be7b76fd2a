//! A simulated thread, its warp and its CTA: state, without behaviour.

use crate::bulk::BulkGroups;
use crate::config::{Grid, REGISTER_FILE, SMEM_BASE};
use crate::cp_async::CpAsync;
use crate::current::Yielder;
use crate::gather::{Log, WarpGather};
use crate::mbarrier::MBarrier;
use crate::memory::shared::Shared;
use crate::named::Named;
use crate::warpgroup::Warpgroup;
use std::collections::BTreeMap;
use std::panic::Location;

/// A line of kernel source.
pub(crate) type Loc = &'static Location<'static>;

/// What a sleeping thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Nothing,
    /// The phase in progress when it went to sleep must complete. `poll`: it may give up.
    MBarrier {
        bar: usize,
        phase: u32,
        poll: bool,
    },
    Named {
        id: u32,
    },
    Cluster,
    Warp {
        op: &'static str,
    },
    Warpgroup,
    BulkGroups {
        left: u32,
        read: bool,
    },
    CpAsync {
        left: u32,
    },
    Registers {
        want: u32,
    },
    /// Looks again later: a polling loop on memory, or nanosleep.
    Poll {
        global: bool,
    },
}

/// Why it was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// It was not: it runs for the first time here.
    No,
    /// What it waited for came, with a value.
    Go(u32),
    /// A poll gave up.
    TimedOut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Ready,
    Running,
    Asleep,
    Done,
}

pub(crate) struct Thread {
    /// CTA's rank.
    pub cta: usize,
    /// Linear index in the CTA.
    pub index: u32,
    /// Index of its warp in the cluster.
    pub warp: usize,
    pub status: Status,
    pub wait: Wait,
    pub wake: Wake,
    /// The last instruction's line, and its name.
    pub loc: Option<Loc>,
    pub op: &'static str,
    pub role: Option<&'static str>,
    /// Set by the thread's coroutine when it starts.
    pub yielder: *const Yielder,
    /// Aligned instructions that it has executed.
    pub aligned: u64,
    /// The cluster barrier's phase at which it arrived, until it waits.
    pub cluster_arrived: Option<u32>,
    pub bulk: BulkGroups,
    pub cp: CpAsync,
    /// wgmma groups that it committed.
    pub wgmma_commits: u64,
}

impl Thread {
    pub fn lane(&self) -> u32 {
        self.index % 32
    }
}

pub(crate) struct Warp {
    /// Lanes that exist.
    pub lanes: u32,
    /// Lanes that have returned.
    pub exited: u32,
    pub log: Log,
    pub gather: WarpGather,
    /// `bar.warp.sync` with part of the warp: mask, and who has come.
    pub partial: Vec<(u32, u32)>,
    pub partial_loc: Option<Loc>,
    /// Registers per thread.
    pub registers: u32,
}

/// An mbarrier in shared memory, and who uses it.
pub(crate) struct Bar {
    pub cta: usize,
    pub addr: u32,
    pub state: MBarrier,
    pub live: bool,
    pub init: Loc,
    /// Where it was invalidated, once it has been.
    pub inval: Option<Loc>,
    pub waiters: Vec<u32>,
    /// Who looked last, for reports.
    pub looked: Option<u32>,
    pub arrivals: Vec<Arrival>,
}

/// Arrivals of the same role at the same line, for reports.
pub(crate) struct Arrival {
    pub what: &'static str,
    pub loc: Loc,
    pub role: Option<&'static str>,
    pub times: u64,
    pub thread: u32,
    pub phase: u32,
}

pub(crate) struct Cta {
    pub block: [u32; 3],
    pub rank_coord: [u32; 3],
    pub smem: Shared,
    pub labels: BTreeMap<u32, (&'static str, u32)>,
    pub named: [Named; 16],
    pub warpgroups: Vec<Warpgroup>,
    /// Threads that have not returned.
    pub live: u32,
    /// Whether a thread has started.
    pub started: bool,
    /// Registers that setmaxnreg can hand out.
    pub free_registers: u32,
    /// Warps that wait for registers, in order of arrival.
    pub register_queue: Vec<usize>,
}

impl Cta {
    pub fn new(grid: &Grid<'_>, block: [u32; 3], rank_coord: [u32; 3], check: bool) -> Self {
        let threads = grid.threads();
        Self {
            block,
            rank_coord,
            smem: Shared::new(grid.smem_bytes, check),
            labels: BTreeMap::new(),
            named: std::array::from_fn(|_| Named::default()),
            warpgroups: (0..threads.div_ceil(128)).map(|_| Warpgroup::default()).collect(),
            live: threads,
            started: false,
            free_registers: 0,
            register_queue: Vec::new(),
        }
    }

    /// A barrier's or address's name for people.
    pub fn name_of(&self, addr: u32) -> String {
        match self.labels.get(&addr) {
            Some((name, stage)) => format!("mbarrier {name}[{stage}]"),
            None => format!("mbarrier at {addr:#x} (base + {})", addr.wrapping_sub(SMEM_BASE)),
        }
    }
}

/// Registers per thread at entry: an equal share of the file, as `.maxntid` and `.minnctapersm`
/// make ptxas choose.
pub(crate) fn registers_at_entry(threads: u32, ctas: u32) -> u32 {
    (REGISTER_FILE / (ctas * threads.next_multiple_of(32)) / 8 * 8).clamp(24, 248)
}
