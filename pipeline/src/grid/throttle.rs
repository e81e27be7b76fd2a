//! `Throttle`: keeps the CTAs of a persistent grid from drifting apart.
//!
//! CTAs that compute neighbouring tiles read the same rows of A or columns of B. While they do it at
//! about the same time, one of them brings the data into the L2 cache and the others find it there.
//! But no two CTAs are equally fast, and a persistent one never stops: after some tiles they are at
//! different columns, the cache has forgotten what the first one brought, and the same bytes come from
//! memory again and again. That costs little time and much power, of which a large product has none to
//! spare.
//!
//! So whoever comes to the end of a tile's loads waits a little for the others. It is a courtesy and
//! no barrier: a CTA's patience is bounded, and nothing depends on the outcome.
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

/// How often a CTA looks in vain before it waits no more, at first. A look takes about 0.7 µs, there and
/// back.
const LOOKS: u32 = 256;
/// What a meeting adds to that.
const LOOKS_OF_AN_EPOCH: u32 = 4;

/// A counter that all CTAs of a grid share, or none: then nobody waits.
///
/// A launch adds [`Throttle::EPOCH`] as often as its CTAs meet. One that is cut short may leave the counter
/// elsewhere, which makes later ones wait for nothing, and no more.
///
/// (PTX a pointer and a length.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::{grid::Throttle, prelude::*, cta::Elected};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// /// Three tiles of eight stages.
/// fn load(one: &Elected<Load, Cluster<1, 1>>, pace: &Throttle<'_>) {
///     let mut pace = pace.by(one, 2);
///     for tile in 0..3 {
///         if tile > 0 {
///             pace.wait();
///         }
///         for k in 0..8 {
///             if k == 6 {
///                 pace.arrive();
///             }
///             // acquire a slot, load ...
///         }
///     }
///     pace.tail();
/// }
/// # let _ = load;
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Throttle<'a>(SliceAbi, PhantomData<&'a mut [u32]>);

/// One CTA's part in keeping pace.
///
/// See the example of [`Throttle`].
#[must_use]
pub struct ThrottleEnd<'a> {
    counter: *mut u32,
    /// Meetings to which this CTA has not arrived.
    left: u32,
    /// Where the counter will be when all have arrived.
    until: Option<u32>,
    /// How often it may still look in vain.
    looks: u32,
    one: PhantomData<(&'a (), *const ())>,
}

impl Throttle<'_> {
    /// Bytes of the counter, which are 0 before the first launch.
    pub const BYTES: usize = 4;

    /// What the CTAs of a grid together add to the counter for a meeting: a power of two, so that the counter
    /// may wrap, and the same for all grids, so that each finds it in its place. In a grid of more CTAs than
    /// that, waits may be in vain.
    pub const EPOCH: u32 = 1 << 16;

    /// Gives the CTA's part to the thread that issues its loads. In a launch all CTAs meet `epochs` times.
    ///
    /// See the example of [`Throttle`].
    #[inline(always)]
    pub fn by<'a, R: Role, Cl: ClusterShape>(
        &'a self,
        _one: &'a Elected<R, Cl>,
        epochs: u32,
    ) -> ThrottleEnd<'a> {
        ThrottleEnd {
            counter: self.0.address as *mut u32,
            left: if self.0.elements > 0 { epochs } else { 0 },
            until: None,
            looks: LOOKS,
            one: PhantomData,
        }
    }
}

impl ThrottleEnd<'_> {
    /// Says that this CTA is near the end of a tile's loads.
    ///
    /// Signals the counter. (PTX `atom.add.global.u32`.) See the example of [`Throttle`].
    #[device]
    pub fn arrive(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        // All others add one, and the first CTA what is missing.
        let others = isa::thread::grid_dim_x() - 1;
        let first = isa::thread::block_idx_x() == 0;
        let share = if first { Throttle::EPOCH.wrapping_sub(others) } else { 1 };
        // SAFETY: a word that all reach atomically alone.
        let old = unsafe { isa::global::atomic_add_u32(self.counter, share) };
        self.until = Some((old & !(Throttle::EPOCH - 1)).wrapping_add(Throttle::EPOCH));
    }

    /// Waits until the other CTAs have arrived as often as this one, or a while.
    ///
    /// Waits for the other CTAs, as long as its patience lasts: in vain, about 180 µs of a launch. (PTX a
    /// loop of `atom.global.add.u32` of 0.) See the example of [`Throttle`].
    #[device]
    pub fn wait(&mut self) {
        let Some(until) = self.until.take() else { return };
        while self.looks > 0 {
            // SAFETY: as in `arrive`.
            let now = unsafe { isa::global::atomic_add_u32(self.counter, 0) };
            if now.wrapping_sub(until).cast_signed() >= 0 {
                self.looks += LOOKS_OF_AN_EPOCH;
                return;
            }
            self.looks -= 1;
        }
    }

    /// Arrives to the epochs that this CTA has no tiles for: the next launch counts from there.
    ///
    /// Signals the counter. (PTX `atom.add.global.u32`.) See the example of [`Throttle`].
    #[device]
    pub fn tail(mut self) {
        while self.left > 0 {
            self.arrive();
        }
    }
}

// SAFETY: the parameter is that of a slice of words which the kernel may write; a checked launch
// passes the address and length of a live buffer that it gives to no other argument.
unsafe impl KernelArg for Throttle<'_> {
    type Abi = SliceAbi;
    const META: ParamMeta = <DeviceSliceMut<'_, u32> as KernelArg>::META;
    #[inline(always)]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self(abi, PhantomData)
    }
}

// SAFETY: `LAYOUT` is that of a slice of such elements; what the address leads to needs a token that comes after
// the wait. Its memory is the launch's own, so there is no buffer of a user's to look for.
unsafe impl ByValue for Throttle<'_> {
    const LAYOUT: u64 = <super::DependentSliceMut<'_, u32> as ByValue>::LAYOUT;
}

// SAFETY: it needs an elected thread, which comes from `Ready::specialize`, after the wait of
// `Cta::init`.
unsafe impl AfterWait for Throttle<'_> {}
