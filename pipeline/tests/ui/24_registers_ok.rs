//! Budgets that setmaxnreg can set, and that fit into an SM.
use crate::support::*;
use isa::kernel::Kernel;

roles! { Math = 3 x 152 registers, Few = 1 x 216 registers, Many = 1 x 224 registers }

#[isa::kernel]
fn budgets(cta: Cta<(Load, Math), Alone, Plan>) {
    let (cta, _) = cta.init();
    cta.specialize(|_load| {}, |_math| {});
}

#[test]
fn the_launch_bound_is_the_roles() {
    assert_eq!(<budgets as Kernel>::DESC.meta.threads, 512);
    let memory = sim::GlobalMemory::new();
    super::run(1, &memory, budgets).unwrap_or_else(|report| panic!("{report}"));
}

#[isa::kernel]
fn two_fit(cta: Cta<(Load, Few), Alone, Plan>) {
    let (cta, _) = cta.init();
    cta.specialize(|_load| {}, |_few| {});
}

#[test]
fn an_sm_holds_as_many_ctas_as_the_roles_leave_room_for() {
    assert_eq!(<two_fit as Kernel>::DESC.meta.min_ctas, 2);
    assert_eq!(<budgets as Kernel>::DESC.meta.min_ctas, 1);
    assert_eq!(Cta::<(Load, Many), Alone>::PER_SM, 1);
    let memory = sim::GlobalMemory::new();
    super::run(1, &memory, two_fit).unwrap_or_else(|report| panic!("{report}"));
}
