//! Stores issued while the primary grid may still read what they write.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let (early, (_ring, stores)) = cta.prologue();
    early.specialize(|_load| {}, |work| {
        let _stores = stores.by(&work);
    });
}

fn main() {}
