//! How many CTAs of a kernel an SM of sm_90 holds at the same time, and what limits them.
//!
//! The numbers of the SM are those of the CUDA C++ Programming Guide for compute capability 9.0.

use crate::facts::Facts;
use serde::Serialize;

/// Threads of an SM.
const THREADS: u32 = 2048;
/// CTAs of an SM.
const CTAS: u32 = 32;
/// 32-bit registers of an SM.
const REGISTERS: u32 = 64 * 1024;
/// Registers are given to warps in units of this.
const REGISTER_UNIT: u32 = 256;
/// Shared memory of an SM in bytes.
const SMEM: u32 = 228 * 1024;
/// Shared memory that the system reserves for each CTA, in bytes.
const SMEM_RESERVED: u32 = 1024;
/// Shared memory is given to CTAs in units of this.
const SMEM_UNIT: u32 = 128;

/// The CTAs of a kernel that an SM holds.
#[derive(Clone, Debug, Serialize)]
pub struct Occupancy {
    /// CTAs per SM, as far as is known: the least of the limits.
    pub ctas: Option<u32>,
    /// What each resource allows.
    pub limits: Vec<Limit>,
}

/// What a resource of the SM allows.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// The resource.
    pub by: &'static str,
    /// CTAs for which it suffices.
    pub ctas: u32,
    /// The division, in words.
    pub why: String,
}

impl Occupancy {
    /// The limits of a kernel whose threads have `registers` registers at entry, according to ptxas or,
    /// without it, to the roles.
    pub(crate) fn of(facts: &Facts, registers: Option<u32>) -> Self {
        let mut limits = Vec::new();
        if let Some(dynamic) = facts.smem_bytes {
            let bytes = dynamic.saturating_add(facts.static_smem_bytes);
            let each = bytes.saturating_add(SMEM_RESERVED).div_ceil(SMEM_UNIT) * SMEM_UNIT;
            limits.push(Limit {
                by: "shared memory",
                ctas: SMEM / each,
                why: format!("{bytes} + {SMEM_RESERVED} reserved, of {SMEM} bytes"),
            });
        }
        let planned = facts.cta.as_ref().map(|cta| cta.registers_at_entry);
        if let (Some(threads), Some(registers)) = (facts.threads, registers.or(planned))
            && threads > 0
            && registers > 0
        {
            let warp = (32 * registers).div_ceil(REGISTER_UNIT) * REGISTER_UNIT;
            limits.push(Limit {
                by: "registers",
                ctas: REGISTERS / warp / threads.div_ceil(32),
                why: format!("{threads} threads x {registers}, of {REGISTERS}"),
            });
        }
        if let Some(threads) = facts.threads.filter(|threads| *threads > 0) {
            let why = format!("{threads}, of {THREADS}");
            limits.push(Limit { by: "threads", ctas: THREADS / threads, why });
            limits.push(Limit { by: "CTAs", ctas: CTAS, why: format!("at most {CTAS}") });
        }
        // Without all three resources the least limit is only an upper bound.
        let known = limits.len() == 4;
        let ctas = limits.iter().map(|limit| limit.ctas).min().filter(|_| known);
        Self { ctas, limits }
    }

    /// The resources that allow no more CTAs than the result.
    pub fn limited_by(&self) -> Vec<&'static str> {
        let least = self.limits.iter().filter(|limit| Some(limit.ctas) == self.ctas);
        least.map(|limit| limit.by).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(threads: u32, smem_bytes: Option<u32>) -> Facts {
        Facts {
            kernel: "k".into(),
            target: "sm_90a".into(),
            threads: Some(threads),
            min_ctas: 1,
            cluster: [1; 3],
            smem_bytes,
            static_smem_bytes: 0,
            dependent: None,
            params: Vec::new(),
            cta: None,
            described: false,
        }
    }

    fn of(threads: u32, smem: u32, registers: u32) -> (Option<u32>, Vec<&'static str>) {
        let all = Occupancy::of(&facts(threads, Some(smem)), Some(registers));
        (all.ctas, all.limited_by())
    }

    #[test]
    fn the_least_resource_limits() {
        // The values are those of NVIDIA's occupancy calculator for compute capability 9.0.
        assert_eq!(of(384, 229_448, 168), (Some(1), vec!["shared memory", "registers"]));
        assert_eq!(of(256, 16 * 1024, 128), (Some(2), vec!["registers"]));
        assert_eq!(of(128, 0, 32), (Some(16), vec!["registers", "threads"]));
        assert_eq!(of(32, 0, 24), (Some(32), vec!["CTAs"]));
        assert_eq!(of(256, 113 * 1024, 32), (Some(2), vec!["shared memory"]));
        assert_eq!(of(256, 113 * 1024 + 1, 32), (Some(1), vec!["shared memory"]));
    }

    #[test]
    fn what_is_not_known_does_not_limit() {
        let all = Occupancy::of(&facts(256, None), None);
        assert_eq!((all.ctas, all.limits.len()), (None, 2));
        let all = Occupancy::of(&Facts { threads: None, ..facts(0, Some(1024)) }, Some(40));
        assert_eq!((all.ctas, all.limits.len()), (None, 1));
    }
}
