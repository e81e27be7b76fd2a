//! Roles: what the warp groups of a CTA are for, and the tokens that stand for "these threads are
//! here together".
//!
//! A kernel names its roles as types ([`roles!`](crate::cta!)): how many warp groups each has and
//! how many registers a thread of it may use. Block size, register budgets and the arrival counts of
//! every barrier follow from that.
//!
//! An `.aligned` instruction is defined only when every thread of the warp (wgmma: of four warps)
//! executes it together. The tokens carry that fact: [`Cta`] exists once per thread, at the kernel's
//! entry; [`Ready::specialize`] consumes it and gives each part of the CTA the token of its role.
//! None can be copied, so a role can't hold another role's.

use crate::cta::{ClusterCoord, ClusterShape, Regions, SmemPlan};
use crate::grid::BeforeWait;
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{AfterWait, KernelArg, LaunchFacts, ParamMeta};

/// Threads of a warp group: four warps, the first one's index a multiple of four.
pub const WARPGROUP_THREADS: u32 = 128;
/// Registers of an SM, shared out among its threads.
const REGISTER_FILE: u32 = 64 * 1024;

/// A role: some warp groups that run the same code.
///
/// (CUTLASS `WarpGroupRole`.)
///
/// ```
/// use pipeline::{prelude::*, cta::Role};
/// roles! { Math = 2 x 232 registers }
/// assert_eq!((Math::GROUPS, Math::REGISTERS, Math::NAME), (2, 232, "Math"));
/// ```
pub trait Role: Copy + 'static {
    /// Warp groups.
    const GROUPS: usize;
    /// Registers of each thread: a multiple of 8 from 24 to 256.
    const REGISTERS: u32;
    /// How reports call it.
    const NAME: &'static str;
}

/// Declares roles: warp groups x registers of each thread, as in
/// `roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }`.
///
/// (CUTLASS `WarpGroupRole`, `LoadRegisterRequirement`, `MmaRegisterRequirement`.)
///
/// ```
/// use pipeline::prelude::*;
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
            "\n\nA role of ", stringify!($groups), " warp group(s), whose threads have ",
            stringify!($registers), " registers."
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

/// Closes [`Roles`]: warp groups and registers of a CTA are sums over its roles.
mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// The roles of a CTA: a tuple of two to four, in the order of their warps.
///
/// (CUTLASS `MaxThreadsPerBlock`.)
///
/// ```
/// use pipeline::{prelude::*, cta::Roles};
/// roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// assert_eq!(<(Load, Math)>::GROUPS, 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the roles of a CTA",
    label = "not a tuple of two to four roles",
    note = "declare roles with `roles! {{ Load = 1 x 40 registers, Math = 2 x 232 registers }}` and name them as a tuple, in the order of their warps: `Cta<(Load, Math), _>`"
)]
pub trait Roles: Sealed + Copy + 'static {
    /// Warp groups of all roles.
    const GROUPS: usize;
    /// Registers that all threads use together.
    const REGISTERS: u32;
}

/// Warp groups of a role that the hardware can have.
const fn groups<R: Role>() -> usize {
    assert!(R::GROUPS >= 1, "a role has at least one warp group");
    assert!(
        R::REGISTERS.is_multiple_of(8) && R::REGISTERS >= 24 && R::REGISTERS <= 256,
        "a role's registers are a multiple of 8 from 24 to 256"
    );
    R::GROUPS
}

/// Registers of each thread before [`Ready::specialize`], where an SM holds `ctas`: an equal share, in
/// units of 8. All of a CTA's are the pool that `setmaxnreg` moves registers in; what rounding leaves
/// over is not in it.
const fn share(ctas: u32, groups: usize) -> u32 {
    REGISTER_FILE / (ctas * WARPGROUP_THREADS * groups as u32) / 8 * 8
}

/// All threads of the CTA, converged, before anything else has happened.
///
/// A kernel that takes one as its first parameter gets it from `#[kernel]`. Its type says the roles `R`,
/// the shape `K` of the cluster and the plan `P` of its shared memory, and with that all that a launch
/// has to know: nothing of it is stated a second time.
///
/// (PTX `.maxntid`, `.minnctapersm`, `.reqnctapercluster`.)
///
/// ```
/// # use isa::kernel::{self, Kernel};
/// # use pipeline::{barrier::LoadOrderBarrier, prelude::*};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # names! { First = "first" }
/// type Plan = SmemPlan<(LoadOrderBarrier<First>,)>;
///
/// #[isa::kernel]
/// fn kernel(cta: Cta<(Load, Math), Cluster<2, 1>, Plan>) {
///     let (cta, (_order,)) = cta.init();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// let facts = kernel::DESC.meta;
/// assert_eq!((facts.threads, facts.cluster, facts.smem_bytes), (384, [2, 1, 1], Plan::BYTES));
/// ```
#[must_use]
pub struct Cta<R, Cl, P = SmemPlan<()>> {
    shape: PhantomData<(R, Cl, P, *const ())>,
}

impl<R: Roles, Cl: ClusterShape, P> Cta<R, Cl, P> {
    /// Block size of the launch.
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
    /// CTAs that an SM's registers are shared out among: two, where the budgets of all roles leave
    /// room for a second CTA (of this grid, or of the one behind it), else one.
    ///
    /// (PTX `.minnctapersm`; CUTLASS `MinBlocksPerMultiprocessor`.)
    pub const PER_SM: u32 = if R::REGISTERS <= Self::POOL_OF_TWO { 2 } else { 1 };
    const AT_ENTRY: u32 = share(Self::PER_SM, R::GROUPS);

    /// Forges the token.
    ///
    /// ```
    /// # use pipeline::prelude::*;
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # fn kernel(_cta: Cta<(Load, Math), Cluster<1, 1>>) {}
    /// // SAFETY: the first thing that each thread does, in a launch of the token's shape.
    /// let entry = || kernel(unsafe { Cta::enter() });
    /// # entry();
    /// ```
    ///
    /// # Safety
    /// First thing in a kernel, at most once per thread, with a block of [`Self::THREADS`] threads
    /// in a cluster of shape `K`, with as much dynamic shared memory as the plan `P` has bytes.
    #[inline(always)]
    pub const unsafe fn enter() -> Self {
        Self { shape: PhantomData }
    }

    /// Lets the grid behind this one start at once, as far as SMs have room, once every CTA of this grid
    /// has said so or has ended: for grids of which the one behind has nothing to do early but to
    /// initialise its barriers. Else [`Elected::launch_dependents`], later.
    ///
    /// Signals the launch of dependent grids. (PTX `griddepcontrol.launch_dependents`; CUTLASS
    /// `launch_dependent_grids`.)
    ///
    /// ```
    /// # use pipeline::{barrier::LoadOrderBarrier, prelude::*};
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

    /// Meets the whole CTA, and the whole cluster where there is one: the mbarriers that one thread
    /// initialised and fenced before are seen by all after. Nothing else is: an arrival that releases
    /// is a `MEMBAR.ALL.GPU`, before the first load.
    #[device]
    #[allow(clippy::unused_self)] // The token is what is spent.
    pub(crate) fn meet(self) -> Ready<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: the token says that all threads of all CTAs are converged here.
            unsafe {
                isa::cluster::arrive_relaxed();
                isa::cluster::wait_acquire();
            }
        } else {
            // SAFETY: likewise, for the CTA.
            unsafe { isa::thread::sync_threads() }
        }
        Ready { at: ClusterCoord::read(), here: PhantomData }
    }
}

// SAFETY: the token alone reaches no memory.
unsafe impl<R: Roles, Cl: ClusterShape, P: Regions> AfterWait for Cta<R, Cl, SmemPlan<P>> {}

// SAFETY: nothing crosses the launch; `LaunchFacts::of` admits one token a kernel, whose facts are those
// of the launch, and the generated entry makes it first of all.
unsafe impl<R: Roles, Cl: ClusterShape, P: Regions> KernelArg for Cta<R, Cl, SmemPlan<P>> {
    type Abi = ();
    const META: ParamMeta = ParamMeta::NONE;
    const LAUNCH: Option<LaunchFacts> = Some(LaunchFacts {
        threads: Self::THREADS,
        min_ctas: Self::PER_SM,
        cluster: [Cl::SIZE as u32, 1, 1],
        smem_bytes: SmemPlan::<P>::BYTES,
    });
    #[inline(always)]
    unsafe fn from_abi((): ()) -> Self {
        // SAFETY: the caller is a kernel's entry, whose metadata has this token's facts.
        unsafe { Self::enter() }
    }
}

/// The CTA after its shared memory is initialised, still converged.
///
/// ```
/// # use pipeline::{prelude::*, cta::Ready};
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
    /// Warp groups of the CTA.
    const GROUPS: u32 = R::GROUPS as u32;

    /// Where this CTA stands.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Ready`].
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }

    /// The first lane's value, in all lanes: for a value that is the same in all of them without the
    /// compiler's knowing, such as a quotient that bounds a loop. What depends on it stays uniform.
    ///
    /// Waits for the warp's other lanes. (PTX `shfl.sync.idx.b32`; CUTLASS `__shfl_sync`, as in
    /// `canonical_warp_idx_sync`.) See the example of [`Ready`].
    #[device]
    pub fn broadcast(&self, value: u32) -> u32 {
        // SAFETY: the token says that the warp is converged.
        unsafe { isa::warp::shfl_idx(value, 0) }
    }

    /// Enters role `Ro`, whose first warp group is `first`: moves registers, makes the token.
    #[device]
    fn take_role<Ro: Role>(&self, warp: u32, first: u32) -> Warpgroup<Ro, Cl> {
        isa::debug::label_role(Ro::NAME);
        // SAFETY: every warp of the warp group executes this once; the budgets of all roles fit
        // into the CTA's pool (`Cta::THREADS`), so a request is met when the others have given.
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
        }

        impl<$($role: Role,)+ Cl: ClusterShape> Ready<($($role,)+), Cl> {
            /// Splits the CTA: each role runs its function, in which each thread has the token of
            /// its warp group. The first role's code comes first: name the one that the others wait for.
            ///
            /// Registers move between the roles: a thread gives up what its role does not need
            /// (`setmaxnreg.dec`) or waits until it can have what the role needs
            /// (`setmaxnreg.inc`). Budgets that together exceed the CTA's registers do not compile.
            ///
            /// Waits for registers that other roles give up, where the role needs more than its share.
            /// Signals nothing but the registers given up. (PTX `setmaxnreg.dec.sync.aligned.u32`,
            /// `setmaxnreg.inc.sync.aligned.u32`; CUTLASS `warpgroup_reg_dealloc`, `warpgroup_reg_alloc`, the
            /// branches on `warp_group_role`.) See the example of [`Ready`].
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
            /// [`Ready::specialize`].
            ///
            /// Waits for and signals what that does. (PTX as for it; CUTLASS as for it.) See the example of
            /// [`BeforeWait`].
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

/// One warp group of role `R`, converged: what wgmma needs.
///
/// CUTLASS: the code under a branch on `warp_group_role`.
///
/// ```
/// # use pipeline::prelude::*;
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
/// }
/// ```
#[must_use]
pub struct Warpgroup<R, Cl> {
    index: u32,
    barrier: u32,
    /// Which of its warps this is.
    warp: u32,
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Role, Cl: ClusterShape> Warpgroup<R, Cl> {
    /// Which warp group of the role this is, `0..R::GROUPS`.
    ///
    /// (CUTLASS `canonical_warp_group_idx()`, less the role's first.) See the example of [`Warpgroup`].
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index
    }
    /// Where this CTA stands.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Warpgroup`].
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
    /// This thread's place in the group, `0..128`.
    ///
    /// (PTX `%tid.x`; CUTLASS `threadIdx.x % NumThreadsPerWarpGroup`.) See the example of [`Warpgroup`].
    #[inline(always)]
    pub fn thread(&self) -> u32 {
        isa::thread::thread_idx_x() % WARPGROUP_THREADS
    }
    /// Meets the 128 threads of the group, on a hardware barrier of its own.
    ///
    /// Waits for the group's other threads. Signals the group's hardware barrier. (PTX `barrier.cta.sync`;
    /// CUTLASS `NamedBarrier::sync`.) See the example of [`Warpgroup`].
    #[device]
    pub fn sync(&self) {
        // SAFETY: the token says that the four warps are converged; the barrier is theirs.
        unsafe { isa::barrier::sync(self.barrier, WARPGROUP_THREADS) }
    }
    /// The first lane's value, in all lanes: for a value that is the same in all of them without the
    /// compiler's knowing, such as a quotient that bounds a loop. What depends on it stays uniform.
    ///
    /// Waits for the warp's other lanes. (PTX `shfl.sync.idx.b32`; CUTLASS `__shfl_sync`, as in
    /// `canonical_warp_idx_sync`.) See the example of [`Warpgroup`].
    #[device]
    pub fn broadcast(&self, value: u32) -> u32 {
        // SAFETY: the token says that the warp is converged.
        unsafe { isa::warp::shfl_idx(value, 0) }
    }
    /// Runs `run` in one thread of the first of a role's four warps: the usual producer. The other threads
    /// do nothing.
    ///
    /// (PTX `elect.sync`; CUTLASS the branches on `producer_warp_role` and `lane_predicate`.) See the example
    /// of [`Warpgroup`].
    #[device]
    pub fn elect(self, run: impl FnOnce(Elected<R, Cl>)) {
        self.four_warps(|warp| warp.elect_then(run), |_| {}, |_| {}, |_| {});
    }
    /// Runs one function in the first of a role's four warps and another in the second; the other two do
    /// nothing. An end that one function takes is gone for the other.
    ///
    /// CUTLASS: the branches on `producer_warp_role`. See the example of [`Warpgroup`].
    #[device]
    pub fn two_warps(self, w0: impl FnOnce(Warp<R, Cl>), w1: impl FnOnce(Warp<R, Cl>)) {
        self.four_warps(w0, w1, |_| {}, |_| {});
    }
    /// [`two_warps`](Self::two_warps) for all four warps of a role of one warp group.
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

/// One warp of role `R`, converged; the only one that runs its function.
///
/// (CUTLASS none: the code under a branch on `producer_warp_role`.)
///
/// ```
/// # use pipeline::{prelude::*, cta::{Elected, Warp}};
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
    /// Where this CTA stands.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Warp`].
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
    /// Picks one thread of the warp; the others get `None`.
    ///
    /// Waits for the warp's other lanes. (PTX `elect.sync`; CUTLASS `elect_one_sync`.) See the example of
    /// [`Warp`].
    #[device]
    pub fn elect(self) -> Option<Elected<R, Cl>> {
        // SAFETY: the token says that the warp is converged, and is consumed.
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

/// The one thread that a warp elected.
///
/// (CUTLASS none: the code under `if (lane_predicate)`.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, ring::*, cta::Elected};
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
    /// Lets the grid behind this one start, as far as SMs have room for it beside this CTA, once every
    /// CTA of this grid has said so or has ended. It waits for the end of this grid by itself
    /// ([`BeforeWait::wait`]), so nothing can go wrong by saying it
    /// early; what it prefetches meanwhile is of use if it comes late.
    ///
    /// Signals the launch of dependent grids. (PTX `griddepcontrol.launch_dependents`; CUTLASS
    /// `launch_dependent_grids`.) See the example of [`BeforeWait`].
    #[device]
    pub fn launch_dependents(&self) {
        isa::griddepcontrol::launch_dependents();
    }

    /// Where this CTA stands.
    ///
    /// (CUTLASS `block_id_in_cluster`.) See the example of [`Elected`].
    #[inline(always)]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
}
