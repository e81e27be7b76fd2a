//! Special registers beyond a thread's place.

use crate::current::{look, peek};

/// `%smid`: CTAs are dealt to the SMs in turn
pub fn smid() -> u32 {
    peek(|c, t| {
        let [x, y, z] = c.ctas[c.threads[t as usize].cta].block;
        (x + c.grid[0] * (y + c.grid[1] * z)) % c.sms
    })
}

/// `%nsmid`
pub fn nsmid() -> u32 {
    peek(|c, _| c.sms)
}

/// `%clock64`: the cluster's steps
#[track_caller]
pub fn clock64() -> u64 {
    look("clock64", 0, |c, _| Ok(c.stats.steps))
}

/// `%globaltimer`: likewise
#[track_caller]
pub fn globaltimer() -> u64 {
    look("globaltimer", 0, |c, _| Ok(c.stats.steps))
}

/// `%dynamic_smem_size`
pub fn dynamic_smem_size() -> u32 {
    peek(|c, _| c.smem_bytes)
}
