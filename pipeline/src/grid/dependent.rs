//! What a kernel does before the grid ahead of it in the stream has ended.
//!
//! A kernel with `dependent = true` starts as soon as an SM has room for it, while the last CTAs of the
//! kernel before still run (programmatic dependent launch). Until that one has ended, nothing that it
//! may have written can be read. What can be done is done before: barriers are initialised, tensor maps
//! fetched, roles taken, the first coordinates computed, and the first tiles brought nearer, from memory into the
//! L2 cache, where a later write finds them: nothing is read too early by that.

use crate::cta::{ClusterCoord, ClusterShape};
use crate::cta::{Elected, Ready, Role, Roles, Warp, Warpgroup};
use isa::device;

/// A token of a thread that may not read yet what the grid ahead has written: no end of a plan takes it.
/// [`wait`](Self::wait) gives the token itself.
///
/// (PTX the instructions before `griddepcontrol.wait`; CUTLASS the code before `wait_on_dependent_grids`.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::prelude::*;
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
#[must_use]
pub struct BeforeWait<T>(T);

impl<T> BeforeWait<T> {
    #[inline(always)]
    pub(crate) fn of(token: T) -> Self {
        Self(token)
    }

    /// The token, from where on everything may be read.
    ///
    /// Waits until the grids that this one depends on have ended and their writes are visible; in a launch
    /// that depends on none, for nothing. (PTX `griddepcontrol.wait`; CUTLASS `wait_on_dependent_grids`.) See
    /// the example of [`BeforeWait`].
    #[device]
    pub fn wait(self) -> T {
        isa::griddepcontrol::wait();
        self.0
    }

    /// The token, for what it does before the wait as well.
    #[inline(always)]
    pub(crate) fn token(self) -> T {
        self.0
    }
}

macro_rules! coord {
    ($($token:ident: $role:ident,)+) => {$(
        impl<R: $role, Cl: ClusterShape> BeforeWait<$token<R, Cl>> {
            /// Where this CTA stands.
            ///
            /// (CUTLASS `block_id_in_cluster`.) See the example of [`BeforeWait`].
            #[inline(always)]
            pub fn coord(&self) -> ClusterCoord<Cl> {
                self.0.coord()
            }
        }
    )+};
}
coord!(Ready: Roles, Warpgroup: Role, Warp: Role, Elected: Role,);

impl<R: Role, Cl: ClusterShape> BeforeWait<Warpgroup<R, Cl>> {
    /// [`Warpgroup::elect`]. See the example of [`BeforeWait`].
    #[device]
    pub fn elect(self, run: impl FnOnce(BeforeWait<Elected<R, Cl>>)) {
        self.0.elect(|one| run(BeforeWait::of(one)));
    }

    /// [`Warpgroup::two_warps`].
    #[device]
    pub fn two_warps(
        self,
        w0: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w1: impl FnOnce(BeforeWait<Warp<R, Cl>>),
    ) {
        self.0.two_warps(|w| w0(BeforeWait::of(w)), |w| w1(BeforeWait::of(w)));
    }

    /// [`Warpgroup::four_warps`].
    #[device]
    pub fn four_warps(
        self,
        w0: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w1: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w2: impl FnOnce(BeforeWait<Warp<R, Cl>>),
        w3: impl FnOnce(BeforeWait<Warp<R, Cl>>),
    ) {
        let early = BeforeWait::of;
        self.0.four_warps(|w| w0(early(w)), |w| w1(early(w)), |w| w2(early(w)), |w| w3(early(w)));
    }
}

impl<R: Role, Cl: ClusterShape> BeforeWait<Warp<R, Cl>> {
    /// [`Warp::elect`].
    ///
    /// Waits for the warp's other lanes. (PTX as for it; CUTLASS as for it.) See the example of
    /// [`BeforeWait`].
    #[device]
    pub fn elect(self) -> Option<BeforeWait<Elected<R, Cl>>> {
        self.0.elect().map(BeforeWait::of)
    }
}
