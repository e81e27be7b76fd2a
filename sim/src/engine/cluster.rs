//! The engine: a cluster while it runs, but for its stacks.
//!
//! It owns the machine's parts, the run queue, and the watchers: the guide of an exploration, the race
//! detector, the clocks, and the ring of the last steps. Instructions ([`crate::exec`]) change the parts
//! and tell the watchers. The loop ([`crate::drive`]) asks which thread goes next.

use super::diagnose::page::{deadlock, report};
use super::diagnose::view::Page;
use super::machine::Machine;
use super::protocol;
use super::steps::Steps;
use crate::cluster::shape::Shape;
use crate::cluster::thread::Thread;
use crate::config::{Config, Stats};
use crate::finding::fault::Fault;
use crate::finding::report::{NOTHING_CHANGES, Report};
use crate::finding::rule::Rule;
use crate::grid::stream::Member;
use crate::memory::global::GlobalMemory;
use crate::protocol::watcher::Watcher;
use crate::race::accesses::Found;
use crate::race::explain::explain;
use crate::race::global::GlobalShadow;
use crate::race::state::Race;
use crate::schedule::looks;
use crate::schedule::plan::{Place, Schedule};
use crate::schedule::queue::Sched;
use crate::schedule::turns::Length;
use crate::trace::data::Tracing;
use crate::trace::timing::Timing;
use crate::types::grid::Grid;
use crate::types::loc::{Loc, Look};
use crate::types::wait::{Status, Wait, Wake};
use crate::walk::guide::Guide;
use std::sync::Arc;

/// A cluster while it runs.
pub(crate) struct Engine {
    /// The machine's parts.
    pub hw: Machine,
    /// The run queue.
    pub sched: Sched,
    pub schedule: Schedule,
    seed: u64,
    pub max_steps: u64,
    /// The thread that runs.
    pub current: u32,
    /// Threads that have not returned.
    pub live: u32,
    pub stats: Stats,
    pub report: Option<Box<Report>>,
    /// The run has failed, and its threads are unwinding.
    pub teardown: bool,
    /// Instructions executed by threads that were to unwind.
    pub refusals: u32,
    turn: Turn,
    steps: Steps,
    /// Who decides in place of the run queue, in a guided run.
    pub guide: Option<Box<Guide>>,
    /// What happened before what, if races are looked for.
    race: Option<Box<Race>>,
    /// Who records the protocol, if somebody wants it.
    watcher: Option<Box<Watcher>>,
    /// The clocks, if somebody wants to know the time.
    pub time: Option<Box<Timing>>,
    /// Who gets the trace of this cluster, if it is the one.
    pub tracing: Option<Arc<Tracing>>,
}

/// A turn of the cluster, among the clusters of its worker.
struct Turn {
    /// Instructions that are left of it, and instructions and copies that use global memory.
    left: Length,
    /// Whether it ended in the middle of the current thread.
    cut: bool,
    /// Whether it ended because nothing changes, and others may change something.
    gives_way: bool,
    /// Writes to global memory when it began.
    writes: u64,
}

impl Engine {
    /// The cluster at `place`: the launch in its run, and the index in the grid. `shadow` is that of
    /// global memory, if races are looked for.
    pub fn new(
        config: &Config,
        memory: &GlobalMemory,
        shadow: Option<&Arc<GlobalShadow>>,
        grid: &Grid<'_>,
        launches: Member,
        place: Place,
    ) -> Self {
        let shape = Shape::new(grid, place.1, config.sms);
        let (threads, index) = (shape.threads(), shape.index);
        let number = launches.one().first + index;
        let known = launches.stream.known_at_start(launches.grid);
        let race =
            shadow.map(|shadow| Box::new(Race::new(&shape, Arc::clone(shadow), number, &known)));
        let mut sched = Sched::new(config.seed, u64::from(number), threads, &config.schedule);
        (0..threads).for_each(|t| sched.enqueue(t));
        let watcher = config.schedule.recorder();
        let watcher = watcher.map(|recorder| Box::new(Watcher::new(recorder, place, threads)));
        let hw = Machine::new(shape, memory.clone(), launches, config.check_uninitialised);
        let guide = config.schedule.tree(place).map(|(tree, home)| {
            let home_of: Vec<usize> = hw.threads.iter().map(|t| t.cta).collect();
            Box::new(Guide::new(tree, &home_of, hw.ctas.len(), home, place))
        });
        Self {
            hw,
            sched,
            schedule: config.schedule.clone(),
            seed: config.seed,
            max_steps: config.max_steps,
            current: 0,
            live: threads,
            stats: Stats { clusters: 1, ..Stats::default() },
            report: None,
            teardown: false,
            refusals: 0,
            turn: Turn { left: Length::ENDLESS, cut: false, gives_way: false, writes: 0 },
            steps: Steps::default(),
            guide,
            race,
            watcher,
            time: timing(config, grid, index),
            tracing: config.trace.clone(),
        }
    }

    /// Notes that the current thread executes an instruction.
    pub fn begin(&mut self, name: &'static str, arg: u32, loc: Loc) -> u32 {
        let t = self.current;
        let thread = self.hw.thread_mut(t);
        thread.loc = Some(loc);
        thread.op = name;
        self.stats.steps += 1;
        self.steps.note(t, name, arg, Some(loc));
        let step = self.stats.steps;
        self.timed(|time| time.begin(t, step));
        self.watched(|watcher| watcher.executes(t, name, arg, loc));
        t
    }

    /// Notes a step that no thread executes: the copy at a place lands.
    pub fn note_landing(&mut self, issuer: u32, place: usize, loc: Loc) {
        self.stats.copies += 1;
        self.progress();
        self.steps.note(issuer, "(lands)", place as u32, Some(loc));
        self.watched(|watcher| watcher.lands(issuer, loc));
    }

    /// Something has changed that those who poll may see.
    #[inline]
    pub fn progress(&mut self) {
        self.sched.progress = true;
        self.sched.looks.over();
    }

    /// The current thread's instruction changed nothing; `at` is what it looked at, if at anything.
    #[inline]
    pub fn looked(&mut self, t: u32, at: Option<Look>) -> Result<(), Fault> {
        match self.sched.looks.look(&mut self.hw.thread_mut(t).looked, at) {
            looks::Next::GoesOn => {}
            looks::Next::Yields => self.sched.yields = true,
            looks::Next::GivesWay => {
                self.sched.yields = true;
                self.give_way();
            }
            looks::Next::Endless => {
                let many = self.sched.looks.count();
                let message = format!("{many} instructions in turn, and {NOTHING_CHANGES}");
                return Err(Fault::new(Rule::StepLimit, message));
            }
        }
        Ok(())
    }

    /// The hash of all steps.
    pub fn trace_hash(&self) -> u64 {
        self.steps.hash()
    }

    /// The thread sleeps until it is woken.
    pub fn sleep(&mut self, t: u32, wait: Wait) {
        let thread = self.hw.thread_mut(t);
        thread.status = Status::Asleep;
        thread.wait = wait;
        thread.wake = Wake::No;
        if wait.polls() {
            self.sched.pollers.push(t);
        }
        self.timed(|time| time.sleeps(t));
    }

    /// Wakes a sleeping thread.
    pub fn wake(&mut self, t: u32, value: u32) {
        let thread = self.hw.thread_mut(t);
        debug_assert_eq!(thread.status, Status::Asleep, "only sleepers are woken");
        thread.wake = Wake::Go(value);
        thread.status = Status::Ready;
        let (wait, current) = (thread.wait, self.current);
        if wait.polls() {
            self.sched.settle(t);
        }
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
        let thread = self.hw.thread_mut(t);
        thread.wait = Wait::Nothing;
        std::mem::replace(&mut thread.wake, Wake::No)
    }

    /// A poll gives up: the thread runs again and sees nothing new.
    pub fn time_out(&mut self, t: u32) {
        if let Wait::MBarrier { bar, .. } = self.hw.thread(t).wait {
            self.hw.mbarriers.forget(bar, t);
        }
        let thread = self.hw.thread_mut(t);
        thread.wake = Wake::TimedOut;
        thread.status = Status::Ready;
        self.sched.enqueue(t);
    }

    /// The thread runs.
    pub fn resumed(&mut self, t: u32) {
        self.current = t;
        let thread = &mut self.hw.threads[t as usize];
        thread.status = Status::Running;
        self.hw.ctas.start(thread.cta);
        self.stats.switches += 1;
    }

    /// Fails the run, at the thread's last instruction. The first fault stays.
    pub fn fail(&mut self, t: u32, fault: Fault) {
        let loc = self.hw.thread(t).loc;
        self.fail_at(Some(t), loc, fault);
        let thread = self.hw.thread_mut(t);
        if thread.status == Status::Running {
            thread.status = Status::Asleep;
        }
    }

    /// Fails the run, at a line.
    pub fn fail_at(&mut self, t: Option<u32>, loc: Option<Loc>, fault: Fault) {
        if self.report.is_none() {
            self.report = Some(Box::new(report(&self.page(), t, loc, fault)));
        }
    }

    /// The report of a cluster in which nothing can run.
    pub fn deadlock(&self) -> Box<Report> {
        Box::new(deadlock(&self.page()))
    }

    /// Declares the cluster stuck: no other cluster will change what it polls.
    pub fn give_up(&mut self) -> Box<Report> {
        self.report.take().unwrap_or_else(|| self.deadlock())
    }

    fn page(&self) -> Page<'_> {
        Page {
            hw: &self.hw,
            steps: &self.steps,
            guide: self.guide.as_deref(),
            schedule: &self.schedule,
            seed: self.seed,
        }
    }

    /// A turn of a length begins; gives the thread in whose middle the last one ended.
    pub fn begin_turn(&mut self, length: Length) -> Option<u32> {
        let steps = self.max_steps.saturating_sub(self.stats.steps);
        self.turn.left = Length { instructions: length.instructions.min(steps), ..length };
        self.turn.gives_way = false;
        let writes = self.hw.memory.writes();
        if self.turn.writes != writes {
            // Who polls has something to see.
            self.turn.writes = writes;
            self.sched.fruitless = 0;
            self.sched.looks.over();
        }
        std::mem::take(&mut self.turn.cut).then_some(self.current)
    }

    /// Counts an instruction of the turn; whether the turn was over before it.
    #[inline]
    pub fn turn_is_over(&mut self) -> bool {
        let used = u64::from(self.hw.memory.was_used());
        let Turn { left, cut, .. } = &mut self.turn;
        left.uses = left.uses.saturating_sub(used);
        *cut = left.instructions == 0 || left.uses == 0;
        left.instructions = left.instructions.wrapping_sub(u64::from(!*cut));
        *cut
    }

    /// Whether the turn was over before the cluster was.
    pub fn was_cut(&self) -> bool {
        self.turn.cut
    }

    /// The turn is over: other clusters go first.
    pub fn give_way(&mut self) {
        self.turn.left.instructions = 0;
        self.turn.gives_way = true;
    }

    /// Whether the turn was over because nothing changes.
    pub fn gave_way(&self) -> bool {
        self.turn.gives_way
    }

    /// Fails the run if it has as many steps as it may have; whether it does.
    pub fn too_long(&mut self) -> bool {
        let too_long = self.stats.steps >= self.max_steps;
        if too_long {
            let message = format!("{} instructions", self.max_steps);
            self.fail(self.current, Fault::new(Rule::StepLimit, message));
        }
        too_long
    }

    /// Tells the guide, in a guided run.
    #[inline]
    pub fn guided(&mut self, f: impl FnOnce(&mut Guide)) {
        if let Some(guide) = &mut self.guide {
            f(guide);
        }
    }

    /// Whether a poll need not sleep, for its thread has paused already in a guided run.
    pub fn pauses_polls(&self) -> bool {
        self.guide.as_ref().is_some_and(|guide| guide.pauses_polls())
    }

    /// The chosen instruction is executed.
    #[inline]
    pub fn executed(&mut self) {
        self.guided(|guide| guide.order.settle());
    }

    /// Tells the clocks, if there are any.
    #[inline]
    pub fn timed(&mut self, f: impl FnOnce(&mut Timing)) {
        if let Some(time) = &mut self.time {
            f(time);
        }
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The race detector, if races are looked for.
    #[inline]
    pub fn race(&self) -> Option<&Race> {
        self.race.as_deref()
    }

    /// The machine's parts, and what the race detector knows, if races are looked for.
    pub fn parts(&mut self) -> (&mut Machine, Option<&Race>) {
        (&mut self.hw, self.race.as_deref())
    }

    /// Tells the watcher of the protocol, if there is one.
    #[inline]
    pub fn watched(&mut self, f: impl FnOnce(&mut Watcher)) {
        if let Some(watcher) = &mut self.watcher {
            f(watcher);
        }
    }

    /// Tells the watcher operands of the instruction in progress.
    #[inline]
    pub fn operands<const N: usize>(&mut self, values: impl FnOnce() -> [u64; N]) {
        self.watched(|watcher| values().into_iter().for_each(|value| watcher.operand(value)));
    }

    /// Between two steps: gives the watcher the state, if something was completed since the last time.
    pub fn between_steps(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        if watcher.due {
            let state = protocol::state(&self.hw, self.race.as_deref(), watcher);
            let order = self.guide.as_ref().map(|guide| &guide.order);
            watcher.mark(state, || order.map(protocol::knowledge).unwrap_or_default());
        }
    }

    /// The cluster has ended well: hands the record of its protocol over.
    pub fn hand_over_protocol(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let bars = &self.hw.mbarriers;
        let label = |b: &crate::barrier::mbarriers::Bar| bars.labels.get(b.cta, b.addr);
        watcher.hand_over(&self.hw.shape.name, bars.all().iter().map(label));
    }

    /// Tells the race detector who synchronises, if races are looked for.
    #[inline]
    pub fn edge(&mut self, f: impl FnOnce(&mut Race)) {
        if let Some(race) = &mut self.race {
            f(race);
        }
    }

    /// The same of what a thread does.
    #[inline]
    pub fn told(&mut self, t: u32, f: impl FnOnce(&mut Race, &Thread)) {
        if let Some(race) = &mut self.race {
            f(race, self.hw.thread(t));
        }
    }

    /// Asks the race detector about an access of a thread, if races are looked for. What it finds
    /// becomes a fault.
    #[inline]
    pub fn checked<R: Default>(
        &mut self,
        t: u32,
        f: impl FnOnce(&mut Race, &Thread) -> Result<R, Found>,
    ) -> Result<R, Fault> {
        let Some(race) = &mut self.race else { return Ok(R::default()) };
        f(race, self.hw.thread(t)).map_err(|found| explain(race, &self.hw.names(), t, &found))
    }

    /// The same about bytes of global memory. What lies nowhere is found when it is accessed.
    pub fn checked_global(
        &mut self,
        t: u32,
        addr: u64,
        f: impl FnOnce(&mut Race, &Thread, u64) -> Result<(), Found>,
    ) -> Result<(), Fault> {
        if self.race.is_none() {
            return Ok(());
        }
        let Ok(allocation) = self.hw.memory.get().find(addr, 1) else { return Ok(()) };
        self.checked(t, |race, thread| f(race, thread, allocation.base()))
    }
}

/// The clocks of a cluster whose trace is asked for, or whose schedule goes by time.
fn timing(config: &Config, grid: &Grid<'_>, cluster: u32) -> Option<Box<Timing>> {
    let limit = config.trace.as_ref().and_then(|tracing| tracing.of(cluster));
    let leads = config.schedule.is_timed();
    (limit.is_some() || leads)
        .then(|| Box::new(Timing::new(grid.cluster_size(), grid.threads(), limit, leads)))
}
