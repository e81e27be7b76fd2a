//! CTAs that keep pace, on the SM model and on a GPU.
#![allow(missing_docs)]

use crate::on_devices::{Bench, on_devices};
use host::Param;
use isa::kernel::Kernel;
use pipeline::grid::Throttle;
use scenarios::IMAGE;
use scenarios::kernels::throttle;

/// What the clocks of two SMs may differ by, in nanoseconds; they go in steps of 1024. The late CTA
/// comes later by far.
const CLOCK_STEP: u32 = 2500;

#[test]
fn the_late_one_is_waited_for() {
    on_devices(&IMAGE, "the_late_one_is_waited_for", 3, |bench| {
        for (ctas, rounds) in [(1, 1), (2, 3), (5, 3), (16, 3)] {
            let case = format!("{ctas} CTAs, {rounds} rounds");
            // All launches with one counter have the same number of epochs.
            let mut counter = bench.device.alloc_zeroed(Throttle::BYTES).expect("a word");
            for _ in 0..2 {
                let before = word(&counter.to_vec().expect("a word"), 0);
                let places = (ctas * (rounds - 1)).max(1);
                let mut times = bench.device.alloc_zeroed(8 * places as usize).expect("small");
                let params = [
                    Param::slice_mut::<u32>(&mut counter),
                    Param::slice_mut::<u32>(&mut times),
                    Param::value(rounds),
                ];
                bench.launch(&<throttle::throttle as Kernel>::DESC, ctas, &params, &case);
                let after = word(&counter.to_vec().expect("a word"), 0);
                assert_eq!(after - before, Throttle::epochs(rounds, 1) * Throttle::EPOCH, "{case}");
                waited(bench, &times.to_vec().expect("small"), ctas, rounds, &case);
            }
        }
    });
}

fn word(bytes: &[u8], i: u32) -> u32 {
    let at = 4 * i as usize;
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// On a GPU all CTAs run side by side, so each of them comes. On the model, which may run one after the
/// other, a wait may be in vain, and that it ends is all that there is to see.
fn waited(bench: &Bench, times: &[u8], ctas: u32, rounds: u32, case: &str) {
    for meeting in 0..rounds - 1 {
        let of = |cta: u32, which: u32| word(times, 2 * (meeting * ctas + cta) + which);
        let last = (0..ctas).map(|cta| of(cta, 0)).max().expect("a CTA");
        for cta in 0..ctas {
            assert!(of(cta, 0) > 0 && of(cta, 1) > 0, "{case}: CTA {cta}, meeting {meeting}");
            let early = last.wrapping_sub(of(cta, 1)).cast_signed();
            assert!(
                bench.device.is_sim() || early < CLOCK_STEP.cast_signed(),
                "{}, {case}: CTA {cta} went on {early} ns before the last came to meeting {meeting}",
                bench.what()
            );
        }
    }
}
