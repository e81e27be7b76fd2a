//! What a simulated thread does: it is ready, runs, sleeps until something comes, or has returned.

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
    /// A warp of the other CTA of the pair.
    Pair {
        op: &'static str,
    },
    /// The grid ahead must end.
    GridAhead,
    /// Looks again later: a polling loop on memory, or nanosleep.
    Poll {
        global: bool,
    },
}

impl Wait {
    /// Whether the thread looks again by itself.
    pub fn polls(self) -> bool {
        matches!(self, Self::Poll { .. } | Self::MBarrier { poll: true, .. })
    }
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

/// Whether it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Ready,
    Running,
    Asleep,
    Done,
}
