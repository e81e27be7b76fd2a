//! Special registers for the SM, the clocks and the shared-memory size.
//!
//! PTX manual: *Special Registers*.

ops! { sreg;
    /// `%smid`: the SM that runs this thread. It may change after a preemption.
    pub fn smid() -> u32 {
        let out: u32;
        ptx!("mov.u32 {}, %smid;", out(reg32) out);
        out
    }
    /// `%nsmid`: one more than the largest SM number.
    pub fn nsmid() -> u32 {
        let out: u32;
        ptx_pure!("mov.u32 {}, %nsmid;", out(reg32) out);
        out
    }
    /// `%clock64`: the SM's cycle counter. Unlike other special registers, it is read exactly here.
    pub fn clock64() -> u64 {
        let out: u64;
        ptx!("mov.u64 {}, %clock64;", out(reg64) out);
        out
    }
    /// `%globaltimer`: time in nanoseconds, the same on all SMs. Its resolution may be a microsecond.
    pub fn globaltimer() -> u64 {
        let out: u64;
        ptx!("mov.u64 {}, %globaltimer;", out(reg64) out);
        out
    }
    /// `%dynamic_smem_size`: bytes of dynamic shared memory of the CTA.
    pub fn dynamic_smem_size() -> u32 {
        let out: u32;
        ptx_pure!("mov.u32 {}, %dynamic_smem_size;", out(reg32) out);
        out
    }
}
