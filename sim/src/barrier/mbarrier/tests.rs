use super::*;

/// "On a fresh barrier wait(1) passes and wait(0) blocks."
#[test]
fn a_fresh_barrier() {
    let mut b = MBarrier::init(1).unwrap();
    assert!(b.parity_done(1) && !b.parity_done(0));
    assert!(b.arrive(1, false).unwrap());
    assert!(b.parity_done(0) && !b.parity_done(1));
}

/// The phase completes when pending and tx are both zero, whichever comes last.
#[test]
fn both_debts() {
    let mut b = MBarrier::init(1).unwrap();
    b.expect_tx(48).unwrap();
    b.expect_tx(16).unwrap();
    assert_eq!(b.tx, 64, "expect_tx adds");
    assert!(!b.arrive(1, false).unwrap());
    assert!(!b.complete_tx(32).unwrap());
    assert!(b.complete_tx(32).unwrap(), "complete_tx can end a phase");
    assert_eq!((b.phase, b.pending, b.tx), (1, 1, 0));
}

/// Bytes may land before they are expected, as long as an arrival is missing.
#[test]
fn bytes_before_their_expectation() {
    let mut b = MBarrier::init(2).unwrap();
    assert!(!b.complete_tx(64).unwrap());
    assert!(!b.arrive(1, false).unwrap());
    b.expect_tx(64).unwrap();
    assert!(b.arrive(1, false).unwrap());
}

#[test]
fn too_few_expected_bytes_are_an_overrun() {
    let mut b = MBarrier::init(1).unwrap();
    b.expect_tx(32).unwrap();
    b.arrive(1, false).unwrap();
    assert_eq!(b.complete_tx(64).unwrap_err().0, Rule::TxOverrun);
    let mut b = MBarrier::init(1).unwrap();
    b.complete_tx(64).unwrap();
    assert_eq!(b.arrive(1, false).unwrap_err().0, Rule::TxOverrun);
}

#[test]
fn drop_lowers_the_later_phases() {
    let mut b = MBarrier::init(3).unwrap();
    assert!(!b.arrive(1, true).unwrap());
    assert_eq!((b.pending, b.expected), (2, 2));
    assert!(b.arrive(2, false).unwrap());
    assert_eq!(b.pending, 2);
}

#[test]
fn limits() {
    assert_eq!(MBarrier::init(0).unwrap_err().0, Rule::CountRange);
    assert_eq!(MBarrier::init(1 << 20).unwrap_err().0, Rule::CountRange);
    let mut b = MBarrier::init((1 << 20) - 1).unwrap();
    assert_eq!(b.arrive(0, false).unwrap_err().0, Rule::CountRange);
    b.expect_tx((1 << 20) - 1).unwrap();
    assert_eq!(b.expect_tx(1).unwrap_err().0, Rule::CountRange);
    let mut b = MBarrier::init(2).unwrap();
    assert_eq!(b.arrive_no_complete(2).unwrap_err().0, Rule::NoComplete);
    b.arrive_no_complete(1).unwrap();
    assert_eq!(b.arrive(2, false).unwrap_err().0, Rule::TooManyArrivals);
}

#[test]
fn tokens() {
    let mut b = MBarrier::init(2).unwrap();
    let token = b.token();
    assert_eq!((MBarrier::pending_of(token), b.phases_since(token)), (2, 0));
    b.arrive(2, false).unwrap();
    assert_eq!(b.phases_since(token), 1);
}

mod against_an_oracle {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive(u32),
        Drop(u32),
        Expect(u32),
        ArriveExpect(u32),
        Complete(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1u32..4).prop_map(Step::Arrive),
            1 => (1u32..2).prop_map(Step::Drop),
            2 => (0u32..3).prop_map(|b| Step::Expect(16 * b)),
            3 => (0u32..3).prop_map(|b| Step::ArriveExpect(16 * b)),
            4 => (0u32..3).prop_map(|b| Step::Complete(16 * b)),
        ]
    }

    /// The manual's words over the history of a phase: sums of what was done, not a state.
    #[derive(Default)]
    struct History {
        arrivals: i64,
        expected_bytes: i64,
        completed_bytes: i64,
    }

    proptest! {
        /// A phase completes exactly when the arrivals of the phase are its count and the bytes
        /// completed are those expected; then everything starts over, and the parity flips.
        #[test]
        fn phases(count in 1u32..6, steps in proptest::collection::vec(step(), 1..200)) {
            let mut b = MBarrier::init(count).unwrap();
            let (mut h, mut this, mut next, mut phase) = (History::default(), count, count, 0u32);
            for s in steps {
                let before = b;
                let (arrive, drop, expect, complete) = match s {
                    Step::Arrive(n) => (n, 0, 0, 0),
                    Step::Drop(n) => (n, n, 0, 0),
                    Step::Expect(x) => (0, 0, x, 0),
                    Step::ArriveExpect(x) => (1, 0, x, 0),
                    Step::Complete(x) => (0, 0, 0, x),
                };
                let token = b.token();
                let result = match s {
                    Step::Arrive(n) => b.arrive(n, false),
                    Step::Drop(n) => b.arrive(n, true),
                    Step::Expect(x) => b.expect_tx(x).map(|()| false),
                    Step::ArriveExpect(x) => b.expect_tx(x).and_then(|()| b.arrive(1, false)),
                    Step::Complete(x) => b.complete_tx(x),
                };
                h.arrivals += i64::from(arrive);
                h.expected_bytes += i64::from(expect);
                h.completed_bytes += i64::from(complete);
                next -= drop.min(next);
                let all = h.arrivals == i64::from(this);
                match result {
                    Err((Rule::TooManyArrivals, _)) => {
                        prop_assert!(h.arrivals > i64::from(this) || drop > before.expected);
                        return Ok(());
                    }
                    Err((rule, _)) => {
                        prop_assert_eq!(rule, Rule::TxOverrun);
                        prop_assert!(all && h.completed_bytes > h.expected_bytes);
                        return Ok(());
                    }
                    Ok(done) => {
                        // An expectation alone never completes a phase.
                        let acts = arrive > 0 || matches!(s, Step::Complete(_));
                        let balanced = all && h.completed_bytes == h.expected_bytes;
                        prop_assert_eq!(done, acts && balanced);
                        if done {
                            (h, this, phase) = (History::default(), next, phase + 1);
                        }
                        prop_assert_eq!(b.phases_since(token), u32::from(done));
                        prop_assert_eq!((b.phase, i64::from(b.pending)), (phase, i64::from(this) - h.arrivals));
                        prop_assert_eq!(b.tx, h.expected_bytes - h.completed_bytes);
                        for parity in 0..2 {
                            prop_assert_eq!(b.parity_done(parity), parity != phase % 2);
                        }
                        if this == 0 {
                            return Ok(()); // All have dropped out: the barrier is of no use.
                        }
                    }
                }
            }
        }
    }
}
