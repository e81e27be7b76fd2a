//! The cluster's hardware barrier, split, on the SM model and on a GPU.
#![allow(missing_docs)]

use crate::on_devices::{Bench, on_devices};
use host::Param;
use scenarios::IMAGE;
use scenarios::kernels::meet;

#[test]
fn clusters_meet() {
    on_devices(&IMAGE, "clusters_meet", 5, |bench| {
        for of in meet::INSTANCES {
            for (clusters, rounds) in [(1, 0), (1, 1), (2, 3)] {
                meet(bench, of, clusters, rounds);
            }
        }
    });
}

/// What the clocks of two SMs may differ by, in nanoseconds; the late CTA comes 20 times later. The
/// model has one clock.
const CLOCK_STEP: u32 = 1000;

fn meet(bench: &Bench, of: &meet::Instance, clusters: u32, rounds: u32) {
    let case = format!("{clusters} clusters of {}, {rounds} rounds", of.ctas);
    let places = (clusters * rounds * of.ctas).max(1) as usize;
    let zeroed = |words| bench.device.alloc_zeroed(4 * words).expect("a small buffer");
    let (mut times, mut words) = (zeroed(2 * places), zeroed(places));
    let mut found = zeroed((clusters * of.ctas * meet::THREADS) as usize);
    let params = [
        Param::slice_mut::<u32>(&mut times),
        Param::slice_mut::<u32>(&mut words),
        Param::slice_mut::<u32>(&mut found),
        Param::value(rounds),
    ];
    bench.launch(of.desc, clusters * of.ctas, &params, &case);

    let slack = if bench.device.is_sim() { 0 } else { CLOCK_STEP };
    for (i, meeting) in words_of(&times).chunks(2 * of.ctas as usize).enumerate() {
        let (before, after): (Vec<u32>, Vec<u32>) =
            meeting.chunks(2).map(|both| (both[0], both[1])).unzip();
        for (rank, end) in after.iter().enumerate() {
            let early =
                before.iter().find(|at| end.wrapping_add(slack).wrapping_sub(**at) > 1 << 31);
            assert_eq!(
                early, None,
                "{case}: meeting {i}, rank {rank} went on at {end} of {before:?}"
            );
        }
    }
    let sum: u32 = if of.releases {
        (0..rounds).flat_map(|round| (0..of.ctas).map(move |rank| meet::word(round, rank))).sum()
    } else {
        0
    };
    assert!(words_of(&found).iter().all(|&x| x == sum), "{case}: {sum} is not what all found");
}

fn words_of(buffer: &host::Buffer) -> Vec<u32> {
    let bytes = buffer.to_vec().expect("the test's own buffer");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
