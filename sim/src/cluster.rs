//! A cluster of CTAs while it runs: its threads, barriers and copies, and the scheduler's loop.

use crate::Report;
use crate::bulk::Copy;
use crate::cluster_barrier::ClusterBarrier;
use crate::config::{Config, Grid, Stats};
use crate::explore::guide::Guide;
use crate::explore::schedule::{Place, Schedule};
use crate::fault::Fault;
use crate::gather::{Log, WarpGather};
use crate::memory::GlobalMemory;
use crate::race::Race;
use crate::sched::{PATIENCE, Sched};
use crate::steps::Steps;
use crate::thread::{Bar, Cta, Loc, Status, Thread, Wait, Wake, Warp, registers_at_entry};
use crate::trace::Tracing;
use crate::trace::timing::Timing;
use crate::{Rule, diagnose};
use std::ptr;
use std::sync::Arc;

/// Everything about a running cluster but its stacks.
pub(crate) struct Cluster {
    pub memory: GlobalMemory,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shape: [u32; 3],
    /// Coordinates of this cluster among the clusters, and its linear index.
    pub coord: [u32; 3],
    pub index: u32,
    pub smem_bytes: u32,
    pub name: String,
    pub seed: u64,
    pub sms: u32,
    max_steps: u64,
    pub ctas: Vec<Cta>,
    pub threads: Vec<Thread>,
    pub warps: Vec<Warp>,
    pub bars: Vec<Bar>,
    /// The barrier of all its threads.
    pub all: ClusterBarrier,
    /// Asynchronous copies that have not landed, in no order.
    pub copies: Vec<Copy>,
    pub sched: Sched,
    /// Who decides in its place, in a guided run.
    pub guide: Option<Box<Guide>>,
    pub schedule: Schedule,
    pub current: u32,
    /// Instructions that are left of its turn among the clusters; whether it ended in the middle of
    /// the current thread.
    turn: u64,
    cut: bool,
    /// Writes to global memory when its turn began.
    writes: u64,
    pub live: u32,
    pub report: Option<Box<Report>>,
    /// The run has failed, and its threads are unwinding.
    pub teardown: bool,
    /// Instructions executed by threads that were to unwind.
    pub refusals: u32,
    pub stats: Stats,
    pub steps: Steps,
    /// What happened before what, if races are looked for.
    pub race: Option<Box<Race>>,
    /// The clocks, if somebody wants to know the time.
    pub time: Option<Box<Timing>>,
    /// Who gets the trace of this cluster, if it is the one.
    pub tracing: Option<Arc<Tracing>>,
}

/// What the scheduler's loop does next.
pub(crate) enum Next {
    /// Resume this thread.
    Run(u32),
    /// A copy landed; look again.
    Again,
    /// All threads have returned.
    Finished,
    /// All that live poll global memory, which only another cluster can change.
    Polling,
    /// The report is written.
    Failed,
}

impl Cluster {
    /// The cluster at `place`: the launch in its run, and the index in the grid.
    pub fn new(config: &Config, memory: &GlobalMemory, grid: &Grid<'_>, place: Place) -> Self {
        let index = place.1;
        let per = grid.clusters();
        let coord = [index % per[0], index / per[0] % per[1], index / (per[0] * per[1])];
        let size = grid.cluster_size();
        let block_threads = grid.threads();
        let registers = registers_at_entry(block_threads, grid.min_ctas);
        let warps_per_cta = block_threads.div_ceil(32);
        let mut ctas = Vec::new();
        let mut warps = Vec::new();
        let mut threads = Vec::new();
        for rank in 0..size {
            let c = grid.cluster;
            let at = [rank % c[0], rank / c[0] % c[1], rank / (c[0] * c[1])];
            let block = std::array::from_fn(|i| coord[i] * c[i] + at[i]);
            ctas.push(Cta::new(grid, block, at, config.check_uninitialised));
            for w in 0..warps_per_cta {
                let lanes = (block_threads - w * 32).min(32);
                warps.push(Warp {
                    lanes: u32::MAX >> (32 - lanes),
                    exited: 0,
                    log: Log::default(),
                    gather: WarpGather::default(),
                    partial: Vec::new(),
                    partial_loc: None,
                    registers,
                });
            }
            threads.extend((0..block_threads).map(|i| Thread {
                cta: rank as usize,
                index: i,
                warp: (rank * warps_per_cta + i / 32) as usize,
                status: Status::Ready,
                wait: Wait::Nothing,
                wake: Wake::No,
                loc: None,
                op: "start",
                role: None,
                yielder: ptr::null(),
                aligned: 0,
                cluster_arrived: None,
                bulk: crate::bulk::BulkGroups::default(),
                cp: crate::cp_async::CpAsync::default(),
                wgmma_commits: 0,
            }));
        }
        let race = memory.shadow.as_ref().map(|shadow| {
            let n = threads.len() as u32;
            Box::new(Race::new(n, size, grid.smem_bytes, Arc::clone(shadow)))
        });
        let count = threads.len() as u32;
        let mut sched = Sched::new(config.seed, u64::from(index), count, &config.schedule);
        sched.ready.extend(0..count);
        let guide = config.schedule.tree(place).map(|(tree, home)| {
            let home_of: Vec<usize> = threads.iter().map(|t: &Thread| t.cta).collect();
            Box::new(Guide::new(tree, &home_of, size as usize, home, place))
        });
        Self {
            memory: memory.clone(),
            grid: grid.grid,
            block: grid.block,
            shape: grid.cluster,
            coord,
            index,
            smem_bytes: grid.smem_bytes,
            name: grid.name.to_owned(),
            seed: config.seed,
            sms: config.sms,
            max_steps: config.max_steps,
            live: threads.len() as u32,
            all: ClusterBarrier::default(),
            ctas,
            threads,
            warps,
            bars: Vec::new(),
            copies: Vec::new(),
            sched,
            guide,
            schedule: config.schedule.clone(),
            current: 0,
            turn: u64::MAX,
            cut: false,
            writes: 0,
            report: None,
            teardown: false,
            refusals: 0,
            stats: Stats { clusters: 1, ..Stats::default() },
            steps: Steps::default(),
            race,
            time: Timing::of(config, grid, index),
            tracing: config.trace.clone(),
        }
    }

    /// Threads of a CTA.
    pub fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Notes that the current thread executes an instruction.
    pub fn begin(&mut self, name: &'static str, arg: u32, loc: Loc) -> u32 {
        let t = self.current;
        let thread = &mut self.threads[t as usize];
        thread.loc = Some(loc);
        thread.op = name;
        self.stats.steps += 1;
        self.steps.note(t, name, arg, Some(loc));
        let step = self.stats.steps;
        self.timed(|time| time.begin(t, step));
        t
    }

    /// The thread sleeps until it is woken.
    pub fn sleep(&mut self, t: u32, wait: Wait) {
        let thread = &mut self.threads[t as usize];
        thread.status = Status::Asleep;
        thread.wait = wait;
        thread.wake = Wake::No;
        if matches!(wait, Wait::Poll { .. } | Wait::MBarrier { poll: true, .. }) {
            self.sched.pollers.push(t);
        }
        self.timed(|time| time.sleeps(t));
    }

    /// Wakes a sleeping thread.
    pub fn wake(&mut self, t: u32, value: u32) {
        let thread = &mut self.threads[t as usize];
        debug_assert_eq!(thread.status, Status::Asleep, "only sleepers are woken");
        if matches!(thread.wait, Wait::Poll { .. } | Wait::MBarrier { poll: true, .. }) {
            self.sched.settle(t);
        }
        thread.wake = Wake::Go(value);
        thread.status = Status::Ready;
        let (wait, current) = (thread.wait, self.current);
        let copies = matches!(wait, Wait::BulkGroups { .. } | Wait::CpAsync { .. });
        self.timed(|time| time.wakes(t, wait, current));
        self.sched.enqueue(t);
        if let Some(guide) = &mut self.guide
            && !copies
        {
            guide.order.pass_on(t);
        }
    }

    /// Takes the reason why the thread was woken: none when it comes by itself.
    pub fn woken(&mut self, t: u32) -> Wake {
        let thread = &mut self.threads[t as usize];
        thread.wait = Wait::Nothing;
        std::mem::replace(&mut thread.wake, Wake::No)
    }

    /// A poll gives up: the thread runs again and sees nothing new.
    fn time_out(&mut self, t: u32) {
        if let Wait::MBarrier { bar, .. } = self.threads[t as usize].wait {
            self.bars[bar].waiters.retain(|&w| w != t);
        }
        let thread = &mut self.threads[t as usize];
        thread.wake = Wake::TimedOut;
        thread.status = Status::Ready;
        self.sched.enqueue(t);
    }

    /// Fails the run, at the thread's last instruction. The first fault stays.
    pub fn fail(&mut self, t: u32, fault: Fault) {
        let loc = self.threads[t as usize].loc;
        self.fail_at(Some(t), loc, fault);
        let thread = &mut self.threads[t as usize];
        if thread.status == Status::Running {
            thread.status = Status::Asleep;
        }
    }

    /// Fails the run, at a line.
    pub fn fail_at(&mut self, t: Option<u32>, loc: Option<Loc>, fault: Fault) {
        if self.report.is_none() {
            self.report = Some(Box::new(diagnose::report(self, t, loc, fault)));
        }
    }

    /// A turn of so many instructions begins; gives the thread in whose middle the last one ended.
    pub fn begin_turn(&mut self, instructions: u64) -> Option<u32> {
        self.turn = instructions;
        let writes = self.memory.writes();
        if self.writes != writes {
            // Who polls has something to see.
            self.writes = writes;
            self.sched.fruitless = 0;
        }
        std::mem::take(&mut self.cut).then_some(self.current)
    }

    /// Counts an instruction of the turn; whether the turn was over before it.
    #[inline]
    pub fn turn_is_over(&mut self) -> bool {
        self.cut = self.turn == 0;
        self.turn = self.turn.wrapping_sub(u64::from(!self.cut));
        self.cut
    }

    /// Whether the turn was over before the cluster was.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// Decides what happens next.
    pub fn next(&mut self) -> Next {
        if self.report.is_some() {
            return Next::Failed;
        }
        if self.stats.steps > self.max_steps {
            let fault = Fault::new(Rule::StepLimit, format!("{} instructions", self.max_steps));
            self.fail(self.current, fault);
            return Next::Failed;
        }
        if self.guide.is_some() {
            return self.next_guided();
        }
        if self.goes_by_time() {
            return self.next_timed();
        }
        if self.sched.ready.is_empty() && self.copies.is_empty() {
            return self.idle();
        }
        if let Some(i) = self.sched.lands(&self.copies) {
            self.land(i);
            return Next::Again;
        }
        if let Some(t) = self.sched.gives_up() {
            self.time_out(t);
        }
        let Some(t) = self.sched.pick() else { return Next::Again };
        self.resumed(t)
    }

    /// The thread runs.
    pub fn resumed(&mut self, t: u32) -> Next {
        self.current = t;
        let thread = &mut self.threads[t as usize];
        thread.status = Status::Running;
        self.ctas[thread.cta].started = true;
        self.stats.switches += 1;
        Next::Run(t)
    }

    /// Nothing can run by itself: the pollers look again, or this is the end.
    pub fn idle(&mut self) -> Next {
        if self.live == 0 {
            return Next::Finished;
        }
        self.sched.fruitless = if self.sched.progress { 0 } else { self.sched.fruitless + 1 };
        self.sched.progress = false;
        if self.sched.pollers.is_empty() {
            self.report = Some(Box::new(diagnose::deadlock(self)));
            return Next::Failed;
        }
        let pollers = std::mem::take(&mut self.sched.pollers);
        if self.sched.fruitless > PATIENCE {
            let global = |t: &u32| self.threads[*t as usize].wait == Wait::Poll { global: true };
            let polling = pollers.iter().any(global);
            self.sched.fruitless = 0;
            self.sched.pollers = pollers;
            if polling {
                return Next::Polling;
            }
            self.report = Some(Box::new(diagnose::deadlock(self)));
            return Next::Failed;
        }
        for t in pollers {
            self.time_out(t);
        }
        Next::Again
    }

    /// Declares the cluster stuck: no other cluster will change what it polls.
    pub fn give_up(&mut self) -> Box<Report> {
        self.report.take().unwrap_or_else(|| Box::new(diagnose::deadlock(self)))
    }
}
