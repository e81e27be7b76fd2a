//! The judge itself: what counts as a disagreement.
#![allow(missing_docs)]

use conformance::{Allowed, Log, broken, compare};

fn log(values: &[(u32, Allowed)]) -> Log {
    let mut log = Log::default();
    log.part("x");
    for &(have, allowed) in values {
        log.push(have, allowed);
    }
    log
}

#[test]
fn a_wrong_value_is_named() {
    let (count, named) = broken(&log(&[(1, Allowed::Is(1)), (3, Allowed::OneOf([1, 2]))]));
    assert_eq!(count, 1);
    assert_eq!(named, ["x [1]: 0x3, should be 0x1 or 0x2"]);
}

#[test]
fn chip_and_model_may_differ_only_where_the_manual_lets_them() {
    let near = Allowed::Near { want: 1.0, bound: 0.5 };
    let bits = |x: f32| x.to_bits();
    let model = log(&[
        (1, Allowed::Is(1)),
        (1, Allowed::OneOf([1, 2])),
        (bits(1.0), near),
        (7, Allowed::Any),
    ]);
    let mut chip = model.clone();
    chip.seen[1].have = 2;
    chip.seen[2].have = bits(1.25);
    chip.seen[3].have = 8;
    let c = compare(&model, &chip);
    assert_eq!((c.compared, c.disagreements, c.both_allowed), (3, 0, 2));
    assert_eq!((c.largest, c.of_bound), (Some(0.25), Some(0.5)));
    chip.seen[0].have = 0;
    chip.seen[2].have = bits(2.0);
    let c = compare(&model, &chip);
    assert_eq!(c.disagreements, 2);
    assert_eq!(c.named[0], "x [0]: chip 0x0, model 0x1, manual 0x1");
}
