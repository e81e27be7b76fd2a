//! The parts of the machine that a cluster uses: memory, barriers, copies, warps, tensor cores.

use super::conflict;
use crate::barrier::cluster::ClusterBarrier;
use crate::barrier::mbarriers::Mbarriers;
use crate::barrier::named::NamedBarriers;
use crate::cluster::ctas::Ctas;
use crate::cluster::requests::Requests;
use crate::cluster::shape::Shape;
use crate::cluster::thread::Thread;
use crate::cluster::tokens::Tokens;
use crate::copy::copies::Copies;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::grid::stream::Member;
use crate::memory::global::GlobalMemory;
use crate::memory::handle::Handle;
use crate::memory::regions::Regions;
use crate::memory::shared::{Conflict, Shared};
use crate::race::explain::Names;
use crate::tensor::memory::TensorMemory;
use crate::tensor::pair::Pairs;
use crate::tensor::umma::Umma;
use crate::types::grid::SMEM_BASE;
use crate::types::loc::Loc;
use crate::warp::registers::Registers;
use crate::warp::rounds::Rounds;
use crate::warp::warps::Warp;
use crate::wgmma::groups::WarpGroup;
use crate::wgmma::held::Held;

/// The parts. Each keeps its own rules; what concerns two of them is here.
pub(crate) struct Machine {
    pub shape: Shape,
    pub threads: Vec<Thread>,
    pub ctas: Ctas,
    /// What the threads have taken, and must give back.
    pub tokens: Tokens,
    pub memory: Handle,
    /// The grid of the cluster, among those of the run.
    pub launches: Member,
    /// Shared memory, by CTA.
    pub smem: Vec<Shared>,
    /// The regions of it that the kernel declares.
    pub regions: Regions,
    pub mbarriers: Mbarriers,
    pub named: NamedBarriers,
    /// The barrier of all threads of the cluster.
    pub all: ClusterBarrier,
    pub warps: Vec<Warp>,
    pub registers: Registers,
    /// The `setmaxnreg`s of warp groups.
    pub rounds: Rounds,
    /// Warp groups, by CTA.
    pub groups: Vec<Vec<WarpGroup>>,
    /// The registers that their wgmmas hold.
    pub held: Vec<Vec<Held>>,
    pub copies: Copies,
    /// Tensor memory, by CTA.
    pub tensor: Vec<TensorMemory>,
    /// Pairs of CTAs that use it together.
    pub pairs: Pairs,
    /// What the cluster has asked of launch control.
    pub requests: Requests,
    /// The multiplications into it, and the registers loaded from it, by thread.
    pub umma: Umma,
    /// Whether reads of what nobody has written are reported.
    pub check_uninitialised: bool,
}

impl Machine {
    pub fn new(
        shape: Shape,
        memory: GlobalMemory,
        launches: Member,
        check_uninitialised: bool,
    ) -> Self {
        let (ctas, block, threads) = (shape.ctas(), shape.block_threads(), shape.threads());
        let smem = |_| Shared::new(shape.smem_bytes, check_uninitialised);
        Self {
            threads: Thread::all(&shape),
            ctas: Ctas::new(&shape),
            tokens: Tokens::new(threads),
            memory: Handle::new(memory),
            launches,
            smem: (0..ctas).map(smem).collect(),
            regions: Regions::default(),
            mbarriers: Mbarriers::default(),
            named: NamedBarriers::new(ctas, block),
            all: ClusterBarrier::new(threads),
            warps: Warp::all(&shape),
            registers: Registers::new(&shape),
            rounds: Rounds::new(&shape),
            groups: (0..ctas).map(|_| WarpGroup::all(block)).collect(),
            held: (0..ctas).map(|_| Held::all(block)).collect(),
            copies: Copies::new(threads),
            tensor: (0..ctas).map(|_| TensorMemory::default()).collect(),
            pairs: Pairs::default(),
            requests: Requests::default(),
            umma: Umma::default(),
            check_uninitialised,
            shape,
        }
    }

    #[inline]
    pub fn thread(&self, t: u32) -> &Thread {
        &self.threads[t as usize]
    }

    #[inline]
    pub fn thread_mut(&mut self, t: u32) -> &mut Thread {
        &mut self.threads[t as usize]
    }

    /// The line of the instruction that a thread executes.
    #[inline]
    pub fn line(&self, t: u32) -> Loc {
        self.thread(t).line()
    }

    /// The warp of a thread.
    pub fn warp_mut(&mut self, t: u32) -> &mut Warp {
        let warp = self.thread(t).warp;
        &mut self.warps[warp]
    }

    /// The warp group of a thread.
    pub fn group_mut(&mut self, t: u32) -> &mut WarpGroup {
        let thread = &self.threads[t as usize];
        &mut self.groups[thread.cta][thread.warp_group()]
    }

    /// What the wgmmas of a thread's warp group hold, and its index there.
    pub fn held_mut(&mut self, t: u32) -> (&mut Held, usize) {
        let thread = &self.threads[t as usize];
        let member = (thread.index % 128) as usize;
        (&mut self.held[thread.cta][thread.warp_group()], member)
    }

    /// The first thread of a warp.
    pub fn first_of_warp(&self, warp: usize) -> u32 {
        let (warp, per_cta) = (warp as u32, self.shape.warps_per_cta());
        warp / per_cta * self.shape.block_threads() + warp % per_cta * 32
    }

    /// Splits a `shared::cluster` address: rank of the CTA, and address there, for an access of `len`
    /// bytes, which must stay in the address's region.
    #[inline]
    pub fn split(&self, t: u32, addr: u32, len: u32) -> Result<(usize, u32), Fault> {
        let (cta, addr) = self.ctas.split(self.thread(t).cta, addr)?;
        Ok((cta, self.regions.check((cta, addr), len)?))
    }

    /// The same of a `shared::cta` address.
    #[inline]
    pub fn own(&self, t: u32, addr: u32, len: u32) -> Result<(usize, u32), Fault> {
        let (cta, addr) = Ctas::own(self.thread(t).cta, addr)?;
        Ok((cta, self.regions.check((cta, addr), len)?))
    }

    /// The live mbarrier at an address.
    pub fn bar_at(&self, (cta, addr): (usize, u32)) -> Result<usize, Fault> {
        mbarrier_address(addr)?;
        self.smem[cta].barrier_at(addr).ok_or_else(|| {
            let size = self.shape.smem_bytes;
            if addr < SMEM_BASE || addr - SMEM_BASE + 8 > size {
                self.conflict(cta, Conflict { rule: Rule::SharedBounds, addr })
            } else {
                let name = self.mbarriers.labels.name_of(cta, addr);
                let was = self.mbarriers.all().iter().any(|b| (b.cta, b.addr) == (cta, addr));
                let state = if was { "has been invalidated" } else { "was never initialised" };
                Fault::new(Rule::NotABarrier, format!("{name} of CTA {cta} {state}"))
            }
        })
    }

    /// The live mbarrier at a `shared::cta` address.
    pub fn own_bar(&self, t: u32, addr: u32) -> Result<usize, Fault> {
        self.bar_at(self.own(t, addr, 8)?)
    }

    /// The live mbarrier at a `shared::cluster` address.
    pub fn remote_bar(&self, t: u32, addr: u32) -> Result<usize, Fault> {
        self.bar_at(self.split(t, addr, 8)?)
    }

    /// Turns a conflict in shared memory into a fault that names the other side.
    pub fn conflict(&self, cta: usize, c: Conflict) -> Fault {
        if c.rule == Rule::WgmmaReads
            && let Some(loc) = self.umma.reads(cta, c.addr)
        {
            let message = format!(
                "shared address {:#x} (base + {}) of CTA {cta}, which a tcgen05.mma reads until a commit that covers it \
                 has completed",
                c.addr,
                c.addr.wrapping_sub(SMEM_BASE)
            );
            return Fault::new(c.rule, message).against("the tcgen05.mma", loc);
        }
        conflict::explain(
            c,
            cta,
            &self.smem[cta],
            (&self.mbarriers, &self.copies, &self.groups[cta]),
        )
    }

    /// What the words of a race name.
    pub fn names(&self) -> Names<'_> {
        Names { threads: &self.threads, bars: &self.mbarriers }
    }
}

/// Checks the alignment of an mbarrier.
pub(crate) fn mbarrier_address(addr: u32) -> Result<(), Fault> {
    if addr.is_multiple_of(8) {
        return Ok(());
    }
    let message = format!("mbarrier address {addr:#x} is not a multiple of 8");
    Err(Fault::new(Rule::Misaligned, message))
}
