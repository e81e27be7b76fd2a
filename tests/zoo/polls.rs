//! Polls whose answer is dropped, or is that of another stage.

use crate::world::{BOX, init, load, smem, tid, warp_id};
use crate::{Bug, bug, family, threads};
use isa::{mbarrier, shared};

family! { "polls.rs":
    a_try_wait_whose_answer_is_dropped
    a_test_wait_whose_answer_is_dropped
    a_peek_of_the_stage_before
}

const TILE: u32 = 512;

fn a_try_wait_whose_answer_is_dropped() -> Bug {
    bug(
        "`try_wait` is executed once, as if it blocked until the phase is over",
        "docs/semantics.md, *Often written*; row 3",
        threads(64),
        // SAFETY: the tile is read behind its phase, but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                load(w, smem(TILE), full); //~ WP017
            }
            if tid() >= 32 {
                while !mbarrier::try_wait_parity(full, 0) && !bug {}
                shared::ld::<u32>(smem(TILE)); //~ WP016 WP017
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn a_test_wait_whose_answer_is_dropped() -> Bug {
    bug(
        "The token of an arrival is tested once, and the answer is not looked at",
        "`bar.test_wait(token);` of cuda::barrier, whose `wait` loops; row 3",
        threads(64),
        // SAFETY: the words are read behind the phase, but for the bug.
        |_, bug| unsafe {
            let [all] = init([64]);
            shared::st(smem(TILE + 4 * tid()), tid()); //~ WP034
            let token = mbarrier::arrive(all);
            while !mbarrier::test_wait(all, token) && !bug {}
            shared::ld::<u32>(smem(TILE + 4 * (63 - tid()))); //~ WP016 WP034
        },
    )
}

fn a_peek_of_the_stage_before() -> Bug {
    bug(
        "The next stage's peek is made before the state advances, so that its answer is that of the present stage",
        "CUTLASS consumer_try_wait, and consumer_wait with its token; row 9",
        threads(64),
        // SAFETY: each stage is read behind its phase, but for the bug.
        |w, bug| unsafe {
            let [f0, f1, e0, e1] = init([1, 1, 32, 32]);
            let (full, empty) = ([f0, f1], [e0, e1]);
            let at = |step: u32| ((step % 2) as usize, step / 2 % 2);
            if tid() == 0 {
                for step in 0..6 {
                    let (s, phase) = at(step);
                    mbarrier::wait_parity(empty[s], phase ^ 1); //~ WP010
                    load(w, smem(TILE + BOX * s as u32), full[s]); //~ WP017 WP034
                }
            } else if warp_id() == 1 {
                let mut peek = mbarrier::try_wait_parity(full[0], 0);
                for step in 0..6 {
                    let (s, phase) = at(step);
                    if !peek {
                        mbarrier::wait_parity(full[s], phase); //~ WP010
                    }
                    let (next, parity) = at(if bug { step } else { step + 1 });
                    peek = step < 5 && mbarrier::try_wait_parity(full[next], parity); //~ WP010
                    shared::ld::<u32>(smem(TILE + BOX * s as u32)); //~ WP016 WP017 WP034
                    mbarrier::arrive(empty[s]);
                }
            }
        },
    )
}
