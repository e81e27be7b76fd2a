//! Traps and sleeping.

use crate::drive::current::{self, block};
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::wait::{Wait, Wake};
use std::task::Poll;

/// `trap`: ends the run with a report at the caller's line
#[track_caller]
pub fn trap() -> ! {
    current::trap(Fault::new(Rule::Trap, "trap"))
}

/// `nanosleep`: others run first
#[track_caller]
pub fn nanosleep(ns: u32) {
    block("nanosleep", ns, |e, t| {
        if e.woken(t) == Wake::No && !e.pauses_polls() {
            e.sleep(t, Wait::Poll { global: false });
            return Ok(Poll::Pending);
        }
        Ok(Poll::Ready(()))
    });
}
