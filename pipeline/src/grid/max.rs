//! The maximum of the values of many threads, in device memory.
//!
//! Invariant: all lanes of a warp take part. The warp group's token proves it.

use crate::cta::{ClusterShape, Role, Warpgroup};
use crate::grid::DependentSliceMut;
use isa::device;

impl<Ro: Role, Cl: ClusterShape> Warpgroup<Ro, Cl> {
    /// Raises element `i` of `to` to the largest of the warp's magnitudes, if that is larger. The magnitudes are not
    /// negative. A NaN counts as larger than all numbers. If `i` is beyond the end, this does nothing.
    ///
    /// Any number of warps of a grid may raise one element. A warp makes one access to memory for all of its lanes, and
    /// does not wait for it.
    ///
    /// Waits for the warp's other lanes. (PTX `redux.sync.max.u32`, `red.global.max.u32`; CUTLASS
    /// `Sm90ScalarReduction<maximum_absolute_value_reduction>`.)
    ///
    /// ```
    /// # use warpipe_pipeline::{grid::DependentSliceMut, prelude::*};
    /// # roles! { Math = 2 x 232 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// fn largest_of_a_fragment(group: &Group, sum: &Accumulator<64>, to: &DependentSliceMut<'_, f32>) {
    ///     let largest = sum.fragment(0).into_iter().fold(0.0, |max: f32, x| max.max(x.abs()));
    ///     group.atomic_max(to, 0, largest);
    /// }
    /// ```
    #[device]
    pub fn atomic_max(&self, to: &DependentSliceMut<'_, f32>, i: usize, magnitude: f32) {
        // SAFETY: the token proves that the warp is converged.
        let (largest, elected) = unsafe {
            let bits = magnitude.to_bits() & 0x7fff_ffff;
            (isa::warp::redux_max_u32(bits), isa::warp::elect_one())
        };
        if elected {
            to.by(self).atomic_max(i, f32::from_bits(largest));
        }
    }
}
