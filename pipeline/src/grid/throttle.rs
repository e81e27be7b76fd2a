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
//! The throttle divides a launch into epochs, one between each two tiles of a CTA. Near the end of a tile's
//! loads, each CTA arrives at the epoch. Before the next tile's loads, it polls a counter until all CTAs have
//! arrived, or until it has used up its polls.
//!
//! ```text
//!   loads of CTA 0   tile 0 ........ arrive ....│ tile 1 .......
//!   loads of CTA 1   tile 0 .......... arrive ..│ tile 1 .......
//!   loads of CTA 2   tile 0 ...... arrive ..... wait │ tile 1 .......
//! ```

use crate::cta::ClusterShape;
use crate::cta::{Elected, Role};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta};
use isa::slice::{DeviceSliceMut, SliceAbi};

/// The failed polls that a CTA may make in a launch, before it stops waiting. A poll takes about 0.7 µs, the round
/// trip of an atomic.
const POLLS: u32 = 256;
/// The polls that each completed epoch adds.
const POLLS_PER_EPOCH: u32 = 4;

/// The counter of a grid throttle, which all CTAs of a grid share. An empty one throttles nothing.
///
/// A launch adds [`Throttle::EPOCH`] to the counter for each epoch. A launch that is aborted may leave the counter
/// at another value. Waits of later launches may then end too early or be in vain, which costs only time.
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{grid::Throttle, prelude::*, cta::Elected};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// /// Loads three tiles of eight k tiles each: two epochs.
/// fn load(one: &Elected<Load, Cluster<1, 1>>, throttle: &Throttle<'_>) {
///     let mut throttle = throttle.by(one, 2);
///     for tile in 0..3 {
///         if tile > 0 {
///             throttle.wait();
///         }
///         for k in 0..8 {
///             if k == 6 {
///                 throttle.arrive();
///             }
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
    counter: *mut u32,
    /// The epochs at which this CTA has not arrived yet.
    left: u32,
    /// The counter's value when all CTAs have arrived at the current epoch.
    until: Option<u32>,
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
    /// It is a power of two, so that the counter may wrap. It is the same for all grids, so that each launch finds
    /// the counter at a multiple of it. In a grid with more CTAs, waits may be in vain.
    pub const EPOCH: u32 = 1 << 16;

    /// Gives the CTA's end to the thread that issues its loads. A launch has `epochs` epochs, the same for all
    /// CTAs.
    ///
    /// See the example of [`Throttle`].
    #[isa::forceinline]
    pub fn by<'a, R: Role, Cl: ClusterShape>(
        &'a self,
        _one: &'a Elected<R, Cl>,
        epochs: u32,
    ) -> ThrottleEnd<'a> {
        ThrottleEnd {
            counter: self.0.address as *mut u32,
            left: if self.0.elements > 0 { epochs } else { 0 },
            until: None,
            polls: POLLS,
            one: PhantomData,
        }
    }
}

impl ThrottleEnd<'_> {
    /// Arrives at the next epoch: this CTA is near the end of a tile's loads.
    ///
    /// Adds this CTA's share to the counter. (PTX `atom.global.add.u32`.) See the example of [`Throttle`].
    #[device]
    pub fn arrive(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        // Every other CTA adds 1, and the first CTA adds the rest of `EPOCH`.
        let others = isa::thread::grid_dim_x() - 1;
        let first = isa::thread::block_idx_x() == 0;
        let share = if first { Throttle::EPOCH.wrapping_sub(others) } else { 1 };
        // SAFETY: all CTAs access the word with atomics only.
        let old = unsafe { isa::global::atomic_add_u32(self.counter, share) };
        self.until = Some((old & !(Throttle::EPOCH - 1)).wrapping_add(Throttle::EPOCH));
    }

    /// Waits until all CTAs have arrived at this CTA's epoch, or until its polls are used up.
    ///
    /// The polls of a launch last for about 180 µs of waiting in vain. (PTX: a loop of `atom.global.add.u32`
    /// with 0.) See the example of [`Throttle`].
    #[device]
    pub fn wait(&mut self) {
        let Some(until) = self.until.take() else { return };
        while self.polls > 0 {
            // SAFETY: as in `arrive`.
            let now = unsafe { isa::global::atomic_add_u32(self.counter, 0) };
            if now.wrapping_sub(until).cast_signed() >= 0 {
                self.polls += POLLS_PER_EPOCH;
                return;
            }
            self.polls -= 1;
        }
    }

    /// Arrives at the epochs for which this CTA has no tiles, so that the next launch finds the counter at a
    /// multiple of [`Throttle::EPOCH`].
    ///
    /// Adds this CTA's share to the counter, once per epoch. (PTX `atom.global.add.u32`.) See the example of
    /// [`Throttle`].
    #[device]
    pub fn tail(mut self) {
        while self.left > 0 {
            self.arrive();
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
