//! How many CTAs of a grid an SM holds at a time.

use crate::types::grid::Grid;

/// Shared memory of an SM in bytes.
const SHARED: u32 = 228 * 1024;
/// Shared memory that the chip reserves for each CTA.
const RESERVED: u32 = 1024;
/// Registers of an SM.
const REGISTERS: u32 = 64 * 1024;
/// Threads of an SM.
const THREADS: u32 = 2048;
/// CTAs of an SM.
const CTAS: u32 = 32;

/// The parts of an SM that a run counts in: a multiple of every number of CTAs up to [`CTAS`].
pub(crate) const SM: u64 = 144_403_552_893_600;

/// CTAs of a grid that an SM holds, and what limits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub per_sm: u32,
    pub limit: &'static str,
}

impl Room {
    /// Registers count as at entry, so that `min_ctas` CTAs always fit.
    pub fn of(grid: &Grid<'_>) -> Self {
        let threads = grid.threads().next_multiple_of(32);
        let limits = [
            (SHARED / (grid.smem_bytes + RESERVED), "shared memory"),
            (REGISTERS / (threads * grid.registers_at_entry()), "registers"),
            (THREADS / threads, "threads"),
            (CTAS, "the number of CTAs"),
        ];
        let (per_sm, limit) = limits.into_iter().min_by_key(|l| l.0).expect("four limits");
        Self { per_sm: per_sm.max(1), limit }
    }

    /// The parts of an SM that a cluster of so many CTAs takes.
    pub fn parts(self, ctas: u32) -> u64 {
        SM / u64::from(self.per_sm) * u64::from(ctas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(threads: u32, min_ctas: u32, smem_bytes: u32) -> (u32, &'static str) {
        let (grid, block) = ([1; 3], [threads, 1, 1]);
        let room = Room::of(&Grid { grid, block, cluster: [1; 3], min_ctas, smem_bytes, name: "" });
        (room.per_sm, room.limit)
    }

    #[test]
    fn what_is_scarce_limits_the_ctas() {
        assert_eq!(room(128, 4, 227 * 1024), (1, "shared memory"));
        assert_eq!(room(128, 4, 113 * 1024), (2, "shared memory"));
        assert_eq!(room(384, 1, 0), (1, "registers"));
        assert_eq!(room(128, 4, 0), (4, "registers"));
        assert_eq!(room(1024, 2, 0), (2, "registers"));
        assert_eq!(room(32, 32, 0), (32, "registers"));
        assert!((1..=32).all(|n| SM.is_multiple_of(n)));
    }
}
