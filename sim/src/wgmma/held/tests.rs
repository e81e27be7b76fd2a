use super::*;
use std::panic::Location;

fn held() -> Held {
    let mut held = Held::all(128).remove(0);
    (0..128).for_each(|t| held.fence(t));
    held
}

/// Adds 1 to a float, given as bits.
fn plus_one(bits: &mut u32) {
    *bits = (f32::from_bits(*bits) + 1.0).to_bits();
}

/// Issues `d += 1` for all threads, whose accumulators are `d`.
fn add_one(held: &mut Held, d: &mut [[f32; 4]], group: u64) -> Result<(), Fault> {
    let at = (Location::caller(), group);
    for (t, d) in d.iter_mut().enumerate() {
        held.write(t, bits(d), true, at)?;
    }
    held.issued(at, |_, values| values.iter_mut().for_each(plus_one));
    Ok(())
}

#[test]
fn values_come_back_after_the_wait() {
    let mut h = held();
    let mut d = vec![[0.0f32; 4]; 128];
    add_one(&mut h, &mut d, 1).unwrap();
    add_one(&mut h, &mut d, 2).unwrap();
    h.waited(5, 1);
    h.give_back(5, bits(&mut d[5])).unwrap();
    assert!(d[5][0].is_nan(), "group 2 is in flight");
    assert_eq!(h.used(5, d[5][3].to_bits()).unwrap_err().rule, Rule::RegistersInFlight);
    let scaled = (d[5][3] * std::hint::black_box(0.5)).to_bits();
    assert_eq!(h.used(5, scaled).unwrap_err().rule, Rule::RegistersInFlight);
    h.waited(5, 2);
    assert_eq!(h.used(5, d[5][3].to_bits()).unwrap_err().rule, Rule::RegistersUnfenced);
    h.give_back(5, bits(&mut d[5])).unwrap();
    assert_eq!(d[5], [2.0; 4]);
}

/// Half of the threads come with registers of their own in place of those that the others go on with.
#[test]
fn threads_may_come_with_different_registers() {
    let mut h = held();
    let mut d = vec![[0.0f32; 4]; 128];
    add_one(&mut h, &mut d, 1).unwrap();
    d.iter_mut().skip(64).for_each(|d| *d = [7.0; 4]);
    let at = (Location::caller(), 1);
    for (t, d) in d.iter_mut().enumerate() {
        h.write(t, bits(d), t < 64, at).unwrap();
    }
    let mut come = Vec::new();
    h.issued(at, |first, values| {
        come.push((first, values.len()));
        values.iter_mut().for_each(plus_one);
    });
    assert_eq!(come, (0..128).map(|t| (t, 4)).collect::<Vec<_>>());
    for (t, d) in d.iter_mut().enumerate() {
        h.waited(t, 1);
        h.give_back(t, bits(d)).unwrap();
        assert_eq!(*d, [if t < 64 { 2.0 } else { 8.0 }; 4], "thread {t}");
    }
}

#[test]
fn what_was_changed_in_flight_is_found() {
    for change in [0.0, f32::NAN] {
        let mut h = held();
        let mut d = vec![[0.0f32; 4]; 128];
        add_one(&mut h, &mut d, 1).unwrap();
        d[0][2] = change;
        assert_eq!(add_one(&mut h, &mut d, 1).unwrap_err().rule, Rule::RegistersInFlight);
        h.waited(0, 1);
        assert_eq!(h.give_back(0, bits(&mut d[0])).unwrap_err().rule, Rule::RegistersInFlight);
    }
}

#[test]
fn a_fence_comes_before_what_the_thread_has_written() {
    let mut h = held();
    let mut d = vec![[0.0f32; 4]; 128];
    add_one(&mut h, &mut d, 1).unwrap();
    for (t, d) in d.iter_mut().enumerate() {
        h.waited(t, 1);
        h.give_back(t, bits(d)).unwrap();
    }
    let same = d.clone();
    add_one(&mut h, &mut d, 2).expect("nobody has written the registers");
    let mut other = same;
    other[0][0] = 7.0;
    assert_eq!(add_one(&mut h, &mut other, 2).unwrap_err().rule, Rule::RegistersUnfenced);
}

#[test]
fn slots_are_used_again() {
    let mut h = held();
    for group in 1..=1000 {
        let mut d = vec![[0.0f32; 4]; 128];
        add_one(&mut h, &mut d, group).unwrap();
        for (t, d) in d.iter_mut().enumerate() {
            h.fence(t);
            h.waited(t, group);
            if group % 2 == 0 {
                h.give_back(t, bits(d)).unwrap();
                assert_eq!(*d, [1.0; 4]);
                h.fence(t);
            }
        }
    }
}

#[test]
fn fragments_keep_their_values_until_the_wait() {
    let mut h = held();
    let at = |group| (Location::caller(), group);
    let mut a = [1, 2, 3, 4];
    assert_eq!(h.read(0, &mut a, at(1)).unwrap(), [1, 2, 3, 4]);
    h.issued(at(1), |_, _| ());
    assert_ne!(a, [1, 2, 3, 4]);
    assert_eq!(h.read(0, &mut a, at(1)).unwrap(), [1, 2, 3, 4], "the same fragment twice");
    h.issued(at(1), |_, _| ());
    let mut b = [5; 4];
    h.read(0, &mut b, at(1)).unwrap();
    h.issued(at(1), |_, _| ());
    h.waited(0, 1);
    h.give_back_fragment(0, &mut a, Location::caller()).unwrap();
    assert_eq!(a, [1, 2, 3, 4]);
    h.fence(0);
    let loc = at(2);
    h.read(0, &mut a, loc).unwrap();
    h.issued(loc, |_, _| ());
    a = [9; 4];
    let fault = h.read(0, &mut a, loc).unwrap_err();
    assert_eq!(fault.rule, Rule::RegistersInFlight);
}

#[test]
fn a_fragment_written_as_a_whole_is_found_when_the_thread_returns() {
    // One array, as the address is what counts.
    let rewritten = |wait_first: bool, fences: bool| {
        let mut h = held();
        let mut a = [1, 2, 3, 4];
        h.read(0, &mut a, (Location::caller(), 1)).unwrap();
        h.issued((Location::caller(), 1), |_, _| ());
        if wait_first {
            h.waited(0, 1);
        }
        a = [9; 4];
        h.fence(0);
        if fences {
            h.give_back_fragment(0, &mut a, Location::caller()).unwrap();
        } else {
            h.read(0, &mut a, (Location::caller(), 2)).unwrap();
        }
        h.left_by(0).map(|(fault, _)| fault.rule)
    };
    let (in_flight, unfenced) = (Some(Rule::RegistersInFlight), Some(Rule::RegistersUnfenced));
    assert_eq!(rewritten(false, true), in_flight);
    assert_eq!(rewritten(true, true), in_flight);
    assert_eq!(rewritten(false, false), in_flight);
    assert_eq!(rewritten(true, false), unfenced);
}

#[test]
fn a_fragment_that_was_moved_is_not_found() {
    let mut h = held();
    let mut place = [1, 2, 3, 4];
    h.read(0, &mut place, (Location::caller(), 1)).unwrap();
    h.issued((Location::caller(), 1), |_, _| ());
    // The next one is made where this one was.
    let mut moved = place;
    place = [9; 4];
    h.give_back_fragment(0, &mut place, Location::caller()).unwrap();
    h.fence(0);
    h.waited(0, 1);
    h.give_back_fragment(0, &mut moved, Location::caller()).unwrap();
    assert_eq!(moved, [1, 2, 3, 4]);
    h.read(0, &mut place, (Location::caller(), 2)).unwrap();
    assert!(h.left_by(0).is_none());
}

#[test]
fn one_fence_may_serve_two_batches() {
    let mut h = held();
    let (mut d, mut e) = (vec![[0.0f32; 4]; 128], vec![[0.0f32; 4]; 128]);
    for (t, e) in e.iter_mut().enumerate() {
        h.give_back(t, bits(e)).unwrap();
        h.fence(t);
    }
    add_one(&mut h, &mut d, 1).unwrap();
    for (t, d) in d.iter_mut().enumerate() {
        h.waited(t, 1);
        h.give_back(t, bits(d)).unwrap();
    }
    add_one(&mut h, &mut e, 2).expect("written before the fence");
    let mut f = vec![[0.0f32; 4]; 128];
    assert_eq!(add_one(&mut h, &mut f, 2).unwrap_err().rule, Rule::RegistersUnfenced);
}

/// Sums of integers are held as those of floats are.
#[test]
fn integers_come_back_after_the_wait() {
    let mut h = held();
    let at = (Location::caller(), 1);
    let mut d = vec![[-5i32, 7]; 128];
    for (t, d) in d.iter_mut().enumerate() {
        h.write(t, bits(d), true, at).unwrap();
    }
    h.issued(at, |_, values| values.iter_mut().for_each(|x| *x = x.wrapping_add(3)));
    assert_eq!(h.used(9, d[9][1].cast_unsigned()).unwrap_err().rule, Rule::RegistersInFlight);
    h.waited(9, 1);
    h.give_back(9, bits(&mut d[9])).unwrap();
    assert_eq!(d[9], [-2, 10]);
}
