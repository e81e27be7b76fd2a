//! Where the word and the barriers of a ring of accumulators lie in shared memory.

/// Addresses inside the region: the word with the allocation's address, the barrier that says that it is there, the full
/// barriers, the empty barriers.
#[derive(Clone, Copy)]
pub(super) struct Layout<const STAGES: usize> {
    pub base: u32,
}

impl<const STAGES: usize> Layout<STAGES> {
    #[isa::forceinline]
    pub const fn allocated(self) -> u32 {
        self.base + 8
    }
    #[isa::forceinline]
    pub const fn full(self, stage: u32) -> u32 {
        self.base + 16 + 8 * stage
    }
    #[isa::forceinline]
    pub const fn empty(self, stage: u32) -> u32 {
        self.full(STAGES as u32) + 8 * stage
    }
    /// Of a pair: all is over, and the columns are freed.
    #[isa::forceinline]
    pub const fn over(self) -> u32 {
        self.empty(STAGES as u32)
    }
}
