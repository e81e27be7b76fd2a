//! What a kernel tells the model: names for reports, and the phase that a wait was for.

use crate::cluster::tokens::Token;
use crate::drive::current::{aside, peek};
use crate::exec::mbarrier;
use crate::memory::regions::plain;
use std::panic::Location;

/// Names the mbarrier at an address of the own CTA, before or after its init.
pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
    peek(|e, t| {
        let cta = e.hw.thread(t).cta;
        e.hw.mbarriers.labels.set(cta, plain(bar), name, stage);
    });
}

/// Names a named barrier of the own CTA.
pub fn label_named_barrier(id: u32, name: &'static str) {
    peek(|e, t| {
        let cta = e.hw.thread(t).cta;
        e.hw.named.label(cta, id, name);
    });
}

/// Declares a region of the own CTA's shared memory, and gives its address: what is computed from it
/// must stay inside.
pub fn region(name: &'static str, base: u32, bytes: u32) -> u32 {
    peek(|e, _| e.hw.regions.declare(name, base, bytes))
}

/// The thread takes a token, which it must give back.
#[track_caller]
pub fn hold(at: u32, what: &'static str, name: &'static str, index: u32, done: &'static str) {
    let token = Token { at: plain(at), what, name, index, done, loc: Location::caller() };
    peek(|e, t| e.hw.tokens.take(t, token));
}

/// The thread gives a token back.
pub fn let_go(at: u32) {
    peek(|e, t| e.hw.tokens.give(t, plain(at)));
}

/// Names what the thread does from here on.
pub fn label_role(name: &'static str) {
    peek(|e, t| e.hw.thread_mut(t).role = Some(name));
}

/// Says that the wait which this thread has just passed, on an mbarrier of its own CTA, was for the phase
/// of this number, counted from 0.
#[track_caller]
pub fn waited_for(bar: u32, phase: u32) {
    aside("wait", |e, t| mbarrier::waited_for(e, t, bar, phase));
}
