//! A slice that is read before the primary grid has ended.
mod support;
use support::*;

#[isa::kernel(dependent = true)]
fn kernel(cta: ThisCta, values: DependentSlice<'_, f32>) {
    let (early, _ends) = cta.prologue();
    early.specialize(
        |load| {
            load.elect(|early| {
                let _first = values.by(&early).get(0);
            });
        },
        |_work| {},
    );
}

fn main() {}
