//! Roles: what the warp groups of a CTA do, and the tokens that prove that threads are converged.
//!
//! Invariant: a thread that holds a token is converged with the other threads of the token's scope. [`Cta`] and
//! [`Ready`] stand for the CTA, [`Warpgroup`] for a warp group, [`Warp`] for a warp, [`Elected`] for one thread.
//! An `.aligned` instruction is defined only if all threads of the warp execute it together (wgmma: all threads
//! of the warp group), and every function that uses one takes a token.
//!
//! A kernel declares its roles as types ([`roles!`](crate::roles!)), with the number of warp groups and the
//! registers of a thread. Block size, register budgets and the arrival counts of all barriers follow from them.
//!
//! Each thread gets one [`Cta`] token, at the kernel's entry. [`Cta::init`] turns it into [`Ready`], and
//! [`Ready::specialize`] into the token of the thread's role. No token can be copied, so a role can't hold the
//! token of another role.

use crate::cta::{ClusterCoord, ClusterShape, Regions, SmemPlan};
use crate::grid::BeforeWait;
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{AfterWait, CtaFacts, KernelArg, LaunchFacts, ParamMeta, RoleFacts};

/// The threads of a warp group: four warps. The index of the first one is a multiple of four.
pub const WARPGROUP_THREADS: u32 = 128;
/// The registers of an SM, which its threads share.
const REGISTER_FILE: u32 = 64 * 1024;

/// A role: one or more warp groups that run the same code.
///
/// (CUTLASS `WarpGroupRole`.)
///
/// ```
/// use warpipe_pipeline::{prelude::*, cta::Role};
/// roles! { Math = 2 x 232 registers }
/// assert_eq!((Math::GROUPS, Math::REGISTERS, Math::NAME), (2, 232, "Math"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a role",
    label = "not a role",
    note = "declare it: `roles! {{ Math = 2 x 232 registers }}`"
)]
pub trait Role: Copy + 'static {
    /// The number of its warp groups.
    const GROUPS: usize;
    /// The registers of each thread: a multiple of 8 from 24 to 256.
    const REGISTERS: u32;
    /// Its name in reports.
    const NAME: &'static str;
}

/// Declares roles, each with its number of warp groups and the registers of each thread.
///
/// (CUTLASS `WarpGroupRole`, `LoadRegisterRequirement`, `MmaRegisterRequirement`.)
///
/// ```
/// use warpipe_pipeline::prelude::*;
/// roles! {
///     /// Loads A and B.
///     Load = 1 x 40 registers,
///     Math = 2 x 232 registers
/// }
/// assert_eq!(Cta::<(Load, Math), Cluster<1, 1>>::THREADS, 384);
/// ```
#[macro_export]
macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident = $groups:literal x $registers:literal registers),+ $(,)?) => {$(
        $(#[$doc])*
        #[doc = concat!(
            "\n\nA role of ", stringify!($groups), " warp group(s) with ", stringify!($registers),
            " registers per thread."
        )]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl $crate::cta::Role for $name {
            const GROUPS: usize = $groups;
            const REGISTERS: u32 = $registers;
            const NAME: &'static str = stringify!($name);
        }
    )+};
}

/// Closes [`Roles`]: the warp groups and registers of a CTA are sums over its roles.
mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// The roles of a CTA: a tuple of two to four, in the order of their warps.
///
/// (CUTLASS `MaxThreadsPerBlock`.)
///
/// ```
/// use warpipe_pipeline::{prelude::*, cta::Roles};
/// roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// assert_eq!(<(Load, Math)>::GROUPS, 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the roles of a CTA",
    label = "not a tuple of two to four roles",
    note = "declare roles with `roles! {{ Load = 1 x 40 registers, Math = 2 x 232 registers }}` and name them as a tuple, in the order of their warps: `Cta<(Load, Math), _>`"
)]
pub trait Roles: Sealed + Copy + 'static {
    /// The number of warp groups of all roles.
    const GROUPS: usize;
    /// The registers of all threads together.
    const REGISTERS: u32;
    /// Each role as `warpipe inspect` prints it.
    const FACTS: &'static [RoleFacts] = &[];
}

/// The warp groups of a role, checked against what the hardware allows.
const fn groups<R: Role>() -> usize {
    assert!(R::GROUPS >= 1, "a role has at least one warp group");
    assert!(
        R::REGISTERS.is_multiple_of(8) && R::REGISTERS >= 24 && R::REGISTERS <= 256,
        "a role's registers are a multiple of 8 from 24 to 256"
    );
    R::GROUPS
}

/// The registers of each thread before [`Ready::specialize`], if an SM holds `ctas` CTAs: an equal share,
/// rounded down to a multiple of 8. `setmaxnreg` redistributes the shares of a CTA's threads. It can't use the
/// registers that the rounding leaves over.
const fn share(ctas: u32, groups: usize) -> u32 {
    REGISTER_FILE / (ctas * WARPGROUP_THREADS * groups as u32) / 8 * 8
}

/// The token of a CTA at the kernel's entry: all its threads are converged and nothing is initialised.
///
/// `#[kernel]` gives it to a kernel that takes one as its first parameter. Its type has the roles `R`, the
/// cluster's shape `Cl` and the shared-memory plan `P`. The launch takes its block size, cluster size and shared
/// memory from there. (PTX `.maxntid`, `.minnctapersm`, `.reqnctapercluster`.)
///
/// ```
/// # use isa::kernel::Kernel;
/// # use warpipe_pipeline::{barrier::LoadOrderBarrier, prelude::*};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # names! { First = "first" }
/// type Plan = SmemPlan<(LoadOrderBarrier<First>,)>;
///
/// #[isa::kernel]
/// fn product(cta: Cta<(Load, Math), Cluster<2, 1>, Plan>) {
///     let (cta, (_order,)) = cta.init();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// let facts = product::DESC.meta;
/// assert_eq!((facts.threads, facts.cluster, facts.smem_bytes), (384, [2, 1, 1], Plan::BYTES));
/// ```
#[must_use]
pub struct Cta<R, Cl, P = SmemPlan<()>> {
    shape: PhantomData<(R, Cl, P, *const ())>,
}

impl<R: Roles, Cl: ClusterShape, P> Cta<R, Cl, P> {
    /// The block size of the launch, in threads.
    pub const THREADS: u32 = {
        assert!(R::GROUPS <= 8, "a CTA has at most 1024 threads: 8 warp groups");
        assert!(
            R::REGISTERS <= WARPGROUP_THREADS * R::GROUPS as u32 * share(1, R::GROUPS),
            "the register budgets of all warp groups exceed what the CTA has: an equal share of the \
             SM's 65536 registers for each thread, rounded down to a multiple of 8"
        );
        WARPGROUP_THREADS * R::GROUPS as u32
    };
    const POOL_OF_TWO: u32 = WARPGROUP_THREADS * R::GROUPS as u32 * share(2, R::GROUPS);
    /// The number of CTAs that share an SM's registers: two if the budgets of all roles leave room for a second
    /// CTA (of this grid or of a dependent grid), else one.
    ///
    /// (PTX `.minnctapersm`; CUTLASS `MinBlocksPerMultiprocessor`.)
    pub const PER_SM: u32 = if R::REGISTERS <= Self::POOL_OF_TWO { 2 } else { 1 };
    const AT_ENTRY: u32 = share(Self::PER_SM, R::GROUPS);

    /// Makes the token. `#[kernel]` does it for a kernel; tests do it for the model of the SM.
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # fn kernel(_cta: Cta<(Load, Math), Cluster<1, 1>>) {}
    /// // SAFETY: the first thing that each thread does, in a launch of the token's shape.
    /// let entry = || kernel(unsafe { Cta::enter() });
    /// # entry();
    /// ```
    ///
    /// # Safety
    /// It is the first thing that a thread of the kernel does, and each thread does it once. The block has
    /// [`Self::THREADS`] threads, the cluster has the shape `Cl`, and the launch has the dynamic shared memory
    /// of the plan `P`.
    #[isa::forceinline]
    pub const unsafe fn enter() -> Self {
        Self { shape: PhantomData }
    }

    /// Lets dependent grids launch.
    ///
    /// They launch when every CTA of this grid has called it or has ended, as far as SMs have room. It suits a
    /// dependent grid that only initialises its barriers early. If the dependent grid prefetches,
    /// [`Elected::launch_dependents`] can do it later.
    ///
    /// Signals the launch of dependent grids. (PTX `griddepcontrol.launch_dependents`; CUTLASS
    /// `launch_dependent_grids`.)
    ///
    /// ```
    /// # use warpipe_pipeline::{barrier::LoadOrderBarrier, prelude::*};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # names! { First = "first" }
    /// # type Plan = SmemPlan<(LoadOrderBarrier<First>,)>;
    /// fn kernel(cta: Cta<(Load, Math), Cluster<1, 1>, Plan>) {
    ///     cta.launch_dependents();
    ///     let (early, _ends) = cta.prologue();
    ///     let _cta = early.wait();
    /// }
    /// # let _ = kernel;
    /// ```
    #[device]
    pub fn launch_dependents(&self) {
        isa::griddepcontrol::launch_dependents();
    }

    /// Synchronises the CTA, or in a cluster all CTAs of it.
    ///
    /// Afterwards all threads see the mbarriers that one thread has initialised and fenced, and nothing else:
    /// the cluster arrival is relaxed, because a releasing one is a `MEMBAR.ALL.GPU` before the first load.
    #[device]
    #[allow(clippy::unused_self)] // It consumes the token.
    pub(crate) fn sync(self) -> Ready<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: the token says that all threads of all CTAs are converged here.
            unsafe {
                isa::cluster::arrive_relaxed();
                isa::cluster::wait_acquire();
            }
        } else {
            // SAFETY: the token says that all threads of the CTA are converged here.
            unsafe { isa::thread::sync_threads() }
        }
        Ready { at: ClusterCoord::read(), here: PhantomData }
    }
}

// SAFETY: the token by itself accesses no memory.
unsafe impl<R: Roles, Cl: ClusterShape, P: Regions> AfterWait for Cta<R, Cl, SmemPlan<P>> {}

// SAFETY: the token has no parameter in the launch. `LaunchFacts::of` admits one token per kernel and the launch
// has its facts; the generated entry point makes the token first of all.
unsafe impl<R: Roles, Cl: ClusterShape, P: Regions> KernelArg for Cta<R, Cl, SmemPlan<P>> {
    type Abi = ();
    const META: ParamMeta = ParamMeta::NONE;
    const LAUNCH: Option<LaunchFacts> = Some(LaunchFacts {
        threads: Self::THREADS,
        min_ctas: Self::PER_SM,
        cluster: [Cl::SIZE as u32, 1, 1],
        smem_bytes: SmemPlan::<P>::BYTES,
    });
    const CTA: Option<&'static CtaFacts> = Some(&CtaFacts {
        roles: R::FACTS,
        registers_at_entry: Self::AT_ENTRY,
        cluster: [Cl::M as u32, Cl::N as u32],
        first_barrier: SmemPlan::<P>::first_barrier::<R>(),
        regions: P::FACTS,
    });
    #[isa::forceinline]
    unsafe fn from_abi((): ()) -> Self {
        // SAFETY: the caller is a kernel's entry point, whose metadata has this token's facts.
        unsafe { Self::enter() }
    }
}

/// The token of a CTA whose shared memory is initialised. All its threads are still converged.
///
/// ```
/// # use warpipe_pipeline::{prelude::*, cta::Ready};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// fn split(cta: Ready<(Load, Math), Cluster<2, 1>>) {
///     let third = cta.broadcast(cta.coord().cluster_id() / 3);
///     cta.specialize(|_load| {}, |_math| { let _ = third; });
/// }
/// ```
#[must_use]
pub struct Ready<R, Cl> {
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Roles, Cl: ClusterShape> Ready<R, Cl> {
    /// The number of warp groups of the CTA.
    const GROUPS: u32 = R::GROUPS as u32;

    /// This CTA's place in its cluster.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Ready`].
    #[isa::forceinline]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }

    /// Returns the first lane's value in all lanes of the warp.
    ///
    /// It is for a value that is the same in all lanes without the compiler knowing it, such as a quotient that
    /// bounds a loop. What depends on the result can stay in uniform registers. (PTX `shfl.sync.idx.b32`;
    /// CUTLASS `__shfl_sync`, as in `canonical_warp_idx_sync`.) See the example of [`Ready`].
    #[device]
    pub fn broadcast(&self, value: u32) -> u32 {
        // SAFETY: the token says that the warp is converged.
        unsafe { isa::warp::shfl_idx(value, 0) }
    }

    /// Enters role `Ro`, whose first warp group is `first`: sets the register budget and makes the token.
    #[device]
    fn take_role<Ro: Role>(&self, warp: u32, first: u32) -> Warpgroup<Ro, Cl> {
        isa::debug::label_role(Ro::NAME);
        // SAFETY: every warp of the warp group executes this once. The budgets of all roles fit into the CTA's
        // pool (checked in `Cta::THREADS`), so that `setmaxnreg.inc` gets its registers once the other roles
        // have released theirs.
        unsafe {
            if Ro::REGISTERS < Cta::<R, Cl>::AT_ENTRY {
                isa::setmaxnreg::dec_to(Ro::REGISTERS);
            } else if Ro::REGISTERS > Cta::<R, Cl>::AT_ENTRY {
                isa::setmaxnreg::inc_to(Ro::REGISTERS);
            }
        }
        let group = warp / 4;
        let (index, barrier) = (group - first, 1 + group);
        Warpgroup { index, barrier, warp: warp % 4, at: self.at, here: PhantomData }
    }
}

macro_rules! tuple_of_roles {
    ($($role:ident $run:ident),+) => {
        impl<$($role),+> Sealed for ($($role,)+) {}
        impl<$($role: Role),+> Roles for ($($role,)+) {
            const GROUPS: usize = 0 $(+ groups::<$role>())+;
            const REGISTERS: u32 =
                0 $(+ WARPGROUP_THREADS * $role::GROUPS as u32 * $role::REGISTERS)+;
            const FACTS: &'static [RoleFacts] = &[$(RoleFacts {
                name: $role::NAME,
                groups: $role::GROUPS as u32,
                registers: $role::REGISTERS,
            }),+];
        }

        impl<$($role: Role,)+ Cl: ClusterShape> Ready<($($role,)+), Cl> {
            /// Splits the CTA into its roles: each role runs its function, with the token of its warp group.
            ///
            /// The first role's code comes first in the kernel, so the first role should be the one that the
            /// others wait for. Registers move between the roles (`setmaxnreg`). Budgets that together exceed the
            /// CTA's registers do not compile.
            ///
            /// A role that needs more registers than its share waits until other roles release theirs. (PTX
            /// `setmaxnreg.dec.sync.aligned.u32`, `setmaxnreg.inc.sync.aligned.u32`; CUTLASS
            /// `warpgroup_reg_dealloc`, `warpgroup_reg_alloc`, the branches on `warp_group_role`.) See the
            /// example of [`Ready`].
            #[device]
            pub fn specialize(self, $($run: impl FnOnce(Warpgroup<$role, Cl>)),+) {
                // SAFETY: the token says that the CTA, and so every warp, is converged.
                let warp = unsafe { isa::warp::warp_id() };
                let group = warp / 4;
                // SAFETY: the launch has `Cta::THREADS` threads.
                unsafe { core::hint::assert_unchecked(group < Self::GROUPS) }
                let first = 0;
                $(
                    let end = first + $role::GROUPS as u32;
                    if group < end {
                        if first > 0 {
                            core::hint::cold_path();
                        }
                        $run(self.take_role::<$role>(warp, first));
                        return;
                    }
                    let first = end;
                )+
                let _ = first;
            }
        }

        impl<$($role: Role,)+ Cl: ClusterShape> BeforeWait<Ready<($($role,)+), Cl>> {
            /// Splits the CTA into its roles, as [`Ready::specialize`] does. See the example of [`BeforeWait`].
            #[device]
            pub fn specialize(
                self,
                $($run: impl FnOnce(BeforeWait<Warpgroup<$role, Cl>>)),+
            ) {
                self.token().specialize($(|group| $run(BeforeWait::of(group))),+);
            }
        }
    };
}
tuple_of_roles!(A a, B b);
tuple_of_roles!(A a, B b, C c);
tuple_of_roles!(A a, B b, C c, D d);

/// The token of one warp group of role `R`, whose 128 threads are converged, as wgmma needs.
///
/// (CUTLASS: the code under a branch on `warp_group_role`.)
///
/// ```
/// # use warpipe_pipeline::prelude::*;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// fn load(group: Warpgroup<Load, Cluster<1, 1>>) {
///     group.elect(|_one| { /* loads A and B */ });
/// }
/// fn load_c_too(group: Warpgroup<Load, Cluster<1, 1>>) {
///     group.two_warps(
///         |warp| if let Some(_one) = warp.elect() { /* loads A and B */ },
///         |warp| if let Some(_one) = warp.elect() { /* loads C */ },
///     );
/// }
/// fn math(group: &Warpgroup<Math, Cluster<1, 1>>) {
///     let _first_row = 64 * group.index() + 128 * group.coord().m();
///     assert!(group.thread() < 128);
///     for _ in 0..group.broadcast(_first_row / 3) {}
///     group.sync();
///     let _somewhere = group.any(group.thread() == 7);
///     let _in_the_first_warp_alone = group.any_of_warp(group.thread() == 7);
/// }
/// ```
#[must_use]
pub struct Warpgroup<R, Cl> {
    index: u32,
    barrier: u32,
    /// The index of this warp in the group.
    warp: u32,
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Role, Cl: ClusterShape> Warpgroup<R, Cl> {
    /// The index of this warp group in its role, `0..R::GROUPS`.
    ///
    /// (CUTLASS `canonical_warp_group_idx()`, minus the index of the role's first warp group.) See the example
    /// of [`Warpgroup`].
    #[isa::forceinline]
    pub fn index(&self) -> u32 {
        self.index
    }
    /// This CTA's place in its cluster.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Warpgroup`].
    #[isa::forceinline]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
    /// This thread's index in the group, `0..128`.
    ///
    /// (PTX `%tid.x`; CUTLASS `threadIdx.x % NumThreadsPerWarpGroup`.) See the example of [`Warpgroup`].
    #[isa::forceinline]
    pub fn thread(&self) -> u32 {
        isa::thread::thread_idx_x() % WARPGROUP_THREADS
    }
    /// Synchronises the 128 threads of the group, with a named barrier of its own. (PTX `barrier.cta.sync`;
    /// CUTLASS `NamedBarrier::sync`.) See the example of [`Warpgroup`].
    #[device]
    pub fn sync(&self) {
        // SAFETY: the token says that the four warps are converged; the barrier is theirs.
        unsafe { isa::barrier::sync(self.barrier, WARPGROUP_THREADS) }
    }
    /// Reconverges the lanes of the warp.
    ///
    /// It is for the end of code that some lanes skip, such as a store by one lane of each row. Without it, ptxas
    /// may assume that the warp stays diverged, and keep the values of the loop around it out of uniform registers.
    ///
    /// Waits for the warp's other lanes. (PTX `bar.warp.sync`; CUDA `__syncwarp`.) See the example of [`Warpgroup`].
    #[device]
    pub fn sync_warp(&self) {
        // SAFETY: the token says that all lanes of the warp come here.
        unsafe { isa::warp::sync_warp(u32::MAX) }
    }
    /// Returns the first lane's value in all lanes of the warp.
    ///
    /// It is for a value that is the same in all lanes without the compiler knowing it, such as a quotient that
    /// bounds a loop. What depends on the result can stay in uniform registers. (PTX `shfl.sync.idx.b32`;
    /// CUTLASS `__shfl_sync`, as in `canonical_warp_idx_sync`.) See the example of [`Warpgroup`].
    #[device]
    pub fn broadcast(&self, value: u32) -> u32 {
        // SAFETY: the token says that the warp is converged.
        unsafe { isa::warp::shfl_idx(value, 0) }
    }
    /// Whether `p` holds in any of the group's 128 threads.
    ///
    /// Waits for the group's other threads. (PTX `barrier.cta.red.or.pred`; CUDA `__syncthreads_or`.) See the example
    /// of [`Warpgroup`].
    #[device]
    pub fn any(&self, p: bool) -> bool {
        // SAFETY: as in `sync`.
        unsafe { isa::barrier::red_or(self.barrier, WARPGROUP_THREADS, p) }
    }
    /// Whether `p` holds in any lane of the warp. Each warp gets a result of its own.
    ///
    /// It is for arithmetic that a warp may leave out. What the whole group takes part in can't depend on it, because the
    /// group's warps may get different results; [`any`](Self::any) is for that.
    ///
    /// Waits for the warp's other lanes. (PTX `vote.sync.any.pred`; CUDA `__any_sync`.) See the example of [`Warpgroup`].
    #[device]
    pub fn any_of_warp(&self, p: bool) -> bool {
        // SAFETY: the token says that all lanes of the warp come here.
        unsafe { isa::warp::vote_any(p) }
    }
    /// Runs `run` in one thread of the group's first warp, as a producer that issues TMA loads does. The other
    /// threads do nothing.
    ///
    /// (PTX `elect.sync`; CUTLASS: the branches on `producer_warp_role` and `lane_predicate`.) See the example
    /// of [`Warpgroup`].
    #[device]
    pub fn elect(self, run: impl FnOnce(Elected<R, Cl>)) {
        self.four_warps(|warp| warp.elect_then(run), |_| {}, |_| {}, |_| {});
    }
    /// Runs one function in the group's first warp and another in the second. The other two warps do nothing.
    ///
    /// A ring's end that one function takes is not available to the other. (CUTLASS: the branches on
    /// `producer_warp_role`.) See the example of [`Warpgroup`].
    #[device]
    pub fn two_warps(self, w0: impl FnOnce(Warp<R, Cl>), w1: impl FnOnce(Warp<R, Cl>)) {
        self.four_warps(w0, w1, |_| {}, |_| {});
    }
    /// Runs a function in each of the group's four warps, as [`two_warps`](Self::two_warps) does in two.
    #[device]
    pub fn four_warps(
        self,
        w0: impl FnOnce(Warp<R, Cl>),
        w1: impl FnOnce(Warp<R, Cl>),
        w2: impl FnOnce(Warp<R, Cl>),
        w3: impl FnOnce(Warp<R, Cl>),
    ) {
        const { assert!(R::GROUPS == 1, "only a role of one warp group splits into warps") };
        let warp = Warp { at: self.at, here: PhantomData };
        match self.warp {
            0 => w0(warp),
            1 => w1(warp),
            2 => w2(warp),
            _ => w3(warp),
        }
    }
}

/// The token of one warp of role `R`, whose lanes are converged. No other warp runs its function.
///
/// (CUTLASS: the code under a branch on `producer_warp_role`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, cta::{Elected, Warp}};
/// # roles! { Load = 1 x 40 registers }
/// fn one(warp: Warp<Load, Cluster<2, 1>>) {
///     let _row = 128 * warp.coord().m();
///     let Some(_one): Option<Elected<Load, _>> = warp.elect() else { return };
/// }
/// ```
#[must_use]
pub struct Warp<R, Cl> {
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Role, Cl: ClusterShape> Warp<R, Cl> {
    /// This CTA's place in its cluster.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Warp`].
    #[isa::forceinline]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
    /// Elects one thread of the warp. The others get `None`.
    ///
    /// (PTX `elect.sync`; CUTLASS `elect_one_sync`.) See the example of [`Warp`].
    #[device]
    pub fn elect(self) -> Option<Elected<R, Cl>> {
        // SAFETY: the token says that the warp is converged, and is consumed.
        let one = unsafe { isa::warp::elect_one() };
        if one { Some(Elected { at: self.at, here: PhantomData }) } else { None }
    }
    /// Elects one thread of a warp that goes on together afterwards.
    #[device]
    pub(crate) fn elect_for_now(&self) -> Option<Elected<R, Cl>> {
        // SAFETY: the token says that the warp is converged; the caller reconverges it.
        let one = unsafe { isa::warp::elect_one() };
        if one { Some(Elected { at: self.at, here: PhantomData }) } else { None }
    }
    #[device]
    fn elect_then(self, run: impl FnOnce(Elected<R, Cl>)) {
        if let Some(one) = self.elect() {
            run(one);
        }
    }
}

/// The token of the one thread that a warp elected.
///
/// (CUTLASS: the code under `if (lane_predicate)`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, ring::*, cta::Elected};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
/// # type End = ProducerEnd<4, (Tile<bf16, 64, 64>,), Tma, Reads<Math>, Main, Pair>;
/// fn fill(one: &Elected<Load, Pair>, end: End, from: &TensorMap<Tile<bf16, 64, 64>>) {
///     let row = 64 * one.coord().m();
///     let mut empty = end.by(one);
///     empty.acquire().load((from.tile(row, 0, Peers::ALONE),));
///     empty.tail();
/// }
/// ```
#[must_use]
pub struct Elected<R, Cl> {
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Role, Cl: ClusterShape> Elected<R, Cl> {
    /// Lets dependent grids launch.
    ///
    /// They launch when every CTA of this grid has called it or has ended, as far as SMs have room. It is safe at
    /// any time, because a dependent grid waits for the end of this grid ([`BeforeWait::wait`]). A late launch
    /// helps a dependent grid that prefetches: the prefetched tiles are then still in L2 when it uses them.
    ///
    /// Signals the launch of dependent grids. (PTX `griddepcontrol.launch_dependents`; CUTLASS
    /// `launch_dependent_grids`.) See the example of [`BeforeWait`].
    #[device]
    pub fn launch_dependents(&self) {
        isa::griddepcontrol::launch_dependents();
    }

    /// This CTA's place in its cluster.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Elected`].
    #[isa::forceinline]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
}
