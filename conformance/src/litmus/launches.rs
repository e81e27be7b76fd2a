//! Kernels launched in a row, and CTAs that wait for one another.

use super::Litmus;
use crate::bench::{Bench, words};
use crate::kernels::launches::*;
use crate::log::{Allowed, Log};
use host::{Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "griddepcontrol: before and behind the wait",
        says: "A dependent grid may start when each CTA of the primary grid has executed \
               launch_dependents or has ended; behind its wait, the primary grid has ended and all it \
               wrote is visible.",
        run: before_and_behind,
        refused: None,
    },
    Litmus {
        name: "griddepcontrol: a chain of three",
        says: "The wait is for the grid ahead. It says nothing of the grid before that, unless the grid \
               ahead has waited for it.",
        run: chain,
        refused: None,
    },
    Litmus {
        name: "ld.acquire, atom: a CTA spins on another's word",
        says: "Two CTAs that are resident make progress: the spin ends, and an acquire that sees the flag \
               sees what was released with it.",
        run: spin,
        refused: None,
    },
];

/// Microseconds by which a primary grid is late.
const LATE: u32 = 200;

fn before_and_behind(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let names = ["no thread", "one thread of each CTA", "every thread"];
    for (who, name) in (0u32..).zip(names) {
        for late in [0, LATE] {
            let words_of = 1 + 32 * CTAS as usize;
            let (at, out) = (bench.upload(&vec![0; words_of])?, bench.upload(&[u32::MAX; 3])?);
            let params = [Param::value(at.addr()), Param::value(who), Param::value(late)];
            bench.queue::<writes_late>(CTAS, &params)?;
            bench.queue::<looks_twice>(1, &[Param::value(at.addr()), Param::value(out.addr())])?;
            bench.device.synchronize()?;
            let have = words(&out.to_vec()?);
            log.part(format!(
                "{name} lets it start, {late} µs before the end: seen before the wait"
            ));
            log.push(have[0], Allowed::OneOf([0, DONE]));
            log.part("the flag behind the wait, and the words that have come");
            log.exactly(&have[1..], [DONE, 32 * CTAS]);
        }
    }
    Ok(())
}

fn chain(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for waits in [0u32, 1] {
        let words_of = 1 + 32 * CTAS as usize;
        let (at, out) = (bench.upload(&vec![0; words_of])?, bench.upload(&[u32::MAX])?);
        let params = [Param::value(at.addr()), Param::value(2u32), Param::value(LATE)];
        bench.queue::<writes_late>(CTAS, &params)?;
        bench.queue::<passes_by>(1, &[Param::value(waits)])?;
        let params = [Param::value(at.addr()), Param::value(out.addr())];
        bench.queue::<looks_behind_the_wait>(1, &params)?;
        bench.device.synchronize()?;
        let have = words(&out.to_vec()?)[0];
        if waits == 1 {
            log.part("the second has waited: the third sees the first's flag");
            log.push(have, Allowed::Is(DONE));
        } else {
            log.part("the second has not waited: what the third sees of the first");
            log.push(have, Allowed::OneOf([0, DONE]));
        }
    }
    Ok(())
}

fn spin(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for spinner in [0u32, 1] {
        for (by_acquire, name) in [(0u32, "atom.add of 0"), (1, "ld.acquire")] {
            let at = bench.upload(&[0, 0])?;
            let params =
                vec![Param::value(at.addr()), Param::value(spinner), Param::value(by_acquire)];
            let have = bench.observe::<spins>(2, 2, params)?;
            log.part(format!("CTA {spinner} spins by {name}: the flag, and the word behind it"));
            log.exactly(&have, [DONE, DATA]);
        }
    }
    Ok(())
}
