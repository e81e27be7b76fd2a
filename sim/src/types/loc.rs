//! A line of kernel source.

use std::panic::Location;

/// A line of kernel source.
pub(crate) type Loc = &'static Location<'static>;

/// Whether two lines are the same. The addresses are compared first, for they agree nearly always.
pub(crate) fn same_line(a: Loc, b: Loc) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// What a thread looked at: its line, and an address.
pub(crate) type Look = (Loc, u64);
