//! Tensor maps in global memory, which one kernel writes and a later kernel uses.
//!
//! Invariant: a thread issues a TMA instruction with such a map only after it has acquired the map's changes, and the map
//! describes a matrix inside the memory that was passed to the launch.
//!
//! ```text
//! kernel 1   TensorMapsMut::write   copy of a template ─► tensormap.replace ─► fence.proxy.tensormap::generic.release
//! kernel 2   AcquiredMaps::get      fence.proxy.tensormap::generic.acquire ─► cp.async.bulk.tensor
//! ```
//! Reading a map takes a [`Waited`] token, so the first kernel has ended before. The end of a kernel replaces neither of the
//! two fences. A map changes at most once between the kernels that use it, so nothing has to wait until a TMA instruction
//! has read a map. (CUTLASS's grouped GEMM rewrites one map per CTA repeatedly, and waits: `tensormaps_perform_update`,
//! `tensormaps_fence_acquire`.)

use crate::cta::{Peers, Sharing, Unshared};
use crate::grid::{DependentSlice, DependentSliceMut, Waited};
use crate::tile::{Load, Major, TensorMap, TileShape};
use core::cell::Cell;
use core::marker::PhantomData;
use isa::cp_async_bulk::TensorMapBytes;
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta, layout};
use isa::slice::{Element, SliceAbi};

/// TMA requires addresses and pitches that are multiples of this many bytes.
const UNIT: u64 = 16;
/// Coordinates are signed 32-bit numbers.
const MAX_DIMENSION: u32 = i32::MAX as u32;
/// A pitch in bytes is below this.
const MAX_PITCH: u64 = 1 << 40;

mod sealed {
    pub trait Sealed {}
}

/// Memory in which a matrix of elements `E` may lie: a [`DependentSlice`] or a [`DependentSliceMut`].
///
/// See the example of [`TensorMapsMut`].
pub trait TensorMemory<E>: sealed::Sealed {
    /// Address and number of elements.
    #[doc(hidden)]
    fn region(&self) -> SliceAbi;
}

impl<E: Element> sealed::Sealed for DependentSlice<'_, E> {}
impl<E: Element> TensorMemory<E> for DependentSlice<'_, E> {
    #[isa::forceinline]
    fn region(&self) -> SliceAbi {
        self.memory()
    }
}
impl<E: Element> sealed::Sealed for DependentSliceMut<'_, E> {}
impl<E: Element> TensorMemory<E> for DependentSliceMut<'_, E> {
    #[isa::forceinline]
    fn region(&self) -> SliceAbi {
        self.memory()
    }
}

/// A row-major matrix in memory, in elements. See the example of [`TensorMapsMut`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixPart {
    /// The first element.
    pub first: u64,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Elements from row to row.
    pub pitch: u64,
}

impl MatrixPart {
    /// Whether a tensor map can describe the matrix, and it lies in `memory`, of elements of `size` bytes.
    ///
    /// It has at least one row and one column, at most 2³¹ - 1 of either, its address and its pitch are multiples of 16
    /// bytes, and rows do not overlap.
    #[isa::forceinline]
    fn lies_in(&self, memory: SliceAbi, size: u64) -> bool {
        let Self { first, rows, cols, pitch } = *self;
        if rows == 0 || cols == 0 || rows > MAX_DIMENSION || cols > MAX_DIMENSION {
            return false;
        }
        // Below 2^40, so that nothing overflows: 2^31 rows of 2^40.
        if pitch < u64::from(cols) || pitch >= MAX_PITCH / size || first > memory.elements {
            return false;
        }
        let elements = u64::from(rows - 1) * pitch + u64::from(cols);
        let address = memory.address + first * size;
        elements <= memory.elements - first
            && address.is_multiple_of(UNIT)
            && (pitch * size).is_multiple_of(UNIT)
    }
}

macro_rules! maps {
    ($(#[$doc:meta])* $name:ident, $writes:literal) => {
        $(#[$doc])*
        #[repr(C)]
        pub struct $name<'a, T, P = Unshared> {
            address: u64,
            maps: u64,
            memory: PhantomData<(&'a [TensorMapBytes], T, P)>,
        }

        impl<T, P> Clone for $name<'_, T, P> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T, P> Copy for $name<'_, T, P> {}

        // SAFETY: only maps of such boxes, which are read or written as these are, have this `LAYOUT`. Access takes a token of
        // a thread that has waited. The value borrows the memory.
        unsafe impl<T: TileShape, P: Sharing> ByValue for $name<'_, T, P> {
            const LAYOUT: u64 = {
                let of = <&TensorMap<T, P> as KernelArg>::META;
                let (rows, cols) = (of.box_rows as usize, of.box_cols as usize);
                let swizzle = of.swizzle_bytes as usize;
                layout(size_of::<Self>(), &[(rows, cols, 1 + of.dtype as u64), (swizzle, 128, 2 + $writes)])
            };
            #[cfg(not(target_arch = "nvptx64"))]
            fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
                visit(SliceAbi { address: self.address, elements: self.maps * size_of::<TensorMapBytes>() as u64 });
            }
        }

        // SAFETY: the launch passes the bytes of such a value, which `META` describes.
        unsafe impl<T: TileShape, P: Sharing> KernelArg for $name<'_, T, P> {
            type Abi = *const Self;
            const META: ParamMeta = ParamMeta::structure::<Self>();
            #[isa::forceinline]
            unsafe fn from_abi(abi: *const Self) -> Self {
                // SAFETY: a checked launch passes such a value, which lives while the kernel runs.
                unsafe { abi.read() }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            unsafe fn abi_from_param(param: *const u8) -> *const Self {
                param.cast()
            }
        }

        // SAFETY: access to the maps takes a token of a thread that has waited.
        unsafe impl<T: TileShape, P: Sharing> AfterWait for $name<'_, T, P> {}
    };
}

maps! {
    /// Tensor maps of matrices in global memory, as a kernel argument. The kernel uses them through [`AcquiredMaps`].
    ///
    /// Each is that of a [`TensorMap<T, P>`](TensorMap): box, swizzle and element type are those of the type. (CUTLASS: the
    /// tensor maps in the workspace of a grouped GEMM.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, tile::{Load, TensorMaps}}};
    /// # roles! { Load0 = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type One = pipeline::cta::Elected<Load0, Cluster<1, 1>>;
    /// # use warpipe_pipeline as pipeline;
    /// type A = Tile<bf16, 128, 64>;
    /// /// Visits the first tile of each matrix.
    /// fn first_tiles(a: TensorMaps<'_, A>, one: &One, visit: impl Fn(Load<'_, A>)) {
    ///     let maps = a.by(one);
    ///     for problem in 0..a.len() {
    ///         visit(maps.get(problem).tile(0, 0, Peers::ALONE));
    ///     }
    /// }
    /// ```
    TensorMaps, 0
}

maps! {
    /// Tensor maps in global memory that a kernel writes, as a kernel argument.
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, cta::Ready, grid::DependentSlice}};
    /// # use warpipe_pipeline::tile::{MatrixPart, TensorMapsMut};
    /// # roles! { Left = 1 x 40 registers, Right = 1 x 40 registers }
    /// type A = Tile<bf16, 128, 64>;
    /// /// Describes 100 rows of 64 columns, from element 4096 of `memory` on.
    /// fn one_map(
    ///     cta: &Ready<(Left, Right), Cluster<1, 1>>,
    ///     maps: TensorMapsMut<'_, A>,
    ///     template: &TensorMap<A>,
    ///     memory: DependentSlice<'_, bf16>,
    /// ) -> bool {
    ///     let part = MatrixPart { first: 4096, rows: 100, cols: 64, pitch: 64 };
    ///     maps.write(cta, 0, template, &memory, part)
    /// }
    /// ```
    TensorMapsMut, 1
}

impl<'a, T: TileShape, P: Sharing> TensorMaps<'a, T, P> {
    /// Makes the argument from the address and the number of the maps.
    ///
    /// # Safety
    /// For `'a` the memory is device memory, aligned to 64 bytes, of `maps` maps, at least one. When the kernel's wait for the
    /// primary grids ends, each has been written by [`TensorMapsMut::write`] with the same `T` and `P`, by a kernel that has
    /// ended, and nobody changes one before the kernel ends. What they describe is lent to the kernel, for writing too if it
    /// stores.
    #[must_use]
    pub const unsafe fn new(address: u64, maps: u32) -> Self {
        assert!(maps > 0, "there is at least one map");
        Self { address, maps: maps as u64, memory: PhantomData }
    }

    /// The number of maps.
    #[isa::forceinline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // There is at least one.
    pub fn len(&self) -> u32 {
        self.maps as u32
    }

    /// The maps, for a thread that has waited for the primary grids. See the example of [`TensorMaps`].
    #[isa::forceinline]
    #[must_use]
    pub fn by(&self, _token: &impl Waited) -> AcquiredMaps<'a, T, P> {
        AcquiredMaps { maps: *self, last: Cell::new(u32::MAX) }
    }
}

/// Tensor maps in global memory, for one thread, which acquires each before its first use.
///
/// The thread keeps the number of the map that it acquired last, so tiles of one matrix in a row take one fence. (PTX
/// `fence.proxy.tensormap::generic.acquire.gpu`; CUTLASS `tma_descriptor_fence_acquire`.) See the example of [`TensorMaps`].
pub struct AcquiredMaps<'a, T, P = Unshared> {
    maps: TensorMaps<'a, T, P>,
    last: Cell<u32>,
}

impl<'a, T: TileShape, P: Sharing> AcquiredMaps<'a, T, P> {
    /// Returns map `index`, or the last one for an `index` beyond the maps.
    ///
    /// The thread acquires the map, unless it is the one that it acquired last. See the example of [`TensorMaps`].
    #[device]
    pub fn get(&self, index: u32) -> AcquiredMap<'a, T, P> {
        let last = self.maps.maps as u32 - 1;
        let index = if index < last { index } else { last };
        let map = (self.maps.address as *const TensorMapBytes).wrapping_add(index as usize);
        if self.last.get() != index {
            self.last.set(index);
            // SAFETY: the map lies in the launch's memory, whose writers have ended.
            unsafe { isa::fence::proxy_tensormap_acquire_gpu(map) };
        }
        AcquiredMap { map, of: PhantomData }
    }
}

/// A tensor map in global memory that this thread has acquired: [`AcquiredMaps::get`] returns it.
///
/// It stays in its thread: another one may see the map as it was before. See the example of [`TensorMaps`].
pub struct AcquiredMap<'a, T, P = Unshared> {
    map: *const TensorMapBytes,
    of: PhantomData<(&'a TensorMapBytes, T, P)>,
}

impl<'a, T: TileShape, P: Sharing> AcquiredMap<'a, T, P> {
    /// Returns the load of the tile at (`row`, `col`) of the matrix, shared with `peers`, as [`TensorMap::tile`] does. See the
    /// example of [`TensorMaps`].
    #[isa::forceinline]
    pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'a, T, P> {
        // SAFETY: `TensorMaps::new` promises a map of this type, and this thread has acquired it.
        unsafe { Load::of_map(self.map, row, col, peers) }
    }
}

impl<T: TileShape, P: Sharing> TensorMapsMut<'_, T, P> {
    /// Makes the argument from the address and the number of the maps.
    ///
    /// # Safety
    /// For `'a` the memory is device memory, aligned to 64 bytes, of `maps` maps, and nobody else accesses it.
    #[must_use]
    pub const unsafe fn new(address: u64, maps: u32) -> Self {
        Self { address, maps: maps as u64, memory: PhantomData }
    }

    /// Writes map `index` as a copy of `template` that describes the matrix `part` of `memory`, and releases it to the
    /// tensormap proxy of the GPU. Returns `false` if a map can't describe the matrix, or if the matrix is not inside the
    /// memory. The map is then an unchanged copy of the template.
    ///
    /// One thread writes a map. If `index` is beyond the maps, this writes nothing and returns `false`.
    ///
    /// (PTX `tensormap.replace.tile`, `fence.proxy.tensormap::generic.release.gpu`; CUTLASS `tensormaps_replace_global_address`,
    /// `tensormaps_replace_global_tensor_properties`.) See the example of [`TensorMapsMut`].
    #[device]
    pub fn write(
        &self,
        _token: &impl Waited,
        index: u32,
        template: &TensorMap<T, P>,
        memory: &impl TensorMemory<T::Element>,
        part: MatrixPart,
    ) -> bool
    where
        T::Element: Element,
    {
        const { assert!(!T::Major::MN, "a map in global memory has K-major tiles") };
        if u64::from(index) >= self.maps {
            return false;
        }
        let (region, size) = (memory.region(), size_of::<T::Element>() as u64);
        let right = part.lies_in(region, size);
        let map = (self.address as *mut TensorMapBytes).wrapping_add(index as usize);
        for (i, &word) in template.bytes().0.iter().enumerate() {
            // SAFETY: the map lies in the launch's memory, and this thread alone writes it.
            unsafe { isa::global::st(map.cast::<u64>().wrapping_add(i), word) };
        }
        if right {
            let address = region.address + part.first * size;
            // SAFETY: the map is one of tiled mode, which no other thread and no TMA instruction uses. The numbers are
            // those of a matrix in the memory, and TMA takes them (`lies_in`).
            unsafe {
                isa::tensormap::replace_global_address_global(map, address);
                isa::tensormap::replace_global_dim_global::<0>(map, part.cols);
                isa::tensormap::replace_global_dim_global::<1>(map, part.rows);
                isa::tensormap::replace_global_stride_global::<0>(map, part.pitch * size);
            }
        }
        isa::fence::proxy_tensormap_release_gpu();
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMORY: SliceAbi = SliceAbi { address: 1 << 20, elements: 1 << 12 };

    fn lies(first: u64, rows: u32, cols: u32, pitch: u64) -> bool {
        MatrixPart { first, rows, cols, pitch }.lies_in(MEMORY, 2)
    }

    #[test]
    fn a_matrix_lies_in_its_memory_to_the_last_element() {
        assert!(lies(0, 64, 64, 64) && lies(4096 - 8, 1, 8, 8) && lies(8, 1, 1, 8));
        // The last row is shorter than the pitch.
        assert!(lies(0, 64, 60, 64) && lies(64 - 8, 63, 64, 64) && lies(8, 64, 56, 64));
        for (first, rows, cols, pitch) in [
            (0, 65, 64, 64),
            (64, 64, 64, 64),
            (4096, 1, 8, 8),
            (4104, 1, 8, 8),
            (u64::MAX, 1, 8, 8),
            (0, 0, 8, 8),
            (0, 8, 0, 8),
            (0, 8, 16, 8),
            (1, 1, 8, 8),
            (0, 2, 8, 12),
            (0, 1 << 31, 8, 8),
            (0, 2, 8, u64::MAX - 7),
            (0, 2, 8, 1 << 39),
        ] {
            assert!(!lies(first, rows, cols, pitch), "{first} {rows} {cols} {pitch}");
        }
    }

    proptest! {
        /// Every element of an accepted matrix lies in the memory.
        #[test]
        fn nothing_reaches_beyond(
            first in prop_oneof![0u64..5000, any::<u64>()], rows in prop_oneof![0u32..80, any::<u32>()],
            cols in prop_oneof![0u32..80, any::<u32>()], pitch in prop_oneof![(0u64..20).prop_map(|x| 8 * x), any::<u64>()],
        ) {
            if lies(first, rows, cols, pitch) {
                let last = u128::from(first) + u128::from(rows - 1) * u128::from(pitch) + u128::from(cols);
                prop_assert!(last <= u128::from(MEMORY.elements));
                prop_assert!(first % 8 == 0 && pitch % 8 == 0);
            }
        }
    }
}
