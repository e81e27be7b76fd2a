//! The names that a kernel gives to its mbarriers.

use crate::types::grid::SMEM_BASE;
use std::collections::BTreeMap;

/// A name and a stage, by the CTA's rank and the address there.
#[derive(Default)]
pub(crate) struct Labels(BTreeMap<(usize, u32), (&'static str, u32)>);

impl Labels {
    pub fn set(&mut self, cta: usize, addr: u32, name: &'static str, stage: u32) {
        self.0.insert((cta, addr), (name, stage));
    }

    pub fn get(&self, cta: usize, addr: u32) -> Option<(&'static str, u32)> {
        self.0.get(&(cta, addr)).copied()
    }

    /// What a report calls the mbarrier at an address.
    pub fn name_of(&self, cta: usize, addr: u32) -> String {
        match self.get(cta, addr) {
            Some((name, stage)) => format!("`{name}[{stage}]`"),
            None => format!("mbarrier at {addr:#x} (base + {})", addr.wrapping_sub(SMEM_BASE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_belongs_to_one_cta() {
        let mut labels = Labels::default();
        labels.set(1, SMEM_BASE + 8, "full", 3);
        assert_eq!(labels.name_of(1, SMEM_BASE + 8), "`full[3]`");
        assert_eq!(labels.name_of(0, SMEM_BASE + 8), "mbarrier at 0x408 (base + 8)");
    }
}
