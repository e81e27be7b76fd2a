//! The grid throttle keeps the CTAs of a persistent grid close together, so that they share the L2 cache.
//!
//! Invariant: no result and no protocol depends on the throttle. Every wait is bounded.
//!
//! CTAs that compute neighbouring tiles read the same rows of A or columns of B. If they read them at about the
//! same time, the first read brings the data into L2 and the others hit there. CTAs run at slightly different
//! speeds, and a persistent CTA never stops. After some tiles the CTAs are at different columns, L2 has evicted
//! the shared data, and the same bytes come from memory again. That costs little time but much power, which a
//! large GEMM lacks.
//!
//! A step is a k tile. The throttle divides the steps of a launch into epochs. Shortly before the last loads of an epoch,
//! each CTA arrives at it. Before the first loads of the next epoch, it polls a counter until all CTAs have arrived, or
//! until it has used up its polls. The full ring hides a short wait.
//!
//! ```text
//!   loads of CTA 0   epoch 0 ........ arrive ....│ epoch 1 .......
//!   loads of CTA 1   epoch 0 .......... arrive ..│ epoch 1 .......
//!   loads of CTA 2   epoch 0 ...... arrive ..... wait │ epoch 1 .......
//! ```
//!
//! The counter has the sum of all arrivals. A CTA whose wait was in vain may arrive at a later epoch than the others. So a
//! CTA compares the arrivals of the launch with the number of its own. (It must not wait for the next whole epoch above the
//! value that it finds when it arrives: then the last CTA could wait for an epoch that can't be complete without it.)

use crate::cta::ClusterShape;
use crate::cta::{Elected, Role};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta};
use isa::slice::{DeviceSliceMut, SliceAbi};

/// The failed polls after which a wait is in vain. A poll takes about 0.7 µs, the round trip of an atomic.
const POLLS: u32 = 256;
/// How many steps before the end of an epoch a CTA arrives at it, unless the epoch is shorter than two times as many. Other
/// CTAs see the arrival before the consumers read what these last steps load.
const AHEAD: u32 = 8;
/// The most epochs of a launch. What they add to the counter must fit in it.
const EPOCHS: u32 = 1 << 14;

/// The counter of a grid throttle, which all CTAs of a grid share. An empty one throttles nothing.
///
/// A launch adds [`Throttle::EPOCH`] times its number of epochs to the counter, where that number is rounded up to a
/// power of two. All launches with one counter have the same number of epochs. A launch that is aborted may leave the
/// counter at another value. Waits of later launches may then end too early or be in vain, which costs only time.
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{grid::Throttle, prelude::*, cta::Elected};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// /// Loads three tiles of 128 k tiles each, in epochs of 64 k tiles.
/// fn load(one: &Elected<Load, Cluster<1, 1>>, throttle: &Throttle<'_>) {
///     let mut throttle = throttle.by(one, const { Throttle::epochs(3 * 128, 64) }, 64);
///     for tile in 0..3 {
///         for k in 0..128 {
///             throttle.step();
///             // acquire a slot, load ...
///         }
///     }
///     throttle.tail();
/// }
/// # let _ = load;
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Throttle<'a>(SliceAbi, PhantomData<&'a mut [u32]>);

/// One CTA's end of a [`Throttle`].
///
/// See the example of [`Throttle`].
#[must_use]
pub struct ThrottleEnd<'a> {
    /// Null if nothing is throttled.
    counter: *mut u32,
    /// The epochs of the launch.
    epochs: u32,
    /// Steps of an epoch.
    epoch: u32,
    /// Steps until this CTA arrives or, if it has arrived, until it waits.
    next: u32,
    /// Whether it has arrived at the epoch in which it is.
    waits: bool,
    /// The epochs at which it has arrived.
    arrived: u32,
    /// The failed polls that are left.
    polls: u32,
    one: PhantomData<(&'a (), *const ())>,
}

impl Throttle<'_> {
    /// No counter: the CTAs of the grid do not wait for one another.
    pub const NONE: Self = Self(SliceAbi { address: 0, elements: 0 }, PhantomData);

    /// The size of the counter in bytes. The host sets it to 0 before the first launch.
    pub const BYTES: usize = 4;

    /// The amount that the CTAs of a grid together add to the counter per epoch.
    ///
    /// It is a power of two, so that the counter may wrap. It is the same for all grids. In a grid with more CTAs, waits may
    /// end too early.
    pub const EPOCH: u32 = 1 << 16;

    /// Gives the CTA's end to the thread that issues its loads.
    ///
    /// `epoch` is the number of steps of an epoch, and `epochs` the number of epochs, as [`Throttle::epochs`] gives it. Both
    /// are the same for all CTAs. After the last epoch the CTAs no longer wait for one another. See the example of
    /// [`Throttle`].
    #[isa::forceinline]
    pub fn by<'a, R: Role, Cl: ClusterShape>(
        &'a self,
        _one: &'a Elected<R, Cl>,
        epochs: u32,
        epoch: u32,
    ) -> ThrottleEnd<'a> {
        let epoch = epoch.max(1);
        let throttles = self.0.elements > 0;
        debug_assert!(epochs == 0 || epochs.is_power_of_two(), "{epochs} epochs");
        ThrottleEnd {
            counter: if throttles { self.0.address as *mut u32 } else { core::ptr::null_mut() },
            epochs,
            epoch,
            next: if throttles { epoch - ahead(epoch) } else { u32::MAX },
            waits: false,
            arrived: 0,
            polls: POLLS,
            one: PhantomData,
        }
    }

    /// The epochs of a launch in which a CTA has at most `steps` steps, in epochs of `epoch` steps: a power of two up to
    /// 16384, or 0.
    ///
    /// The host computes it: a division on the device stands before the first load.
    #[isa::forceinline]
    #[must_use]
    pub const fn epochs(steps: u32, epoch: u32) -> u32 {
        let epoch = if epoch == 0 { 1 } else { epoch };
        match steps / epoch {
            0 => 0,
            EPOCHS.. => EPOCHS,
            whole => whole.next_power_of_two(),
        }
    }
}

/// How many steps before the end of an epoch a CTA arrives at it.
#[isa::forceinline]
fn ahead(epoch: u32) -> u32 {
    AHEAD.min(epoch / 2)
}

impl ThrottleEnd<'_> {
    /// Begins a step. At the first step of an epoch it waits until all CTAs have arrived at the epoch before, or until
    /// its polls are used up.
    ///
    /// A wait in vain takes about 180 µs. After one, the CTA waits again only when it has seen an epoch complete.
    /// (PTX: `atom.global.add.u32` to arrive, and a loop of them with 0 to wait.) See the example of [`Throttle`].
    #[isa::forceinline]
    pub fn step(&mut self) {
        // Twice in epochs of one step.
        while self.next == 0 {
            self.arrive_or_wait();
        }
        self.next -= 1;
    }

    #[device]
    fn arrive_or_wait(&mut self) {
        let ahead = ahead(self.epoch);
        if self.waits {
            self.wait();
            self.next = self.epoch - ahead;
        } else {
            self.arrive();
            self.next = ahead;
        }
        self.waits = !self.waits;
    }

    /// What this CTA adds to the counter when it arrives: the first one adds what the others leave of
    /// [`Throttle::EPOCH`], and each of them adds 1.
    #[device]
    fn share() -> u32 {
        match isa::thread::block_idx_x() {
            0 => Throttle::EPOCH.wrapping_sub(isa::thread::grid_dim_x() - 1),
            _ => 1,
        }
    }

    #[device]
    fn arrive(&mut self) {
        if self.arrived == self.epochs {
            return;
        }
        self.arrived += 1;
        // SAFETY: all CTAs access the word with atomics only.
        unsafe { isa::global::atomic_add_u32(self.counter, Self::share()) };
    }

    #[device]
    fn wait(&mut self) {
        // A launch begins at a multiple of what it adds, and does not reach the next multiple before this CTA's last arrival.
        // So these bits of the counter are the arrivals of this launch.
        if self.arrived == self.epochs {
            return;
        }
        let of_launch = self.epochs.wrapping_mul(Throttle::EPOCH).wrapping_sub(1);
        loop {
            // SAFETY: as in `arrive`.
            let now = unsafe { isa::global::atomic_add_u32(self.counter, 0) };
            if now & of_launch >= self.arrived * Throttle::EPOCH {
                self.polls = POLLS;
                return;
            }
            if self.polls == 0 {
                return;
            }
            self.polls -= 1;
        }
    }

    /// Arrives at the epochs at which this CTA has not arrived, so that the next launch finds the counter at a multiple of
    /// what it adds.
    ///
    /// (PTX `atom.global.add.u32`.) See the example of [`Throttle`].
    #[device]
    pub fn tail(self) {
        if self.counter.is_null() {
            return;
        }
        let left = self.epochs - self.arrived;
        // SAFETY: as in `arrive`.
        unsafe {
            isa::global::atomic_add_u32(self.counter, Self::share().wrapping_mul(left));
        }
    }
}

// SAFETY: the parameter is that of a slice of words that the kernel may write. A checked launch passes the address
// and length of a live buffer that no other argument has.
unsafe impl KernelArg for Throttle<'_> {
    type Abi = SliceAbi;
    const META: ParamMeta = <DeviceSliceMut<'_, u32> as KernelArg>::META;
    #[isa::forceinline]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self(abi, PhantomData)
    }
}

// SAFETY: `LAYOUT` is that of a slice of such elements. Access to the memory needs a token that exists only after
// the wait. The launch owns the memory, so there is no buffer of the user to borrow.
unsafe impl ByValue for Throttle<'_> {
    const LAYOUT: u64 = <super::DependentSliceMut<'_, u32> as ByValue>::LAYOUT;
}

// SAFETY: access needs an `Elected` token, which exists only after the wait for the primary grids (in `Cta::init`
// or `BeforeWait::wait`).
unsafe impl AfterWait for Throttle<'_> {}
