//! A line of kernel source.

use std::panic::Location;

/// A line of kernel source.
pub(crate) type Loc = &'static Location<'static>;

/// Whether two lines are the same. The addresses are compared first, for they agree nearly always.
pub(crate) fn same_line(a: Loc, b: Loc) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// Whether two instructions have one name. The addresses are compared first, as for lines.
pub(crate) fn same_name(a: &'static str, b: &'static str) -> bool {
    (a.as_ptr() == b.as_ptr() && a.len() == b.len()) || a == b
}

/// What a thread looked at: its line, and an address.
pub(crate) type Look = (Loc, u64);

/// The last few looks of a thread: a loop may look at more than one thing.
#[derive(Default)]
pub(crate) struct Looked {
    last: [Option<Look>; 4],
    at: usize,
}

impl Looked {
    /// The thread looks; whether it did so a few looks ago.
    #[inline]
    pub fn again(&mut self, now: Look) -> bool {
        let same = |l: &Option<Look>| l.is_some_and(|l| l.1 == now.1 && std::ptr::eq(l.0, now.0));
        let again = self.last.iter().any(same);
        if !again {
            self.last[self.at] = Some(now);
            self.at = (self.at + 1) % self.last.len();
        }
        again
    }
}
