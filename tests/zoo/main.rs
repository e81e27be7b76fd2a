//! The bug zoo: small kernels with one planted bug each, and the same kernels without it.
//!
//! An entry is a function that gives a [`Bug`]: what went wrong, where it comes from, and one kernel
//! that takes `bug: bool`, so that the difference is a line. A comment `//~ WP017` stands at the end
//! of the line that the model must name, with the code of the rule. The model must find it under each
//! of 100 seeds, and say nothing about the kernel without the bug under 20 (`WARPIPE_SEEDS` widens).
//! docs/zoo.md is the table of all; `WARPIPE_BLESS=1` writes it.
//!
//! The bugs that shipped elsewhere have their kernels in tests/zoo/shipped, because a GPU runs them, too
//! (tests/zoo/gpu). There an entry is a function with the kernel's body.
//!
//! The kernels break the contracts of `isa`: that is what they are for. On the SM model a broken
//! contract is a report; each SAFETY line says which it is.

#![allow(missing_docs)]

extern crate warpipe_isa as isa;

mod check;
mod sanitizer;
mod table;
mod world;

mod a_in_tensor_memory;
mod attention;
mod barriers;
mod block_scales;
mod counts;
mod deadlocks;
mod exits;
mod launch_control;
mod launches;
mod memory;
mod pages;
mod pair_scales;
mod pairs;
mod phases;
mod places;
mod polls;
mod races;
mod regions;
mod registers;
mod shipped;
mod splits;
mod tensor_core;
mod tensor_maps;
mod tensor_memory;
mod transfers;
mod umma;
mod unordered;
mod warps;

use world::World;

/// What an entry says.
pub struct Bug {
    /// What went wrong, in one sentence.
    wrong: &'static str,
    /// Issues, rows of docs/misuses.md.
    from: &'static str,
    shape: Shape,
    /// The launch of the correct kernel, where that is not the same.
    right_shape: Option<Shape>,
    /// The kernel; with the bug if `bug`.
    kernel: Kernel,
    /// Dependent launches behind it, of the same shape, by the names of their kernels.
    dependents: Vec<(&'static str, Kernel)>,
}

/// A kernel; with the bug if `bug`.
type Kernel = fn(w: &World, bug: bool);

/// A launch.
#[derive(Clone, Copy)]
pub struct Shape {
    threads: u32,
    ctas: u32,
    /// CTAs of a cluster.
    cluster: u32,
    /// Bytes of shared memory.
    smem: u32,
    /// Instructions after which a cluster counts as stuck.
    steps: u64,
}

/// One CTA of this many threads, with 4 KiB of shared memory.
const fn threads(threads: u32) -> Shape {
    Shape { threads, ctas: 1, cluster: 1, smem: 4096, steps: 20_000 }
}

/// One cluster of this many CTAs of `threads` threads.
const fn cluster(cluster: u32, threads: u32) -> Shape {
    Shape { threads, ctas: cluster, cluster, smem: 4096, steps: 20_000 }
}

fn bug(wrong: &'static str, from: &'static str, shape: Shape, kernel: Kernel) -> Bug {
    Bug { wrong, from, shape, right_shape: None, kernel, dependents: Vec::new() }
}

impl Bug {
    /// Kernels that are launched behind it as dependent launches.
    fn then(self, dependents: &[(&'static str, Kernel)]) -> Self {
        Self { dependents: dependents.to_vec(), ..self }
    }

    /// The correct kernel is launched in another shape.
    fn right(self, shape: Shape) -> Self {
        Self { right_shape: Some(shape), ..self }
    }
}

/// A bug's name, and what makes it.
type Entry = (&'static str, fn() -> Bug);

/// The entries of a file.
struct Family {
    name: &'static str,
    /// What the file is about: its first line.
    source: &'static str,
    bugs: &'static [Entry],
}

/// Lists a file's entries: a test for each, and the table's rows.
macro_rules! family {
    ($file:literal: $($entry:ident)*) => {
        pub(crate) const FAMILY: crate::Family = crate::Family {
            name: $file,
            source: include_str!($file),
            bugs: &[$((stringify!($entry), $entry)),*],
        };
        mod zoo {
            $(#[test]
            fn $entry() {
                crate::check::entry(&super::FAMILY, stringify!($entry));
            })*
        }
    };
}
pub(crate) use family;

const FAMILIES: &[Family] = &[
    deadlocks::FAMILY,
    counts::FAMILY,
    phases::FAMILY,
    polls::FAMILY,
    barriers::FAMILY,
    transfers::FAMILY,
    memory::FAMILY,
    places::FAMILY,
    tensor_core::FAMILY,
    warps::FAMILY,
    races::FAMILY,
    shipped::HANGS,
    shipped::RINGS,
    shipped::RACES,
    shipped::CLUSTERS,
    shipped::DEPENDENTS,
    regions::FAMILY,
    exits::FAMILY,
    registers::FAMILY,
    attention::FAMILY,
    splits::FAMILY,
    launches::FAMILY,
    tensor_maps::FAMILY,
    tensor_memory::FAMILY,
    umma::FAMILY,
    pairs::FAMILY,
    block_scales::FAMILY,
    pair_scales::FAMILY,
    a_in_tensor_memory::FAMILY,
    launch_control::FAMILY,
    unordered::FAMILY,
];
