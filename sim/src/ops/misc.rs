//! Traps and sleeping.

use crate::Rule;
use crate::current::{self, block};
use crate::fault::Fault;
use crate::thread::{Wait, Wake};
use std::task::Poll;

/// `trap`: ends the run with a report at the caller's line
#[track_caller]
pub fn trap() -> ! {
    current::trap(Fault::new(Rule::Trap, "trap"))
}

/// `nanosleep`: others run first
#[track_caller]
pub fn nanosleep(ns: u32) {
    block("nanosleep", ns, |c, t| {
        if c.woken(t) == Wake::No && !c.paused_here() {
            c.sleep(t, Wait::Poll { global: false });
            return Ok(Poll::Pending);
        }
        Ok(Poll::Ready(()))
    });
}
