//! What is known of a kernel besides its body: where the bug shipped, and how the kernel is launched.

#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::KernelDesc;

/// A bug that shipped, as a kernel.
#[cfg(not(target_arch = "nvptx64"))]
pub struct Entry {
    /// The kernel's name.
    pub name: &'static str,
    /// What went wrong, in one sentence.
    pub wrong: &'static str,
    /// The threads of the issue tracker.
    pub from: &'static str,
    /// CTAs of the launch; the rest of its shape is part of `desc`.
    pub ctas: u32,
    /// The kernel ahead of it in the stream, if the kernel is a dependent launch.
    pub ahead: Option<KernelDesc>,
    /// The kernel, for a launch.
    pub desc: KernelDesc,
}

/// The entries of a file.
#[cfg(not(target_arch = "nvptx64"))]
pub struct Family {
    /// Name of the file in `src`.
    pub file: &'static str,
    /// Its text, whose comments `//~` name the findings.
    pub source: &'static str,
    /// Its entries.
    pub entries: &'static [Entry],
}

/// Bytes of shared memory of each kernel.
pub const SMEM: u32 = 8192;

/// Makes a kernel of each body, and the family's table. With `behind PRIMARY`, the kernels are dependent
/// launches behind that one, whose body has no bug.
macro_rules! shipped {
    ($file:literal, behind $primary:ident: $($entries:tt)*) => {
        shipped! { @ $file, Some(<kernels::$primary as isa::kernel::Kernel>::DESC), true, [$primary]: $($entries)* }
    };
    ($file:literal: $($entries:tt)*) => {
        shipped! { @ $file, None, false, []: $($entries)* }
    };
    (@ $file:literal, $ahead:expr, $dependent:tt, [$($primary:ident)?]: $(
        $name:ident: $threads:literal threads, $ctas:literal ctas in clusters of $cluster:literal;
        $from:literal, $wrong:literal;
    )*) => {
        /// The entries of this file.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const FAMILY: crate::Family = crate::Family {
            file: $file,
            source: include_str!($file),
            entries: &[$(crate::Entry {
                name: stringify!($name),
                wrong: $wrong,
                from: $from,
                ctas: $ctas,
                ahead: $ahead,
                desc: <kernels::$name as isa::kernel::Kernel>::DESC,
            },)*],
        };

        /// The bodies as kernels.
        pub mod kernels {
            use crate::world::{Map, Memory, World};
            $(
                /// The grid ahead.
                #[isa::kernel(threads = 128, smem = crate::entry::SMEM)]
                pub fn $primary(map: &Map, memory: Memory, _bug: u32) {
                    super::$primary(&World::of(map, memory));
                }
            )?
            $(
                #[doc = $wrong]
                #[isa::kernel(threads = $threads, cluster = ($cluster, 1, 1), smem = crate::entry::SMEM, dependent = $dependent)]
                pub fn $name(map: &Map, memory: Memory, bug: u32) {
                    super::$name(&World::of(map, memory), bug != 0);
                }
            )*
        }
    };
}
