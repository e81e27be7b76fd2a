//! Names for reports.

use crate::current::peek;

/// Names the mbarrier at an address of the own CTA, before or after its init.
pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
    peek(|c, t| {
        let cta = c.threads[t as usize].cta;
        c.ctas[cta].labels.insert(bar & 0xff_ffff, (name, stage));
    });
}

/// Names what the thread does from here on.
pub fn label_role(name: &'static str) {
    peek(|c, t| c.threads[t as usize].role = Some(name));
}
