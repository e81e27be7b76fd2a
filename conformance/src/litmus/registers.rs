//! Registers: wgmmas in flight, the register pool, and what parts of a warp count at a barrier.

use super::Litmus;
use super::wgmma::{Type, product, small, tight};
use super::wgmma_layout::{image, place, place_a};
use crate::bench::Bench;
use crate::kernels::registers::*;
use crate::log::Log;
use host::{Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "wgmma: one sum in flight",
        says: "wgmmas of one shape on one accumulator are in order, without a fence or a wait between \
               their groups.",
        run: one_sum,
        refused: None,
    },
    Litmus {
        name: "wgmma: two sums in turn",
        says: "A sum may be used when the last group that adds to it has retired, while a later group \
               of another sum is in flight.",
        run: two_sums,
        refused: None,
    },
    Litmus {
        name: "wgmma: fragments of A in flight",
        says: "A wgmma reads A's registers, and does not write them; two fragments may be in flight.",
        run: fragments,
        refused: None,
    },
    Litmus {
        name: "setmaxnreg: two in turn",
        says: "The warps of a group may execute further setmaxnregs, in both directions, when they \
               have synchronised.",
        run: rounds,
        refused: None,
    },
    Litmus {
        name: "barrier.cta.sync: two halves of a warp",
        says: "A thread waits for all threads of its warp that have not returned, and the warp has \
               arrived: 32 threads, which do not complete a barrier of 64.",
        run: halves,
        refused: None,
    },
    Litmus {
        name: "barrier.cta.sync: half a warp has returned",
        says: "The rest of the warp arrives as a warp: with another one it completes a barrier of 64.",
        run: returned,
        refused: None,
    },
];

fn bits(which: usize, row: u32, k: u32) -> u16 {
    Type::Bf16.bits(small(which, row, k))
}

fn one_sum(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let image = image([tight(128); 2], 32, 64, bits, 0, 4);
    let bytes = bench.upload(&image.words)?;
    let params = vec![Param::slice::<u32>(&bytes), Param::value(image.operands)];
    let have = bench.observe::<sums_in_flight>(1, 128 * 16, params)?;
    log.part("sums of four groups: thread * 16 + register");
    log.exactly(
        &have,
        (0..128 * 16).map(|i| {
            let (row, col) = place(i / 16, i % 16);
            product(row, col, 0, 64).to_bits()
        }),
    );
    Ok(())
}

fn two_sums(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let image = image([tight(128); 2], 32, 64, bits, 0, 4);
    let bytes = bench.upload(&image.words)?;
    let params = vec![Param::slice::<u32>(&bytes), Param::value(image.operands)];
    let have = bench.observe::<sums_in_turn>(1, 128 * 32, params)?;
    log.part("the first sum, behind wait_group 1; the second, behind wait_group 0");
    log.exactly(
        &have,
        (0..128 * 32).map(|i| {
            let (row, col) = place(i / 32, i % 16);
            let from = if i % 32 < 16 { 0 } else { 16 };
            let sum = product(row, col, from, from + 16) + product(row, col, from + 32, from + 48);
            sum.to_bits()
        }),
    );
    Ok(())
}

fn fragments(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let image = image([tight(128); 2], 32, 64, bits, 0, 2);
    let fragment = |t: usize, r: usize| {
        let half = |e| {
            let (row, k) = place_a(t, r % 4, e);
            u32::from(bits(0, row as u32, (16 * (r / 4) + k) as u32))
        };
        half(0) | half(1) << 16
    };
    let words: Vec<u32> = (0..128 * 8).map(|i| fragment(i / 8, i % 8)).collect();
    let (a, bytes) = (bench.upload(&words)?, bench.upload(&image.words)?);
    let params =
        vec![Param::slice::<u32>(&a), Param::slice::<u32>(&bytes), Param::value(image.operands)];
    let have = bench.observe::<fragments_in_flight>(1, 128 * 24, params)?;
    log.part("per thread 16 registers of D, then 8 of A after the wait");
    log.exactly(
        &have,
        (0..128 * 24).map(|i| {
            let (t, r) = (i / 24, i % 24);
            if r >= 16 {
                return fragment(t, r - 16);
            }
            let (row, col) = place(t, r);
            product(row, col, 0, 32).to_bits()
        }),
    );
    Ok(())
}

fn rounds(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<register_rounds>(1, 3, vec![])?;
    log.table(
        &have,
        &[
            (2, "a group that gave registers up and took them back"),
            (4, "a group that gave twice, took, and gave again"),
            (0, "a group that kept what it had"),
        ],
    );
    Ok(())
}

fn halves(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<two_halves>(1, 2, vec![])?;
    log.table(
        &have,
        &[
            (1, "the halves alone do not complete the barrier"),
            (32, "threads that passed, in the end"),
        ],
    );
    Ok(())
}

fn returned(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<half_has_returned>(1, 1, vec![])?;
    log.table(&have, &[(0, "the barrier was complete without help")]);
    Ok(())
}
