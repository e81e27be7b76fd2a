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
