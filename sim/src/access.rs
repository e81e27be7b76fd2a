//! Ordinary loads and stores, and who stands in their way.

use crate::Rule;
use crate::bulk::{Copy, Kind, Target};
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::explore::guide::GLOBAL;
use crate::fault::Fault;
use crate::memory::shared::Conflict;
use crate::ops::Word;

impl Cluster {
    /// Turns a conflict in shared memory into a fault that names the other side.
    pub fn conflict(&self, cta: usize, c: Conflict) -> Fault {
        let block = &self.ctas[cta];
        let at =
            format!("shared address {:#x} (base + {})", c.addr, c.addr.wrapping_sub(SMEM_BASE));
        match c.rule {
            Rule::SharedBounds => {
                let size = block.smem.size();
                Fault::new(
                    c.rule,
                    format!("{at} of CTA {cta}: there are {size} bytes from {SMEM_BASE:#x}"),
                )
            }
            Rule::BarrierMemory => {
                let fault = Fault::new(c.rule, format!("{at} of CTA {cta}: inval comes before"));
                match block.smem.barrier_at(c.addr & !7) {
                    Some(b) => fault.against("its initialisation", self.bars[b].init).bar(b),
                    None => fault,
                }
            }
            Rule::WgmmaReads => {
                if let Some(loc) = block.warpgroups.iter().find_map(|w| w.reads(c.addr)) {
                    return Fault::new(c.rule, format!("{at} of CTA {cta}"))
                        .against("wgmma, not waited for", loc);
                }
                let fault = Fault::new(Rule::StoreReads, format!("{at} of CTA {cta}"));
                match self.copies.iter().find(|k| reads(k, cta, c.addr)) {
                    Some(k) => fault.against("a bulk copy that has not read its source", k.loc),
                    None => fault,
                }
            }
            Rule::CopyInFlight => {
                let fault = Fault::new(c.rule, format!("{at} of CTA {cta}"));
                match self.copies.iter().find(|k| writes(k, cta, c.addr)) {
                    Some(k) => fault.against("a copy that has not landed", k.loc),
                    None => fault,
                }
            }
            rule => Fault::new(rule, format!("{at} of CTA {cta}")),
        }
    }

    /// Where a word of shared memory lies: `remote` allows other CTAs.
    fn word(&self, t: u32, addr: u32, len: usize, remote: bool) -> Result<(usize, u32), Fault> {
        let at = if remote { self.split(t, addr)? } else { self.own(t, addr)? };
        aligned(u64::from(addr), len)?;
        Ok(at)
    }

    pub fn smem_load<T: Word>(&mut self, t: u32, addr: u32, remote: bool) -> Result<T, Fault> {
        let (cta, addr) = self.word(t, addr, T::BYTES, remote)?;
        self.note_load(t, cta as u64, u64::from(addr), T::BYTES as u64);
        match self.ctas[cta].smem.read(addr, T::BYTES as u32) {
            Ok(bytes) => Ok(T::from_bytes(bytes)),
            Err(c) => Err(self.conflict(cta, c)),
        }
    }

    pub fn smem_store<T: Word>(
        &mut self,
        t: u32,
        addr: u32,
        v: T,
        remote: bool,
    ) -> Result<(), Fault> {
        let (cta, addr) = self.word(t, addr, T::BYTES, remote)?;
        if let Some(guide) = &mut self.guide {
            guide.visit(cta);
            guide.touch(cta as u64, u64::from(addr), T::BYTES as u64, true);
        }
        match self.ctas[cta].smem.write(addr, T::BYTES as u32) {
            Ok(bytes) => {
                v.to_bytes(bytes);
                Ok(())
            }
            Err(c) => Err(self.conflict(cta, c)),
        }
    }

    fn note_load(&mut self, t: u32, space: u64, addr: u64, len: u64) {
        let loc = self.threads[t as usize].loc;
        if let (Some(guide), Some(loc)) = (&mut self.guide, loc) {
            if space != GLOBAL {
                guide.visit(space as usize);
            }
            guide.load(t, loc, space, addr, len);
        }
    }

    pub fn gmem_load<T: Word>(&mut self, addr: u64) -> Result<T, Fault> {
        aligned(addr, T::BYTES)?;
        let len = T::BYTES as u64;
        self.note_load(self.current, GLOBAL, addr, len);
        Ok(self.memory.find(addr, len)?.with(|v| v.get(addr, len).map(T::from_bytes))?)
    }

    pub fn gmem_store<T: Word>(&mut self, addr: u64, value: T) -> Result<(), Fault> {
        self.gmem_update(addr, |_: T| value).map(|_| ())
    }

    /// Reads, changes and writes a word in one step; gives the old value.
    pub fn gmem_update<T: Word>(&mut self, addr: u64, f: impl FnOnce(T) -> T) -> Result<T, Fault> {
        aligned(addr, T::BYTES)?;
        let len = T::BYTES as u64;
        if let Some(guide) = &mut self.guide {
            guide.touch(GLOBAL, addr, len, true);
        }
        let old = self.memory.find(addr, len)?.with_mut(|v| {
            v.get(addr, len).map(|bytes| {
                let old = T::from_bytes(bytes);
                f(old).to_bytes(bytes);
                old
            })
        })?;
        self.memory.wrote();
        Ok(old)
    }
}

fn aligned(addr: u64, len: usize) -> Result<(), Fault> {
    if addr.is_multiple_of(len as u64) {
        return Ok(());
    }
    Err(Fault::new(Rule::Misaligned, format!("{len} bytes at {addr:#x}: a multiple of {len}")))
}

fn reads(copy: &Copy, in_cta: usize, addr: u32) -> bool {
    match copy.kind {
        Kind::StoreRead { cta, src, bytes, .. }
        | Kind::Peer { cta, src, to: Target { bytes, .. } } => {
            cta == in_cta && (src..src + bytes).contains(&addr)
        }
        _ => false,
    }
}

fn writes(copy: &Copy, in_cta: usize, addr: u32) -> bool {
    match copy.kind {
        Kind::TensorLoad { to, .. } | Kind::RunLoad { to, .. } | Kind::Peer { to, .. } => {
            to.cta == in_cta && (to.dst..to.dst + to.bytes).contains(&addr)
        }
        _ => false,
    }
}
