//! The mbarrier object as a state machine, without threads or memory.
//!
//! PTX manual, *Parallel Synchronization and Communication Instructions: mbarrier*. The object
//! holds the phase in progress, the pending arrivals of that phase, the expected arrivals of the
//! next, and the tx-count. A phase completes at the moment when both debts are zero.

use crate::finding::rule::Rule;

/// Largest arrival count, and largest magnitude of the tx-count.
pub(crate) const LIMIT: i64 = (1 << 20) - 1;

/// An mbarrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MBarrier {
    /// The phase in progress, counted from 0 (the hardware keeps its parity).
    pub phase: u32,
    /// Arrivals that the phase in progress still lacks.
    pub pending: u32,
    /// Arrivals of the phases to come.
    pub expected: u32,
    /// Bytes expected and not yet completed.
    pub tx: i64,
    /// Arrivals of the phase in progress, without those that left the barrier with it.
    pub begun: u32,
}

/// Why an operation is not allowed.
pub(crate) type Wrong = (Rule, String);

impl MBarrier {
    /// `mbarrier.init`.
    pub fn init(count: u32) -> Result<Self, Wrong> {
        if count == 0 || i64::from(count) > LIMIT {
            return Err((Rule::CountRange, format!("init with count {count}: 1 to {LIMIT}")));
        }
        Ok(Self { phase: 0, pending: count, expected: count, tx: 0, begun: 0 })
    }

    /// An arrival of `n`; true if it completed the phase. `drop` lowers the later phases' count.
    pub fn arrive(&mut self, n: u32, drop: bool) -> Result<bool, Wrong> {
        if n == 0 || i64::from(n) > LIMIT {
            return Err((Rule::CountRange, format!("arrive with count {n}: 1 to {LIMIT}")));
        }
        if n > self.pending {
            return Err((
                Rule::TooManyArrivals,
                format!(
                    "phase {} takes {} arrivals, of which {} are pending: an arrival of count {n} is too \
                     many ({} bytes have yet to land)",
                    self.phase, self.expected, self.pending, self.tx
                ),
            ));
        }
        if drop {
            self.expected = self.expected.checked_sub(n).ok_or_else(|| {
                let have = self.expected;
                (
                    Rule::TooManyArrivals,
                    format!("arrive_drop of {n} from an expected count of {have}"),
                )
            })?;
        }
        self.pending -= n;
        // Who drops out has nothing to say about the phase: it may be that nobody needs it any more.
        self.begun += if drop { 0 } else { n };
        self.settle()
    }

    /// `arrive.noComplete`.
    pub fn arrive_no_complete(&mut self, n: u32) -> Result<(), Wrong> {
        if n == self.pending {
            return Err((
                Rule::NoComplete,
                format!("arrive.noComplete with count {n}, and phase {} lacks no more", self.phase),
            ));
        }
        self.arrive(n, false).map(|_| ())
    }

    /// `expect_tx`: adds, never assigns.
    pub fn expect_tx(&mut self, bytes: u32) -> Result<(), Wrong> {
        let tx = self.tx + i64::from(bytes);
        if tx > LIMIT {
            return Err((
                Rule::CountRange,
                format!("expect_tx of {bytes} makes the tx-count {tx}, above {LIMIT}"),
            ));
        }
        self.tx = tx;
        Ok(())
    }

    /// `complete_tx`, explicit or by a copy that landed; true if it completed the phase.
    pub fn complete_tx(&mut self, bytes: u32) -> Result<bool, Wrong> {
        let tx = self.tx - i64::from(bytes);
        if tx < -LIMIT {
            return Err((
                Rule::CountRange,
                format!("completing {bytes} bytes makes the tx-count {tx}, below -{LIMIT}"),
            ));
        }
        self.tx = tx;
        self.settle()
    }

    /// Completes the phase if both debts are zero.
    fn settle(&mut self) -> Result<bool, Wrong> {
        if self.pending > 0 {
            // A missing arrival holds the phase open: bytes may land before they are expected.
            return Ok(false);
        }
        if self.tx < 0 {
            // On the chip the sum has passed zero: the phase completed early, if the bytes came in
            // pieces, or never will; the surplus leaks into the next phase.
            return Err((
                Rule::TxOverrun,
                format!(
                    "phase {} has all its arrivals, and {} bytes more landed than were expected",
                    self.phase, -self.tx
                ),
            ));
        }
        if self.tx > 0 {
            return Ok(false);
        }
        self.phase = self.phase.wrapping_add(1);
        self.pending = self.expected;
        self.begun = 0;
        Ok(true)
    }

    /// `test_wait.parity`: whether the phase of that parity has completed, that is whether the
    /// phase in progress has the other.
    pub fn parity_done(&self, parity: u32) -> bool {
        self.phase & 1 != parity
    }

    /// The opaque state that `arrive` gives: the phase, and its pending count, before it.
    pub fn token(&self) -> u64 {
        u64::from(self.pending) << 32 | u64::from(self.phase)
    }

    /// `test_wait` with a token: how many phases have completed since.
    pub fn phases_since(&self, token: u64) -> u32 {
        self.phase.wrapping_sub(token as u32)
    }

    /// `mbarrier.pending_count` of a token.
    pub fn pending_of(token: u64) -> u32 {
        (token >> 32) as u32
    }
}

#[cfg(test)]
mod tests;
