//! mbarriers that count arrivals.

use super::Litmus;
use crate::bench::Bench;
use crate::kernels::mbarrier::*;
use crate::log::Log;
use host::Error;

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "mbarrier: parity",
        says: "A parity wait passes when the phase of that parity has completed: when the phase in \
               progress has the other. A fresh barrier is in phase 0.",
        run: parity,
        refused: None,
    },
    Litmus {
        name: "mbarrier: counts",
        says: "The phase completes with the last of the expected arrivals; a token's pending count \
               is what was pending before the arrival that gave it.",
        run: counts,
        refused: None,
    },
    Litmus {
        name: "mbarrier: arrive with count",
        says: "An arrival with a count takes so many from the pending count; the next phase begins \
               with the expected count.",
        run: arrive_count,
        refused: None,
    },
    Litmus {
        name: "mbarrier: arrive_drop",
        says: "arrive_drop arrives at the phase in progress and lowers the expected count of all \
               later ones.",
        run: drop,
        refused: None,
    },
    Litmus {
        name: "mbarrier: arrive.noComplete",
        says: "arrive.noComplete lowers the pending count without completing the phase.",
        run: no_complete,
        refused: None,
    },
    Litmus {
        name: "mbarrier: tokens",
        says: "A wait by token asks whether the phase of the arrival that gave it has completed.",
        run: tokens,
        refused: None,
    },
    Litmus {
        name: "mbarrier: inval and init",
        says: "After inval the memory is ordinary; init starts phase 0 whatever was there.",
        run: reinit,
        refused: None,
    },
    Litmus {
        name: "mbarrier: limits",
        says: "Arrival counts go to 2^20 - 1, the tx-count from -(2^20 - 1) to 2^20 - 1.",
        run: limits,
        refused: None,
    },
    Litmus {
        name: "mbarrier: 128 threads",
        says: "Arrivals release and waits acquire: what was written before an arrival is read after \
               the wait.",
        run: threads,
        refused: None,
    },
];

fn parity(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_parity>(1, 2 * (1 + ROUNDS as usize), vec![])?;
    for (phase, looks) in have.chunks_exact(2).enumerate() {
        log.part(format!("phase {phase} in progress, waits for parity 0 and 1"));
        let odd = phase as u32 % 2;
        log.exactly(looks, [odd, 1 - odd]);
    }
    Ok(())
}

fn counts(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let arrivals: u32 = (1..=COUNTS).sum();
    let have = bench.observe::<mbar_counts>(1, 2 * arrivals as usize, vec![])?;
    let mut have = have.chunks_exact(2);
    for count in 1..=COUNTS {
        for i in 0..count {
            log.part(format!("count {count}, arrival {i}: pending before, completed after"));
            let done = u32::from(i + 1 == count);
            log.exactly(have.next().unwrap_or_default(), [count - i, done]);
        }
    }
    Ok(())
}

fn arrive_count(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_arrive_count>(1, 14, vec![])?;
    let phase = [
        (10, "a phase begins with all ten pending"),
        (0, "three of ten arrived"),
        (7, "three are counted"),
        (0, "nine of ten arrived"),
        (1, "nine are counted"),
        (1, "ten of ten arrived"),
    ];
    log.table(&have[..6], &phase);
    log.table(&have[6..12], &phase);
    log.table(&have[12..], &[(10, "ten at once find ten pending"), (1, "and complete the phase")]);
    Ok(())
}

fn drop(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_drop>(1, 18, vec![])?;
    log.table(
        &have,
        &[
            (6, "the drop is an arrival at a phase of six"),
            (0, "five of six arrived"),
            (1, "the drop counted as one: one is pending"),
            (1, "six of six arrived"),
            (5, "the next phase expects five; three drop"),
            (0, "three of five arrived"),
            (2, "two are pending"),
            (0, "four of five arrived"),
            (1, "one is pending"),
            (1, "five of five arrived"),
            (2, "the next phase expects two"),
            (0, "one of two arrived"),
            (1, "one is pending, and drops"),
            (1, "a drop can complete the phase"),
            (1, "the next phase expects one"),
            (1, "one of one arrived"),
            (1, "later phases too"),
            (1, "one of one arrived"),
        ],
    );
    Ok(())
}

fn no_complete(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_no_complete>(1, 12, vec![])?;
    let phase = [
        (5, "five pending"),
        (0, "one of five arrived"),
        (4, "four pending, three arrive"),
        (0, "four of five arrived"),
        (1, "one pending"),
        (1, "five of five arrived"),
    ];
    log.table(&have[..6], &phase);
    log.table(&have[6..], &phase);
    Ok(())
}

fn tokens(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_tokens>(1, 13, vec![])?;
    log.table(
        &have,
        &[
            (0, "the token's phase lacks an arrival"),
            (1, "the phase of the first token has completed"),
            (1, "the token of the arrival that completed a phase is of that phase"),
            (0, "a token of the phase in progress"),
            (1, "a token of the phase before it"),
            (0, "all arrivals, bytes outstanding"),
            (0, "all arrivals, bytes outstanding, the last one's token"),
            (1, "the bytes completed the phase"),
            (1, "for every token of it"),
            (2, "pending before the first arrival"),
            (1, "before the second"),
            (2, "before the first of phase 1, which expected bytes too"),
            (1, "before the second of phase 1"),
        ],
    );
    Ok(())
}

fn reinit(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_reinit>(1, 8, vec![])?;
    log.table(
        &have,
        &[
            (1, "one arrival of one"),
            (0xdead_beef, "after inval the bytes are memory"),
            (0, "phase 0 is in progress again"),
            (1, "and the phase before it counts as completed"),
            (0, "one arrival of two"),
            (1, "two arrivals of two"),
            (0, "nobody arrived at this one"),
            (1, "but at its neighbour"),
        ],
    );
    Ok(())
}

fn limits(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_limits>(1, 11, vec![])?;
    log.table(
        &have,
        &[
            (LIMIT, "the largest count is pending"),
            (1, "and arrives at once"),
            (LIMIT, "again"),
            (0, "all but one arrived"),
            (1, "one is pending"),
            (1, "all arrived"),
            (0, "the largest number of bytes is owed"),
            (0, "all but one byte"),
            (1, "all bytes"),
            (0, "the largest number of bytes came early; an arrival is missing"),
            (1, "they are expected with the arrival"),
        ],
    );
    Ok(())
}

fn threads(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<mbar_threads>(1, 256, vec![])?;
    log.part("waits that passed, per thread");
    log.exactly(&have[..128], [2 * ROUNDS; 128]);
    log.part("values that were the neighbour's of the round, per thread");
    log.exactly(&have[128..], [ROUNDS; 128]);
    Ok(())
}
