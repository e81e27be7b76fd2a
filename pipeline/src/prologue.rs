//! What a kernel does before the grid ahead of it in the stream has ended.
//!
//! A kernel with `dependent = true` starts as soon as an SM has room for it, while the last CTAs of the
//! kernel before still run (programmatic dependent launch). Until that one has ended, nothing that it
//! may have written can be read. What can be done is done here: barriers are initialised, tensor maps
//! fetched, and the first tiles brought nearer, from memory into the L2 cache, where a later write
//! finds them: nothing is read too early by that.

use crate::cluster::ClusterShape;
use crate::roles::{Ready, Roles};
use crate::smem::{Place, Regions};
use core::marker::PhantomData;

/// A CTA whose shared memory is ready, before it may read what the grid ahead has written: it has no
/// ends of the plan `R` yet.
///
/// Waits for nothing. Signals nothing. PTX: the instructions before `griddepcontrol.wait`. CUTLASS: the
/// code before `wait_on_dependent_grids`.
///
/// ```
/// # use half::bf16;
/// # use pipeline::prelude::*;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # names! { Operands = "operands" }
/// type Alone = Cluster<1, 1>;
/// type Plan = SmemPlan<(Ring<4, (Tile<bf16, 128, 64>,), Tma, Reads<Math>, Operands, Alone>,)>;
///
/// fn kernel(cta: Cta<(Load, Math), Alone>, a: &TensorMap<Tile<bf16, 128, 64>>) {
///     let early = Plan::prologue(cta);
///     early.by_one(|one| a.tile(0, 0, Peers::ALONE).prefetch(one));
///     let (cta, (_ring,)) = early.wait();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// # let _ = kernel;
/// ```
#[must_use]
pub struct Prologue<R, Ro, K> {
    cta: Ready<Ro, K>,
    place: Place,
    plan: PhantomData<R>,
}

/// The thread that prefetches.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none. See the example of [`Prologue`].
pub struct Early(PhantomData<*const ()>);

impl<R: Regions, Ro: Roles, K: ClusterShape> Prologue<R, Ro, K> {
    /// # Safety
    /// The plan `R` is initialised at `place` and visible to this thread; once per thread.
    #[inline(always)]
    pub(crate) unsafe fn new(cta: Ready<Ro, K>, place: Place) -> Self {
        Self { cta, place, plan: PhantomData }
    }

    /// The CTA, to ask where it stands.
    ///
    /// Waits for nothing, signals nothing; PTX and CUTLASS: none. See the example of [`Prologue`].
    #[inline(always)]
    pub fn cta(&self) -> &Ready<Ro, K> {
        &self.cta
    }

    /// One thread of the CTA runs `prefetch`: the first one, whose warp loads in most kernels.
    ///
    /// Waits for the warp's other lanes. Signals nothing. PTX: a branch, `bar.warp.sync`. CUTLASS:
    /// `if (threadIdx.x == 0)`. See the example of [`Prologue`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn by_one(&self, prefetch: impl FnOnce(&Early)) {
        if isa::thread::thread_idx_x() == 0 {
            prefetch(&Early(PhantomData));
        }
        // The warp comes together again: ptxas would else allow for one in parts from here on, and keep
        // what wgmma needs out of the uniform registers.
        // SAFETY: the token says that the warp is converged, but for what the lines above did.
        unsafe { isa::warp::sync_warp(u32::MAX) }
    }

    /// Ends the prologue: from here on everything may be read, and the plan's ends are there.
    ///
    /// Waits until the grids that this one depends on have ended and their writes are visible; in a
    /// launch that depends on none, for nothing. Signals nothing. PTX: `griddepcontrol.wait`. CUTLASS:
    /// `wait_on_dependent_grids`. See the example of [`Prologue`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(self) -> (Ready<Ro, K>, R::Ends) {
        isa::griddepcontrol::wait();
        // SAFETY: `new`'s contract; `self` is spent.
        (self.cta, unsafe { R::ends(self.place) })
    }
}
