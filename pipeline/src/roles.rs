//! Roles: the tokens that stand for "these threads are here together".
//!
//! An `.aligned` instruction is defined only when every thread of the warp (wgmma: of the four
//! warps) executes it together. The tokens carry that fact: [`Cta`] exists once per thread, at the
//! kernel's entry; [`Ready::specialize`] consumes it and hands each part of the CTA the token of
//! its role. None can be copied, so a role can't hold another role's.

use crate::cluster::{ClusterCoord, ClusterShape};
use core::marker::PhantomData;
use isa::kernel::{KernelArg, ParamKind, ParamMeta};

/// Threads of a warp group: four warps, the first one's index a multiple of four.
pub const WARPGROUP_THREADS: u32 = 128;
/// Registers of an SM, shared out among its threads.
const REGISTER_FILE: u32 = 64 * 1024;

/// All threads of the CTA, converged, before anything else has happened: one producer warp group
/// and `CONSUMERS` consumer warp groups, in a cluster of shape `K`.
///
/// A kernel that takes one as its first parameter gets it from `#[kernel]`.
#[must_use]
pub struct Cta<const CONSUMERS: usize, K> {
    shape: PhantomData<(K, *const ())>,
}

impl<const CONSUMERS: usize, K: ClusterShape> Cta<CONSUMERS, K> {
    /// Block size of the launch.
    pub const THREADS: u32 = {
        assert!(CONSUMERS >= 1 && CONSUMERS <= 3, "from 1 to 3 consumer warp groups");
        WARPGROUP_THREADS * (1 + CONSUMERS as u32)
    };

    /// Forges the token.
    ///
    /// # Safety
    /// First thing in a kernel, at most once per thread, with a block of [`Self::THREADS`] threads
    /// in a cluster of shape `K`.
    #[inline(always)]
    pub const unsafe fn enter() -> Self {
        Self { shape: PhantomData }
    }

    /// Meets the whole CTA, and the whole cluster where there is one: what one thread wrote and
    /// fenced before is seen by all after.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn meet(self) -> Ready<CONSUMERS, K> {
        if K::SIZE > 1 {
            // SAFETY: the token says that all threads of all CTAs are converged here.
            unsafe {
                isa::cluster::arrive_release();
                isa::cluster::wait_acquire();
            }
        } else {
            // SAFETY: likewise, for the CTA.
            unsafe { isa::thread::sync_threads() }
        }
        Ready { at: ClusterCoord::read(), here: PhantomData }
    }
}

// SAFETY: nothing crosses the launch; `KernelMeta::new` admits one token a kernel and compares its
// threads and cluster with the launch bounds, and the generated entry makes it first of all.
unsafe impl<const CONSUMERS: usize, K: ClusterShape> KernelArg for Cta<CONSUMERS, K> {
    type Abi = ();
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::Context as u32,
        box_rows: Self::THREADS,
        box_cols: K::SIZE as u32,
        ..ParamMeta::NONE
    };
    #[inline(always)]
    unsafe fn from_abi((): ()) -> Self {
        // SAFETY: the caller is a kernel's entry, whose metadata admitted this token.
        unsafe { Self::enter() }
    }
}

/// The CTA after its shared memory is initialised, still converged.
#[must_use]
pub struct Ready<const CONSUMERS: usize, K> {
    at: ClusterCoord<K>,
    here: PhantomData<*const ()>,
}

impl<const CONSUMERS: usize, K: ClusterShape> Ready<CONSUMERS, K> {
    /// Where this CTA stands.
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<K> {
        self.at
    }

    /// Splits the CTA: warp group 0 runs `producer`, the others `consumer`.
    ///
    /// Registers move from the producer to the consumers: each producer thread keeps `LOAD_REGS`
    /// (`setmaxnreg.dec`), each consumer thread gets `MMA_REGS` (`setmaxnreg.inc`, which waits
    /// until they are free). Budgets that are not multiples of 8 in 24..=256, or that together
    /// exceed the register file, do not compile. (CUTLASS `warpgroup_reg_dealloc`,
    /// `warpgroup_reg_alloc`.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn specialize<const LOAD_REGS: u32, const MMA_REGS: u32>(
        self,
        producer: impl FnOnce(ProducerWarps<K>),
        consumer: impl FnOnce(Warpgroup<CONSUMERS, K>),
    ) {
        const {
            assert!(
                LOAD_REGS % 8 == 0 && LOAD_REGS >= 24 && MMA_REGS % 8 == 0 && MMA_REGS <= 256,
                "register budgets are multiples of 8 from 24 to 256"
            );
            assert!(
                WARPGROUP_THREADS * (LOAD_REGS + CONSUMERS as u32 * MMA_REGS) <= REGISTER_FILE,
                "the register budgets of all warp groups exceed the SM's 65536 registers"
            );
            let at_entry = REGISTER_FILE / (WARPGROUP_THREADS * (1 + CONSUMERS as u32)) / 8 * 8;
            assert!(
                LOAD_REGS <= at_entry && at_entry <= MMA_REGS,
                "the producer gives registers up and the consumers take them: the producer's \
                 budget is at most, the consumers' at least, an equal share"
            );
        }
        // SAFETY: the token says that the CTA, and so every warp, is converged.
        let warp = unsafe { isa::warp::warp_id() };
        if warp < 4 {
            // SAFETY: every warp of warp group 0 executes this; the budget is checked above.
            unsafe { isa::setmaxnreg::dec::<LOAD_REGS>() };
            producer(ProducerWarps { warp, at: self.at, here: PhantomData });
        } else {
            // SAFETY: every warp of each other warp group executes this.
            unsafe { isa::setmaxnreg::inc::<MMA_REGS>() };
            consumer(Warpgroup { index: warp / 4 - 1, at: self.at, here: PhantomData });
        }
    }
}

/// One warp of the producer warp group, converged.
#[must_use]
pub struct ProducerWarps<K> {
    warp: u32,
    at: ClusterCoord<K>,
    here: PhantomData<*const ()>,
}

impl<K: ClusterShape> ProducerWarps<K> {
    /// Which warp of the group this is, `0..4`.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.warp
    }
    /// Picks one thread of the warp (`elect.sync`); the others get `None`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn elect(self) -> Option<Elected<K>> {
        // SAFETY: the token says that the warp is converged, and is consumed.
        let one = unsafe { isa::warp::elect_one() };
        if one { Some(Elected { at: self.at, here: PhantomData }) } else { None }
    }
}

/// The one thread that a warp elected.
#[must_use]
pub struct Elected<K> {
    at: ClusterCoord<K>,
    here: PhantomData<*const ()>,
}

impl<K: ClusterShape> Elected<K> {
    /// Where this CTA stands.
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<K> {
        self.at
    }
}

/// One consumer warp group of `CONSUMERS`, converged: what wgmma needs.
#[must_use]
pub struct Warpgroup<const CONSUMERS: usize, K> {
    index: u32,
    at: ClusterCoord<K>,
    here: PhantomData<*const ()>,
}

/// Hardware barriers 1 to 3 belong to the consumer warp groups; 0 is the CTA's.
pub(crate) const FIRST_FREE_BARRIER: u32 = 4;

impl<const CONSUMERS: usize, K: ClusterShape> Warpgroup<CONSUMERS, K> {
    /// Which consumer this is, `0..CONSUMERS`.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index
    }
    /// Where this CTA stands.
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<K> {
        self.at
    }
    /// This thread's place in the group, `0..128`.
    #[inline(always)]
    pub fn thread(&self) -> u32 {
        isa::thread::thread_idx_x() % WARPGROUP_THREADS
    }
    /// Meets the 128 threads of the group: `barrier.cta.sync` on the group's own hardware barrier.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sync(&self) {
        // SAFETY: the token says that the four warps are converged; barriers 1..=3 are theirs.
        unsafe { isa::barrier::sync(1 + self.index, WARPGROUP_THREADS) }
    }
}
