//! Named barriers and the register pool.

use super::Litmus;
use crate::bench::{Bench, UNWRITTEN};
use crate::kernels::barriers::*;
use crate::log::Log;
use host::{Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "barrier.cta: arrive and sync, slots 1 to 15",
        says: "A slot's count covers those that arrive and those that wait; the waiters read what the \
               arrivers wrote before.",
        run: pairs,
        refused: None,
    },
    Litmus {
        name: "barrier.cta: counts",
        says: "The count is a multiple of 32, up to the whole CTA, and may differ from use to use.",
        run: counts,
        refused: None,
    },
    Litmus {
        name: "barrier.cta.red: popc, and, or",
        says: "The reduction is over the predicates of all threads that take part, and all get it.",
        run: reductions,
        refused: None,
    },
    Litmus {
        name: "setmaxnreg: the pool",
        says: "dec gives registers to the CTA's pool, inc waits until the pool has enough.",
        run: pool,
        refused: None,
    },
];

fn pairs(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<named_pairs>(1, 192, vec![])?;
    log.part("sums of what the arrivers wrote, per thread");
    let sum: u32 = (1..16).flat_map(|id| (0..64).map(move |i| 100 * id + i)).sum();
    log.exactly(&have, (0..192).map(|t| if t < 32 * ARRIVERS { 0 } else { sum }));
    Ok(())
}

fn counts(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<named_counts>(1, 160, vec![])?;
    log.part("sums of what the arriver wrote, per thread");
    let of = |n: u32| (0..32).map(|i| 1000 * n + i).sum::<u32>();
    // Warp w takes part where the count is of more than w warps.
    log.exactly(
        &have,
        (0..160u32).map(|t| match t / 32 {
            0 => 0,
            w => (2..=5).filter(|&n| n > w).map(of).sum(),
        }),
    );
    Ok(())
}

fn reductions(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for bound in [0, 1, 31, 32, 95, 96, 128] {
        let have = bench.observe::<named_reductions>(1, 512, vec![Param::value(bound)])?;
        log.part(format!("thread < {bound}, over 96 threads: popc, and, or, the bound"));
        log.exactly(
            &have,
            (0..128).flat_map(|t| {
                let all = [bound.min(96), u32::from(bound >= 96), u32::from(bound > 0)];
                let [popc, and, or] = if t < 96 { all } else { [UNWRITTEN; 3] };
                [popc, and, or, bound]
            }),
        );
    }
    Ok(())
}

fn pool(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<register_pool>(1, 3, vec![])?;
    log.table(
        &have,
        &[
            (3, "the group that gave registers up came to the end"),
            (3, "a group that took them, gave some back and took more"),
            (3, "a group that took them and gave some back"),
        ],
    );
    Ok(())
}
