//! Programmatic dependent launch: what a dependent grid does before the primary grid has ended.
//!
//! Invariant: no thread reads or writes what the primary grid may have written before it has executed
//! `griddepcontrol.wait`. A thread that has not waited holds a [`BeforeWait`], which no ring, store or slice
//! accepts.
//!
//! A kernel with `dependent = true` starts as soon as SMs have room, while the last CTAs of the primary grid still
//! run. Before the wait it can initialise barriers, prefetch tensor maps, split into roles, compute its first
//! coordinates, and prefetch the first tiles into L2. The L2 prefetch is safe: L2 is coherent, so a later write of
//! the primary grid updates the prefetched lines.

use crate::cta::{ClusterCoord, ClusterShape};
use crate::cta::{Elected, Ready, Role, Roles, Warp, Warpgroup};
use core::mem::ManuallyDrop;
use isa::device;

/// A token of a thread that has not yet waited for the primary grids. No end of a plan accepts it.
///
/// [`wait`](Self::wait) waits and returns the token inside. (PTX: the instructions before `griddepcontrol.wait`;
/// CUTLASS: the code before `wait_on_dependent_grids`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::prelude::*;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # names! { Operands = "operands" }
/// type Alone = Cluster<1, 1>;
/// type Plan = SmemPlan<(Ring<4, (Tile<bf16, 128, 64>,), Tma, Reads<Math>, Operands, Alone>,)>;
///
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, a: &TensorMap<Tile<bf16, 128, 64>>) {
///     let (early, (ring,)) = cta.prologue();
///     early.specialize(
///         |load| {
///             load.elect(|early| {
///                 let row = 128 * early.coord().cluster_id();
///                 a.tile(row, 0, Peers::ALONE).prefetch(&early);
///                 let one = early.wait();
///                 let mut loads = ring.producer.by(&one);
///                 loads.acquire().load((a.tile(row, 0, Peers::ALONE),));
///                 loads.tail();
///             });
///         },
///         |math| {
///             let math = math.wait();
///             ring.consumer.by(&math).wait().release();
///         },
///     );
/// }
/// # let _ = kernel;
/// ```
///
/// A thread that drops the token waits too: a grid that has ended without a wait says nothing of the grids before
/// its primary, and a later grid may rely on that it does.
#[must_use = "a thread that drops it waits for the primary grids then: call `.wait()`, which returns the token"]
pub struct BeforeWait<T>(ManuallyDrop<T>);

impl<T> Drop for BeforeWait<T> {
    #[isa::forceinline]
    fn drop(&mut self) {
        isa::griddepcontrol::wait();
        // SAFETY: the token is dropped here once; `token`, which takes it, forgets `self`.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<T> BeforeWait<T> {
    #[isa::forceinline]
    pub(crate) fn of(token: T) -> Self {
        Self(ManuallyDrop::new(token))
    }

    /// Waits for the primary grids and returns the token. With the token, the thread may read what they wrote.
    ///
    /// Waits until the primary grids have ended and their writes are visible. A launch that has none does not
    /// wait. (PTX `griddepcontrol.wait`; CUTLASS `wait_on_dependent_grids`.) See the example of [`BeforeWait`].
    #[device]
    pub fn wait(self) -> T {
        isa::griddepcontrol::wait();
        self.token()
    }

    /// The token inside, for what is allowed before the wait too.
    #[isa::forceinline]
    pub(crate) fn token(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped: the token is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

macro_rules! coord {
    ($($token:ident: $role:ident,)+) => {$(
        impl<R: $role, Cl: ClusterShape> BeforeWait<$token<R, Cl>> {
            /// This CTA's place in its cluster.
            ///
            /// (CUTLASS `block_id_in_cluster`.) See the example of [`BeforeWait`].
            #[isa::forceinline]
            pub fn coord(&self) -> ClusterCoord<Cl> {
                self.0.coord()
            }
        }
    )+};
}
coord!(Ready: Roles, Warpgroup: Role, Warp: Role, Elected: Role,);

impl<R: Role, Cl: ClusterShape> BeforeWait<Warpgroup<R, Cl>> {
    /// Runs `run` in one thread of the group's first warp, as [`Warpgroup::elect`] does. See the example of
    /// [`BeforeWait`].
    #[device]
    pub fn elect(self, run: impl FnOnce(BeforeWait<Elected<R, Cl>>)) {
        self.token().elect(|one| run(BeforeWait::of(one)));
    }

    /// Runs a function in each of the group's first two warps, as [`Warpgroup::two_warps`] does.
    #[device]
    pub fn two_warps(
        self,
        w0: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w1: impl FnOnce(BeforeWait<Warp<R, Cl>>),
    ) {
        self.token().two_warps(|w| w0(BeforeWait::of(w)), |w| w1(BeforeWait::of(w)));
    }

    /// Runs a function in each of the group's four warps, as [`Warpgroup::four_warps`] does.
    #[device]
    pub fn four_warps(
        self,
        w0: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w1: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w2: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w3: impl FnOnce(BeforeWait<Warp<R, Cl>>),
    ) {
        let early = BeforeWait::of;
        self.token().four_warps(
            |w| w0(early(w)),
            |w| w1(early(w)),
            |w| w2(early(w)),
            |w| w3(early(w)),
        );
    }
}

impl<R: Role, Cl: ClusterShape> BeforeWait<Warp<R, Cl>> {
    /// Elects one thread of the warp, as [`Warp::elect`] does. See the example of [`BeforeWait`].
    #[device]
    pub fn elect(self) -> Option<BeforeWait<Elected<R, Cl>>> {
        self.token().elect().map(BeforeWait::of)
    }
}
