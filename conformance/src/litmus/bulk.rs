//! Copies of plain runs: `cp.async.bulk` and `cp.async`.

use super::Litmus;
use crate::bench::{Bench, words};
use crate::kernels::bulk::*;
use crate::kernels::cp_async::*;
use crate::log::Log;
use host::{Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "cp.async.bulk: bytes complete on the barrier",
        says: "A copy completes its bytes on the barrier's tx-count; the phase waits for all that \
               were expected, and a reader behind it sees the data.",
        run: load,
        refused: None,
    },
    Litmus {
        name: "cp.async.bulk: groups, wait_group and .read",
        says: "wait_group N: all but the last N groups are complete and visible to the thread. With \
               .read: their sources have been read and may be overwritten.",
        run: groups,
        refused: None,
    },
    Litmus {
        name: "cp.reduce.async.bulk: add",
        says: "Element by element into global memory.",
        run: reduce,
        refused: None,
    },
    Litmus {
        name: "cp.async: zero fill and groups",
        says: "Of 16 bytes so many are read as the source size says, the others become zero; groups \
               complete in order.",
        run: fill,
        refused: None,
    },
    Litmus {
        name: "cp.async: arrival at a barrier",
        says: "The arrival happens when all copies that the thread issued before have landed; it \
               counts among the expected ones.",
        run: arrive,
        refused: None,
    },
];

fn load(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for bytes in [16, 32, 48, 64, 112, 128, 240, 256, 496, 512, 1024, 2032, 2048, 4096] {
        let n = (bytes / 4) as usize;
        let data: Vec<u32> = (0..2 * n as u32).map(|i| bytes << 16 | i).collect();
        let from = bench.upload(&data)?;
        let params = vec![Param::slice::<u32>(&from), Param::value(bytes)];
        let have = bench.observe::<bulk_load>(1, 8 + 2 * n, params)?;
        log.table(
            &have[..5],
            &[
                (0, "nothing expected, nothing arrived"),
                (0, "one of two runs"),
                (1, "both runs"),
                (0, "a run of the next phase, before it was expected"),
                (1, "expected afterwards"),
            ],
        );
        log.part(format!("the last run of {bytes} bytes, in both places"));
        log.exactly(&have[8..8 + n], data[n..].iter().copied());
        log.exactly(&have[8 + n..], data[n..].iter().copied());
    }
    Ok(())
}

fn groups(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let to = bench.device.alloc_zeroed(1024)?;
    let have = bench.observe::<bulk_groups>(1, 6, vec![Param::value(to.addr())])?;
    log.table(
        &have,
        &[
            (5, "group 0, with two groups pending at most"),
            (1063, "group 1, with two groups pending at most"),
            (7, "group 0 in the end"),
            (1007, "group 1 in the end"),
            (2007, "group 2, whose source was overwritten"),
            (3007, "group 3, whose source was overwritten"),
        ],
    );
    log.part("global memory after four groups");
    let stored = words(&to.to_vec()?);
    log.exactly(&stored, (0..4).flat_map(|g| (0..64).map(move |i| 1000 * g + i)));

    let rounds = 40;
    let to = bench.device.alloc_zeroed(32 * rounds as usize)?;
    let params = vec![Param::value(to.addr()), Param::value(rounds)];
    let have = bench.observe::<bulk_rounds>(1, 1, params)?;
    log.part("one source, overwritten between groups");
    log.exactly(&have, [rounds]);
    let stored = words(&to.to_vec()?);
    log.exactly(&stored, (0..8 * rounds).map(|i| 10 * (i / 8) + i % 4));
    Ok(())
}

fn reduce(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for bytes in [16u32, 64, 1008, 4096] {
        let n = bytes / 4;
        for floats in [0u32, 1] {
            let word = |x: u32| if floats == 1 { (x as f32 * 0.5).to_bits() } else { x };
            let from = bench.upload(&(0..n).map(|i| word(i + 1)).collect::<Vec<_>>())?;
            let to = bench.upload(&(0..n).map(|i| word(7 * i)).collect::<Vec<_>>())?;
            let params = vec![
                Param::slice::<u32>(&from),
                Param::value(to.addr()),
                Param::value(bytes),
                Param::value(floats),
            ];
            let have = bench.observe::<bulk_reduce>(1, 1, params)?;
            log.part(format!("{bytes} bytes of {} added twice", ["u32", "f32"][floats as usize]));
            log.exactly(&have, [bytes]);
            log.exactly(&words(&to.to_vec()?), (0..n).map(|i| word(7 * i + 2 * (i + 1))));
        }
    }
    Ok(())
}

fn fill(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let source: Vec<u8> = (0..18 * 16).map(|i| (i % 251 + 1) as u8).collect();
    let from = bench.device.upload(&source)?;
    let have = bench.observe::<copies_fill>(1, 4 * 18, vec![Param::slice::<u32>(&from)])?;
    for copy in 0..18 {
        log.part(format!("{} of 16 bytes read", copy.min(16)));
        let bytes: Vec<u8> =
            (0..16).map(|b| if b < copy { source[16 * copy + b] } else { 0 }).collect();
        log.exactly(&have[4 * copy..][..4], words(&bytes));
    }
    Ok(())
}

fn arrive(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let source: Vec<u32> = (0..512).map(|i| 3 * i + 1).collect();
    let from = bench.upload(&source)?;
    let have = bench.observe::<copies_arrive>(1, 128, vec![Param::slice::<u32>(&from)])?;
    log.part("sum of what another thread copied");
    log.exactly(&have[..64], (0..64).map(|t| source[8 * (63 - t)..][..8].iter().sum()));
    log.part("whether the wait passed");
    log.exactly(&have[64..], [1; 64]);
    Ok(())
}
