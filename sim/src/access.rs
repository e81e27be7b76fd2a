//! Ordinary loads and stores, and who stands in their way.

use crate::Rule;
use crate::bulk::{Copy, Kind, Target};
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::explore::guide::GLOBAL;
use crate::fault::Fault;
use crate::memory::shared::Conflict;
use crate::ops::Word;
use crate::race::location::{Place, Word as At};

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
                let bulk = self.copies.iter().find(|k| writes(k, cta, c.addr)).map(|k| k.loc);
                match bulk.or_else(|| self.threads.iter().find_map(|t| t.cp.writes(cta, c.addr))) {
                    Some(loc) => fault.against("a copy that has not landed", loc),
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
        let v = match self.ctas[cta].smem.read(addr, T::BYTES as u32) {
            Ok(bytes) => T::from_bytes(bytes),
            Err(c) => return Err(self.conflict(cta, c)),
        };
        self.race_load(t, (cta, addr, T::BYTES as u32))?;
        Ok(v)
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
            Ok(bytes) => v.to_bytes(bytes),
            Err(c) => return Err(self.conflict(cta, c)),
        }
        self.race_store(t, (cta, addr, T::BYTES as u32), false)
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

    /// An atomic update in the own CTA's shared memory; gives the old value.
    pub fn smem_update(
        &mut self,
        t: u32,
        addr: u32,
        f: impl FnOnce(u32) -> u32,
    ) -> Result<u32, Fault> {
        let (cta, addr) = self.word(t, addr, 4, false)?;
        if let Some(guide) = &mut self.guide {
            guide.visit(cta);
            guide.touch(cta as u64, u64::from(addr), 4, true);
        }
        let old = match self.ctas[cta].smem.read(addr, 4) {
            Ok(bytes) => u32::from_bytes(bytes),
            Err(c) => return Err(self.conflict(cta, c)),
        };
        match self.ctas[cta].smem.write(addr, 4) {
            Ok(bytes) => f(old).to_bytes(bytes),
            Err(c) => return Err(self.conflict(cta, c)),
        }
        self.race_store(t, (cta, addr, 4), true)?;
        self.race_word(t, Place::Shared { cluster: self.index, cta, addr }, At::Update);
        Ok(old)
    }

    /// Loads a word; `acquire` says that it is an acquiring load.
    pub fn gmem_load<T: Word>(
        &mut self,
        t: u32,
        addr: u64,
        acquire: Option<At>,
    ) -> Result<T, Fault> {
        aligned(addr, T::BYTES)?;
        let len = T::BYTES as u64;
        self.note_load(t, GLOBAL, addr, len);
        // Value and order are one: other clusters run on other OS threads.
        self.memory.find(addr, len)?.with(|view| {
            let v = T::from_bytes(view.get(addr, len)?);
            self.race_gload(t, addr, len, acquire)?;
            Ok(v)
        })
    }

    pub fn gmem_store<T: Word>(
        &mut self,
        t: u32,
        addr: u64,
        value: T,
        order: At,
    ) -> Result<(), Fault> {
        self.gmem_update(t, addr, |_: T| value, order).map(|_| ())
    }

    /// Reads, changes and writes a word in one step; gives the old value.
    pub fn gmem_update<T: Word>(
        &mut self,
        t: u32,
        addr: u64,
        f: impl FnOnce(T) -> T,
        order: At,
    ) -> Result<T, Fault> {
        aligned(addr, T::BYTES)?;
        let len = T::BYTES as u64;
        if let Some(guide) = &mut self.guide {
            guide.touch(GLOBAL, addr, len, true);
        }
        let old = self.memory.find(addr, len)?.with_mut(|view| {
            let bytes = view.get(addr, len)?;
            let old = T::from_bytes(bytes);
            f(old).to_bytes(bytes);
            self.race_gstore(t, addr, len, order)?;
            Ok::<T, Fault>(old)
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
