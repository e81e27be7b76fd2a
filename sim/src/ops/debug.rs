//! Names for reports.

use crate::drive::current::peek;

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
