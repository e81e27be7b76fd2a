//! Slices of device memory for a kernel that may start before the primary grid has ended.
//!
//! Invariant: only a thread that has waited for the primary grids can access the memory. [`DependentSlice::by`]
//! takes a token that proves it ([`Waited`]).

use crate::cta::{ClusterShape, Elected, Ready, Role, Roles, Warp, Warpgroup};
use crate::mma::Fragment;
use core::marker::PhantomData;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta, layout};
use isa::slice::{DeviceSlice, DeviceSliceMut, Element, SliceAbi};

/// Closes [`Waited`]: only the tokens of this crate say what their thread has executed.
mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A token of a thread that has waited for the primary grids.
///
/// [`BeforeWait::wait`] or [`Cta::init`] returned it, or it was made from such a token, as a [`Fragment`] is.
///
/// ```
/// # use warpipe_pipeline::{prelude::*, cta::Ready, grid::Waited};
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// fn waited<T: Waited>() {}
/// waited::<Ready<(Load, Math), Cluster<1, 1>>>();
/// waited::<Warpgroup<Math, Cluster<1, 1>>>();
/// ```
///
/// [`BeforeWait::wait`]: crate::grid::BeforeWait::wait
/// [`Cta::init`]: crate::cta::Cta::init
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a token of a thread that has waited for the primary grid",
    label = "may come before `griddepcontrol.wait`",
    note = "call `wait()` on a `BeforeWait`, and give what it returns: a Ready, Warpgroup, Warp or Elected"
)]
pub trait Waited: Sealed {}

macro_rules! waited {
    ($($token:ident: $role:ident),+) => {$(
        impl<R: $role, Cl: ClusterShape> Sealed for $token<R, Cl> {}
        impl<R: $role, Cl: ClusterShape> Waited for $token<R, Cl> {}
    )+};
}
waited!(Ready: Roles, Warpgroup: Role, Warp: Role, Elected: Role);

// Only a warp group's token makes a fragment.
impl Sealed for Fragment {}
impl Waited for Fragment {}

macro_rules! dependent_slice {
    ($(#[$doc:meta])* $name:ident, $slice:ident, $memory:ty) => {
        $(#[$doc])*
        #[repr(C)]
        pub struct $name<'a, T> {
            address: u64,
            elements: u64,
            memory: PhantomData<$memory>,
        }

        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<'_, T> {}

        impl<'a, T: Element> $name<'a, T> {
            /// Makes the slice from an address and a number of elements.
            ///
            /// # Safety
            /// For `'a` the memory is device memory, aligned for `T` and not freed. `'a` borrows it, so that
            /// nobody else accesses it in a way that the borrow rules forbid.
            #[must_use]
            pub const unsafe fn new(memory: SliceAbi) -> Self {
                Self { address: memory.address, elements: memory.elements, memory: PhantomData }
            }

            /// The memory, without access to it.
            #[isa::forceinline]
            pub(crate) const fn memory(&self) -> SliceAbi {
                SliceAbi { address: self.address, elements: self.elements }
            }

            /// The number of elements. It is known before the wait.
            #[isa::forceinline]
            #[must_use]
            pub fn len(&self) -> usize {
                self.elements as usize
            }

            /// Whether there is no element.
            #[isa::forceinline]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.elements == 0
            }

            /// The slice, for a thread that has waited for the primary grids.
            #[isa::forceinline]
            #[must_use]
            pub fn by(&self, _token: &impl Waited) -> $slice<'a, T> {
                let memory = SliceAbi { address: self.address, elements: self.elements };
                // SAFETY: a checked launch has passed the memory of a live buffer of `T`.
                unsafe { $slice::from_abi(memory) }
            }
        }

        // SAFETY: the launch passes the address and length of a buffer, as for a slice, and checks the element
        // type and whether the kernel writes. Access to the memory needs a `Waited` token.
        unsafe impl<'a, T: Element> KernelArg for $name<'a, T> {
            type Abi = Self;
            const META: ParamMeta = <$slice<'a, T> as KernelArg>::META;
            #[isa::forceinline]
            unsafe fn from_abi(abi: Self) -> Self {
                abi
            }
        }

        // SAFETY: access to the memory needs a token of a thread that has executed the wait.
        unsafe impl<T: Element> AfterWait for $name<'_, T> {}

        // SAFETY: only a slice of such elements has this `LAYOUT`, so that the launch accepts only such a slice in its
        // place, of a live buffer that the value borrows.
        unsafe impl<'a, T: Element> ByValue for $name<'a, T> {
            const LAYOUT: u64 = {
                let meta = <Self as KernelArg>::META;
                let (writes, bytes) = (meta.box_rows as usize, meta.box_cols as usize);
                layout(size_of::<Self>(), &[(writes, bytes, 1 + meta.dtype as u64)])
            };
            #[cfg(not(target_arch = "nvptx64"))]
            fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
                visit(SliceAbi { address: self.address, elements: self.elements * size_of::<T>() as u64 });
            }
        }
    };
}

dependent_slice! {
    /// A slice that a dependent kernel reads after the primary grids have ended.
    ///
    /// It may be an argument of a kernel with `dependent = true`, or a field of such an argument.
    /// (CUTLASS: a pointer that the kernel reads after `wait_on_dependent_grids`.)
    ///
    /// ```
    /// # use isa::kernel::KernelArg;
    /// # use warpipe_pipeline::{prelude::*, grid::DependentSlice};
    /// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
    /// #[repr(C)]
    /// #[derive(Clone, Copy, KernelArg)]
    /// struct Bias<'a> {
    ///     scale: f32,
    ///     values: DependentSlice<'a, f32>,
    /// }
    ///
    /// #[isa::kernel(dependent = true)]
    /// fn kernel(cta: Cta<(Load, Math), Cluster<1, 1>>, bias: Bias<'_>) {
    ///     let (cta, ()) = cta.init();
    ///     cta.specialize(
    ///         |_load| {},
    ///         |math| {
    ///             let values = bias.values.by(&math);
    ///             let _ = bias.scale * values.get(0).unwrap_or(0.0);
    ///         },
    ///     );
    /// }
    /// ```
    DependentSlice, DeviceSlice, &'a [T]
}

dependent_slice! {
    /// A slice that a dependent kernel writes, and may read, after the primary grids have ended.
    ///
    /// Copies of it share the same memory, as the threads of a grid do. The buffer itself is borrowed mutably.
    /// (CUTLASS: a pointer that the kernel writes after `wait_on_dependent_grids`.) See the example of
    /// [`DependentSlice`].
    DependentSliceMut, DeviceSliceMut, &'a mut [T]
}

/// A slice that no grid writes while the launch may run, so that a dependent kernel may read it before the wait: a work
/// list, or a table that the host made.
///
/// It is a field of an argument that the host makes, and not an argument: a launch could not check who writes a buffer.
/// (CUTLASS: a pointer that the kernel reads before `wait_on_dependent_grids`.)
///
/// ```
/// # use isa::kernel::KernelArg;
/// # use warpipe_pipeline::{prelude::*, grid::ConstantSlice};
/// # roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Lists<'a> {
///     first: ConstantSlice<'a, u32>,
/// }
///
/// #[isa::kernel(dependent = true)]
/// fn kernel(cta: Cta<(Load, Math), Cluster<1, 1>>, lists: Lists<'_>) {
///     let (early, ()) = cta.prologue();
///     early.specialize(
///         |load| {
///             let _row = lists.first.all().get(load.coord().cluster_id() as usize);
///             let _load = load.wait();
///         },
///         |_math| {},
///     );
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConstantSlice<'a, T> {
    address: u64,
    elements: u64,
    memory: PhantomData<&'a [T]>,
}

impl<'a, T: Element> ConstantSlice<'a, T> {
    /// Makes the slice from an address and a number of elements.
    ///
    /// # Safety
    /// For `'a` the memory is device memory, aligned for `T` and not freed. No grid writes it that is queued before or
    /// beside a launch with the slice; what else writes it is complete before that launch begins.
    #[must_use]
    pub const unsafe fn new(memory: SliceAbi) -> Self {
        Self { address: memory.address, elements: memory.elements, memory: PhantomData }
    }

    /// The slice, for any thread. See the example of [`ConstantSlice`].
    #[isa::forceinline]
    #[must_use]
    pub fn all(&self) -> DeviceSlice<'a, T> {
        let memory = SliceAbi { address: self.address, elements: self.elements };
        // SAFETY: the maker's contract: a live buffer of `T`, which nobody writes.
        unsafe { DeviceSlice::from_abi(memory) }
    }
}

// SAFETY: the launch accepts only a value with this `LAYOUT`, which its maker vouches for.
unsafe impl<T: Element> ByValue for ConstantSlice<'_, T> {
    const LAYOUT: u64 = {
        let meta = <DeviceSlice<'static, T> as KernelArg>::META;
        // The first number of the other slices is 0 or 1.
        layout(size_of::<Self>(), &[(2, meta.box_cols as usize, 1 + meta.dtype as u64)])
    };
    #[cfg(not(target_arch = "nvptx64"))]
    fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
        visit(SliceAbi { address: self.address, elements: self.elements * size_of::<T>() as u64 });
    }
}
