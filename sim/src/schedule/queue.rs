//! The run queue of a cluster: who runs next, drawn from the seed.

use super::looks::Looks;
use super::plan::{Kind, Schedule};
use super::rng::Rng;

/// The run queue, and how often this run switches threads and how late its copies land.
pub(crate) struct Sched {
    pub rng: Rng,
    /// Threads that can run; where priorities decide, by priority, the highest last.
    pub ready: Vec<u32>,
    pct: Option<Pct>,
    /// What the lanes are drawn from that warps elect, if they are drawn.
    leaders: Option<u64>,
    /// Sleeping threads that look again by themselves.
    pub pollers: Vec<u32>,
    /// Threads that wait for the grid ahead to end.
    pub behind: Vec<u32>,
    /// Whether anything changed since the pollers last looked.
    pub progress: bool,
    /// Instructions that changed nothing, since anything changed.
    pub looks: Looks,
    /// The thread that runs has looked in vain, and lets others run before it looks again.
    pub yields: bool,
    /// Rounds of polls without progress.
    pub fruitless: u32,
    /// Copies land when a draw under this mask is zero: from at once to as late as possible.
    laziness: u64,
    /// Instructions between preemptions, on average; drawn, so that some runs switch often.
    period: u32,
    left: u32,
}

/// Priorities below it belong to threads that looked in vain, those above to threads that fell.
const VAIN: u64 = 1 << 32;

/// Priorities, of threads and of copies: who has the highest of those that can go runs.
struct Pct {
    threads: Vec<u64>,
    /// The next lower priority, for one that looks in vain.
    lowest: u64,
    /// Instructions at which the thread that runs falls behind all others, latest first.
    changes: Vec<u64>,
    steps: u64,
    /// The highest priority that could go since somebody was picked.
    newest: u64,
}

impl Pct {
    fn new(rng: &mut Rng, threads: u32, depth: u32, steps: u64) -> Self {
        let threads = (0..threads).map(|_| Self::priority(rng)).collect();
        let mut changes: Vec<u64> =
            (1..depth).map(|_| 1 + rng.below(steps as usize) as u64).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self { threads, lowest: VAIN, changes, steps: 0, newest: 0 }
    }

    /// A priority above all that a change gives.
    fn priority(rng: &mut Rng) -> u64 {
        rng.draw() | 1 << 63
    }

    /// A thread that looks in vain falls behind all others.
    fn yields(&mut self, current: u32) {
        self.lowest -= 1;
        self.threads[current as usize] = self.lowest;
    }

    /// Counts an instruction; whether somebody else comes first.
    fn preempts(&mut self, current: u32) -> bool {
        self.steps += 1;
        let mut fell = false;
        while self.changes.last() == Some(&self.steps) {
            // Each falls below those that fell before it.
            self.threads[current as usize] = VAIN + self.changes.len() as u64;
            self.changes.pop();
            fell = true;
        }
        fell || self.newest > self.threads[current as usize]
    }
}

/// Rounds of polls without progress after which a loop counts as stuck. A loop that gives up by itself
/// after fewer tries is no loop that nothing ends.
pub(crate) const PATIENCE: u32 = 256;
/// The same if a thread sleeps by itself: `nanosleep` may stand in a loop that waits for nobody.
pub(crate) const SLEEPERS: u32 = 16 * PATIENCE;

impl Sched {
    pub fn new(seed: u64, stream: u64, threads: u32, schedule: &Schedule) -> Self {
        let mut rng = Rng::new(seed, stream);
        let laziness = (1 << (2 * rng.below(6))) - 1;
        let period = 1 << (4 + rng.below(9));
        let pct = match schedule.0 {
            Kind::Pct { depth, steps } => Some(Pct::new(&mut rng, threads, depth, steps)),
            _ => None,
        };
        Self {
            pct,
            leaders: matches!(schedule.0, Kind::Random).then_some(seed),
            left: period,
            rng,
            ready: Vec::new(),
            pollers: Vec::new(),
            behind: Vec::new(),
            progress: true,
            fruitless: 0,
            looks: Looks::default(),
            yields: false,
            laziness,
            period,
        }
    }

    /// Counts an instruction; true when its thread must let another run first.
    #[inline]
    pub fn preempts(&mut self, current: u32) -> bool {
        if std::mem::take(&mut self.yields) {
            // Though no other thread is ready, a copy may land, or a poll give up.
            if let Some(pct) = &mut self.pct {
                pct.yields(current);
            }
            return true;
        }
        if let Some(pct) = &mut self.pct {
            return pct.preempts(current) && !self.ready.is_empty();
        }
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = 1 + self.rng.below(2 * self.period as usize) as u32;
        !self.ready.is_empty()
    }

    /// Puts a thread into the run queue.
    pub fn enqueue(&mut self, thread: u32) {
        let Some(pct) = &mut self.pct else { return self.ready.push(thread) };
        let priority = pct.threads[thread as usize];
        pct.newest = pct.newest.max(priority);
        // No thread's priority changes while it is here.
        let at = self.ready.partition_point(|&t| pct.threads[t as usize] <= priority);
        self.ready.insert(at, thread);
    }

    /// The lane that is elected among these, each time the same. Where lanes are drawn it is not the lowest, which code may
    /// take for it.
    pub fn elects(&self, lanes: u32) -> u32 {
        let others = lanes & lanes.wrapping_sub(1);
        let Some(seed) = self.leaders.filter(|_| others != 0) else {
            return lanes.trailing_zeros();
        };
        let place = Rng::new(seed, u64::from(lanes)).below(others.count_ones() as usize);
        let mut lanes = (0..32).filter(|lane| others >> lane & 1 == 1);
        lanes.nth(place).expect("as many as there are")
    }

    /// Whether priorities decide.
    pub fn has_priorities(&self) -> bool {
        self.pct.is_some()
    }

    /// The priority of a copy that is issued now.
    pub fn issue(&mut self) -> u64 {
        let Some(pct) = &mut self.pct else { return 0 };
        let priority = Pct::priority(&mut self.rng);
        pct.newest = pct.newest.max(priority);
        priority
    }

    /// Whether one of the copies in flight lands now, and which; these are their priorities.
    pub fn lands(&mut self, copies: impl ExactSizeIterator<Item = u64>) -> Option<usize> {
        let pending = copies.len();
        if let Some(pct) = &mut self.pct {
            pct.newest = 0;
            let (i, priority) = copies.enumerate().max_by_key(|&(_, priority)| priority)?;
            let first = self.ready.last().is_none_or(|&t| pct.threads[t as usize] < priority);
            return first.then_some(i);
        }
        if pending == 0 || (!self.ready.is_empty() && self.rng.draw() & self.laziness != 0) {
            return None;
        }
        Some(self.rng.below(pending))
    }

    /// A poller that gives up now.
    pub fn gives_up(&mut self) -> Option<u32> {
        if self.pollers.is_empty() || self.rng.draw() & 31 != 0 {
            return None;
        }
        let i = self.rng.below(self.pollers.len());
        Some(self.pollers.swap_remove(i))
    }

    /// The next thread.
    pub fn pick(&mut self) -> Option<u32> {
        if self.pct.is_some() {
            return self.ready.pop();
        }
        if self.ready.is_empty() {
            return None;
        }
        let i = self.rng.below(self.ready.len());
        Some(self.ready.swap_remove(i))
    }

    /// Takes a thread off the run queue.
    pub fn take(&mut self, thread: u32) {
        if let Some(i) = self.ready.iter().position(|&t| t == thread) {
            self.ready.remove(i);
        }
    }

    /// Takes a thread off the pollers.
    pub fn settle(&mut self, thread: u32) {
        if let Some(i) = self.pollers.iter().position(|&t| t == thread) {
            self.pollers.swap_remove(i);
        }
    }
}
