//! What a kernel tells the model: names for reports, and the phase that a wait was for.

use crate::drive::current::{check, peek};
use crate::exec::mbarrier;

/// Names the mbarrier at an address of the own CTA, before or after its init.
pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
    peek(|e, t| {
        let cta = e.hw.thread(t).cta;
        e.hw.mbarriers.labels.set(cta, bar & 0xff_ffff, name, stage);
    });
}

/// Names what the thread does from here on.
pub fn label_role(name: &'static str) {
    peek(|e, t| e.hw.thread_mut(t).role = Some(name));
}

/// Says that the wait which this thread has just passed, on an mbarrier of its own CTA, was for the phase
/// of this number, counted from 0.
pub fn waited_for(bar: u32, phase: u32) {
    check(|e, t| mbarrier::waited_for(e, t, bar, phase));
}
