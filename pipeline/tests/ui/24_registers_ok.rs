//! Budgets that setmaxnreg can set, and that fit into an SM.
use crate::support::*;
use isa::kernel::Kernel;

roles! { Math = 3 x 152 registers }

#[isa::kernel(threads = Cta::<(Load, Math), Alone>::THREADS, smem = Plan::<2>::BYTES)]
fn budgets(cta: Cta<(Load, Math), Alone>) {
    let (cta, _) = Plan::<2>::init(cta);
    cta.specialize(|_load| {}, |_math| {});
}

#[test]
fn the_launch_bound_is_the_roles() {
    assert_eq!(<budgets as Kernel>::DESC.meta.threads, 512);
    let memory = sim::GlobalMemory::new();
    crate::run(1, &memory, Plan::<2>::BYTES, budgets).unwrap_or_else(|report| panic!("{report}"));
}
