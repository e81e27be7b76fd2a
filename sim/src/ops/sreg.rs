//! Special registers beyond a thread's place.

use crate::drive::current::{look, peek};

/// `%smid`: CTAs are dealt to the SMs in turn
pub fn smid() -> u32 {
    peek(|e, t| {
        let [x, y, z] = e.hw.ctas.get(e.hw.thread(t).cta).block;
        let shape = &e.hw.shape;
        (x + shape.grid[0] * (y + shape.grid[1] * z)) % shape.sms
    })
}

/// `%nsmid`
pub fn nsmid() -> u32 {
    peek(|e, _| e.hw.shape.sms)
}

/// `%clock64`: the cluster's steps
#[track_caller]
pub fn clock64() -> u64 {
    look("clock64", 0, None, |e, _| Ok(e.stats.steps))
}

/// `%globaltimer`: likewise
#[track_caller]
pub fn globaltimer() -> u64 {
    look("globaltimer", 0, None, |e, _| Ok(e.stats.steps))
}

/// `%dynamic_smem_size`
pub fn dynamic_smem_size() -> u32 {
    peek(|e, _| e.hw.shape.smem_bytes)
}
