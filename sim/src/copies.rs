//! The copy engine: issuing asynchronous copies, and their landing at a moment that the scheduler
//! chooses.

use crate::Rule;
use crate::bulk::{Copy, Kind, Sink, Target};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::memory::GlobalMemory;
use crate::race::Agent;
use crate::tensor_map::{self, DataType, TensorMapDesc};
use crate::thread::{Wait, Wake};
use crate::tma::{self, Combine};
use crate::trace::timing::{Landing, Timing};
use std::task::Poll;

fn aligned(what: &str, value: u64, to: u64) -> Result<(), Fault> {
    if value.is_multiple_of(to) {
        return Ok(());
    }
    Err(Fault::new(Rule::Misaligned, format!("{what} {value:#x} is not a multiple of {to}")))
}

impl Cluster {
    /// Unpacks the tensor map at a pointer: in global memory, or a kernel parameter.
    pub fn tensor_map(
        &self,
        map: *const [u64; 16],
        rank: usize,
    ) -> Result<Box<TensorMapDesc>, Fault> {
        let addr = map as u64;
        let fault = |message: String| Fault::new(Rule::TensorMap, message);
        if addr == 0 || !addr.is_multiple_of(64) {
            return Err(fault(format!("tensor map at {addr:#x}: a multiple of 64, not null")));
        }
        let words = if GlobalMemory::is_device(addr) {
            let mut bytes = [0u8; 128];
            self.memory.read(addr, &mut bytes)?;
            std::array::from_fn(|i| {
                u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"))
            })
        } else {
            // SAFETY: an address below the device's is one of the host: a kernel parameter, alive
            // for the launch, as the contract of `isa::cp_async_bulk` and `sim::launch` demands.
            unsafe { map.read() }
        };
        let desc = tensor_map::decode(&words).ok_or_else(|| {
            fault(format!("what lies at {addr:#x} is no tensor map of the model"))
        })?;
        if desc.rank as usize != rank {
            return Err(fault(format!("a tensor map of rank {} used with {rank}", desc.rank)));
        }
        Ok(Box::new(desc))
    }

    fn box_alignment(what: &str, addr: u32, map: &TensorMapDesc) -> Result<(), Fault> {
        aligned(what, u64::from(addr), u64::from(map.swizzle.repeat()))
    }

    /// The manual does not say it; an H200 ends with an illegal instruction (docs/conformance.md).
    fn coordinate_alignment(map: &TensorMapDesc, coords: &[i32]) -> Result<(), Fault> {
        let size = map.dtype.size() as i64;
        if (i64::from(coords[0]) * size) % 16 == 0 {
            return Ok(());
        }
        let message = format!(
            "a box that begins at element {} of a row, {size} bytes each: not a multiple of 16 bytes",
            coords[0]
        );
        Err(Fault::new(Rule::Misaligned, message))
    }

    pub fn start(&mut self, t: u32, kind: Kind) {
        let loc = self.threads[t as usize].loc.expect("the instruction has begun");
        let queued = matches!(kind, Kind::CpAsync);
        let agent = self.guide.as_mut().map_or(0, |g| g.copy(t, queued));
        let priority = self.sched.issue();
        let mut landing = Landing::default();
        self.timed(|time| landing = time.starts(t, loc, &kind));
        self.copies.push(Copy { issuer: t, agent, priority, loc, kind, landing });
    }

    /// Marks the destination of a load as being written.
    fn target(
        &mut self,
        t: u32,
        cta: usize,
        dst: u32,
        bytes: u32,
        bar: u32,
    ) -> Result<Target, Fault> {
        let bar = self.bar_at((cta, bar))?;
        self.ctas[cta].smem.begin_write(dst, bytes).map_err(|c| self.conflict(cta, c))?;
        if let Some(guide) = &mut self.guide {
            guide.visit(cta);
            guide.touch(cta as u64, u64::from(dst), u64::from(bytes), true);
        }
        let site = self.race_target(t, (cta, dst, bytes))?;
        self.race_uses(t, bar, true)?;
        Ok(Target { cta, dst, bytes, bar, site })
    }

    /// `cp.async.bulk.tensor` to shared memory; `mask` for a multicast.
    pub fn tensor_load(
        &mut self,
        t: u32,
        dst: u32,
        map: *const [u64; 16],
        coords: &[i32],
        bar: u32,
        mask: Option<u16>,
    ) -> Result<(), Fault> {
        let map = self.tensor_map(map, coords.len())?;
        let (cta, dst) = self.split(t, dst)?;
        let (bar_cta, bar) = self.split(t, bar)?;
        Self::box_alignment("destination", dst, &map)?;
        Self::coordinate_alignment(&map, coords)?;
        if bar_cta != cta {
            let message = format!("data in CTA {cta}, mbarrier in CTA {bar_cta}: both in one");
            return Err(Fault::new(Rule::RemoteAddress, message));
        }
        let bytes = map.box_bytes();
        let coords = five(coords);
        let Some(mask) = mask else {
            let to = self.target(t, cta, dst, bytes, bar)?;
            self.race_gbox(t, &map, coords, to.bar)?;
            self.start(t, Kind::TensorLoad { map, coords, to });
            return Ok(());
        };
        if mask == 0 || u32::from(mask) >> self.ctas.len() != 0 {
            let message = format!("multicast mask {mask:#06x} in a cluster of {}", self.ctas.len());
            return Err(Fault::new(Rule::Operand, message));
        }
        for rank in (0..self.ctas.len()).filter(|r| mask >> r & 1 == 1) {
            // The same offsets in each destination; each must be there to receive.
            let (cta, dst) = self.split(t, (rank as u32 + 1) << 24 | dst)?;
            let to = self.target(t, cta, dst, bytes, bar)?;
            self.race_gbox(t, &map, coords, to.bar)?;
            self.start(t, Kind::TensorLoad { map: map.clone(), coords, to });
        }
        Ok(())
    }

    /// A store or reduction joins the thread's open bulk group.
    fn start_store(&mut self, t: u32, src: u32, bytes: u32, sink: Sink) -> Result<(), Fault> {
        let (cta, src) = self.own(t, src)?;
        self.ctas[cta].smem.begin_read(src, bytes).map_err(|c| self.conflict(cta, c))?;
        if let Some(guide) = &mut self.guide {
            guide.touch(cta as u64, u64::from(src), u64::from(bytes), false);
        }
        let thread = &mut self.threads[t as usize];
        let group = thread.bulk.add(thread.loc.expect("the instruction has begun"));
        self.race_store_source(t, (cta, src, bytes), group + 1)?;
        self.race_sink(t, &sink, bytes, group + 1)?;
        self.start(t, Kind::StoreRead { group, cta, src, bytes, sink });
        Ok(())
    }

    /// `cp.async.bulk.tensor` to global memory, or `cp.reduce.async.bulk.tensor`.
    pub fn tensor_store(
        &mut self,
        t: u32,
        map: *const [u64; 16],
        coords: &[i32],
        src: u32,
        combine: Combine,
    ) -> Result<(), Fault> {
        let map = self.tensor_map(map, coords.len())?;
        Self::box_alignment("source", self.own(t, src)?.1, &map)?;
        Self::coordinate_alignment(&map, coords)?;
        // Loads may begin before the tensor; of stores the manual says nothing, and an H200 ends with an
        // illegal instruction.
        if let Some(d) = coords.iter().position(|&x| x < 0) {
            let message =
                format!("a store that begins at {} in dimension {d}: not below 0", coords[d]);
            return Err(Fault::new(Rule::Operand, message));
        }
        if let Combine::Reduce(op) = combine
            && !crate::reduce::has(op, map.dtype)
        {
            let message = format!("reduction {op:?} of {:?}", map.dtype);
            return Err(Fault::new(Rule::TensorMap, message));
        }
        let bytes = map.box_bytes();
        self.start_store(t, src, bytes, Sink::Tensor { map, coords: five(coords), combine })
    }

    fn check_run(smem: u32, global: u64, bytes: u32) -> Result<(), Fault> {
        aligned("shared address", u64::from(smem), 16)?;
        aligned("global address", global, 16)?;
        aligned("size", u64::from(bytes), 16)
    }

    pub fn run_load(
        &mut self,
        t: u32,
        dst: u32,
        src: u64,
        bytes: u32,
        bar: u32,
    ) -> Result<(), Fault> {
        Self::check_run(dst, src, bytes)?;
        let (cta, dst) = self.own(t, dst)?;
        let (_, bar) = self.own(t, bar)?;
        let to = self.target(t, cta, dst, bytes, bar)?;
        self.race_grun(t, src, u64::from(bytes), to.bar)?;
        self.start(t, Kind::RunLoad { src, to });
        Ok(())
    }

    pub fn run_store(
        &mut self,
        t: u32,
        dst: u64,
        src: u32,
        bytes: u32,
        combine: Combine,
        dtype: DataType,
    ) -> Result<(), Fault> {
        Self::check_run(src, dst, bytes)?;
        self.start_store(t, src, bytes, Sink::Run { dst, combine, dtype })
    }

    pub fn copy_to_cta(
        &mut self,
        t: u32,
        rdst: u32,
        src: u32,
        bytes: u32,
        rbar: u32,
    ) -> Result<(), Fault> {
        Self::check_run(src, u64::from(rdst), bytes)?;
        let (cta, src) = self.own(t, src)?;
        let (to_cta, dst) = self.split(t, rdst)?;
        let (bar_cta, bar) = self.split(t, rbar)?;
        if bar_cta != to_cta {
            let message = format!("data in CTA {to_cta}, mbarrier in CTA {bar_cta}: both in one");
            return Err(Fault::new(Rule::RemoteAddress, message));
        }
        self.ctas[cta].smem.begin_read(src, bytes).map_err(|c| self.conflict(cta, c))?;
        if let Some(guide) = &mut self.guide {
            guide.touch(cta as u64, u64::from(src), u64::from(bytes), false);
        }
        self.race_copy_source(t, (cta, src, bytes))?;
        let to = self.target(t, to_cta, dst, bytes, bar)?;
        self.start(t, Kind::Peer { cta, src, to });
        Ok(())
    }

    pub fn bulk_wait(&mut self, t: u32, left: u32, read: bool) -> Poll<()> {
        self.woken(t);
        let covered = self.threads[t as usize].bulk.covered(left);
        if self.threads[t as usize].bulk.wait(left, read) {
            if let Some(guide) = &mut self.guide {
                guide.order.groups(t, covered, read);
            }
            let loc = self.threads[t as usize].loc;
            self.timed(|time| time.bulk_waited(t, loc, covered, left, read));
            self.edge(|race| {
                race.learns(t, Agent::BulkReads(t), covered);
                if !read {
                    race.learns(t, Agent::BulkWrites(t), covered);
                }
            });
            return Poll::Ready(());
        }
        self.sleep(t, Wait::BulkGroups { left, read });
        Poll::Pending
    }

    /// A copy lands.
    pub fn land(&mut self, i: usize) {
        let copy = self.copies.swap_remove(i);
        self.stats.copies += 1;
        self.sched.progress = true;
        self.sched.looks = 0;
        self.steps.note(copy.issuer, "(lands)", i as u32, Some(copy.loc));
        let (t, loc, landing) = (copy.issuer, copy.loc, copy.landing);
        self.timed(|time| time.lands(Some((landing, t))));
        if let Err(fault) = self.land_copy(copy) {
            self.fail_at(Some(t), Some(loc), fault);
        }
        self.timed(|time| time.lands(None));
    }

    fn land_copy(&mut self, copy: Copy) -> Result<(), Fault> {
        self.landing(&copy);
        match copy.kind {
            Kind::TensorLoad { map, coords, to } => {
                self.lands_in(to)?;
                let smem = &mut self.ctas[to.cta].smem;
                let bytes = smem.end_write(to.dst, to.bytes).expect("checked when it started");
                tma::load(&self.memory, &map, coords, to.dst, bytes)?;
                self.race_lands(to, None);
                self.mbarrier_complete(to.bar, to.bytes)
            }
            Kind::RunLoad { src, to } => {
                self.lands_in(to)?;
                let smem = &mut self.ctas[to.cta].smem;
                let bytes = smem.end_write(to.dst, to.bytes).expect("checked when it started");
                self.memory.read(src, bytes)?;
                self.race_lands(to, None);
                self.mbarrier_complete(to.bar, to.bytes)
            }
            Kind::Peer { cta, src, to } => {
                let data = self.take_source(cta, src, to.bytes)?;
                self.lands_in(to)?;
                let smem = &mut self.ctas[to.cta].smem;
                let bytes = smem.end_write(to.dst, to.bytes).expect("checked when it started");
                bytes.copy_from_slice(&data);
                self.race_lands(to, Some((cta, src)));
                self.mbarrier_complete(to.bar, to.bytes)
            }
            Kind::StoreRead { group, cta, src, bytes, sink } => {
                let data = self.take_source(cta, src, bytes)?;
                self.threads[copy.issuer as usize].bulk.read(group);
                let kind = Kind::StoreWrite { group, src, data, sink };
                let issuer = copy.issuer;
                let landing = Timing::written(copy.landing);
                self.copies.push(Copy { kind, landing, ..copy });
                self.recheck_bulk(issuer);
                Ok(())
            }
            Kind::StoreWrite { group, src, data, sink } => {
                match sink {
                    Sink::Tensor { map, coords, combine } => {
                        tma::store(&self.memory, &map, coords, src, &data, combine)?;
                    }
                    Sink::Run { dst, combine, dtype } => {
                        tma::store_run(&self.memory, dst, &data, combine, dtype)?;
                    }
                }
                self.memory.wrote();
                self.threads[copy.issuer as usize].bulk.wrote(group);
                self.recheck_bulk(copy.issuer);
                Ok(())
            }
            Kind::CpAsync => self.land_cp_async(copy.issuer),
        }
    }

    fn lands_in(&self, to: Target) -> Result<(), Fault> {
        if self.ctas[to.cta].live == 0 {
            let message = format!("{} bytes land in CTA {}, which has exited", to.bytes, to.cta);
            return Err(Fault::new(Rule::PeerGone, message));
        }
        Ok(())
    }

    fn take_source(&mut self, cta: usize, src: u32, bytes: u32) -> Result<Vec<u8>, Fault> {
        let smem = &mut self.ctas[cta].smem;
        let data = smem.read(src, bytes).map(<[u8]>::to_vec);
        smem.end_read(src, bytes);
        data.map_err(|c| self.conflict(cta, c))
    }

    /// Wakes a thread that waits for its bulk groups, to look at them again.
    fn recheck_bulk(&mut self, t: u32) {
        if matches!(self.threads[t as usize].wait, Wait::BulkGroups { .. })
            && self.threads[t as usize].wake == Wake::No
        {
            self.wake(t, 0);
        }
    }

    /// What a tensor map's prefetch checks.
    pub fn prefetch(&self, map: *const [u64; 16], rank: Option<usize>) -> Result<(), Fault> {
        if let Some(rank) = rank {
            return self.tensor_map(map, rank).map(|_| ());
        }
        let addr = map as u64;
        if addr == 0 || !addr.is_multiple_of(64) {
            let message = format!("tensor map at {addr:#x}: a multiple of 64, not null");
            return Err(Fault::new(Rule::TensorMap, message));
        }
        Ok(())
    }
}

fn five(coords: &[i32]) -> [i32; 5] {
    std::array::from_fn(|i| coords.get(i).copied().unwrap_or(0))
}
