//! Who runs next: every choice of a run is drawn here, from one seed.

/// A small generator (splitmix64): the choices must be the same on every machine and forever.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.draw();
        Self(rng.draw() ^ stream)
    }
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.draw() >> 32) * n as u64) >> 32) as usize
    }
}

/// The run queue and the temper of a run.
pub(crate) struct Sched {
    pub rng: Rng,
    pub ready: Vec<u32>,
    /// Sleeping threads that look again by themselves.
    pub pollers: Vec<u32>,
    /// Whether anything changed since the pollers last looked.
    pub progress: bool,
    /// Loads since anything changed.
    pub looks: u32,
    /// Rounds of polls without progress.
    pub fruitless: u32,
    /// Copies land when a draw under this mask is zero: from at once to as late as possible.
    laziness: u64,
    /// Instructions between preemptions, on average; drawn, so that some runs switch often.
    period: u32,
    left: u32,
}

/// Rounds of polls without progress after which a loop counts as stuck.
pub(crate) const PATIENCE: u32 = 64;

impl Sched {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng::new(seed, stream);
        let laziness = (1 << (2 * rng.below(6))) - 1;
        let period = 1 << (4 + rng.below(9));
        Self {
            left: period,
            rng,
            ready: Vec::new(),
            pollers: Vec::new(),
            progress: true,
            fruitless: 0,
            looks: 0,
            laziness,
            period,
        }
    }

    /// Counts an instruction; true when its thread must let another run first.
    #[inline]
    pub fn preempts(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = 1 + self.rng.below(2 * self.period as usize) as u32;
        !self.ready.is_empty()
    }

    /// Whether one of `pending` copies lands now, and which.
    pub fn lands(&mut self, pending: usize) -> Option<usize> {
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
        if self.ready.is_empty() {
            return None;
        }
        let i = self.rng.below(self.ready.len());
        Some(self.ready.swap_remove(i))
    }

    /// Takes a thread off the pollers.
    pub fn settle(&mut self, thread: u32) {
        if let Some(i) = self.pollers.iter().position(|&t| t == thread) {
            self.pollers.swap_remove(i);
        }
    }
}
