//! The litmus programs for Blackwell. **No chip has ever run them.**
//!
//! What a value may be is written by hand from the PTX manual, chapter *TensorCore 5th Generation Family Instructions*.

use crate::bench::Bench;
use crate::litmus::Litmus;
use crate::log::{Allowed, Log};
use conformance_blackwell as kernels;
use host::{Error, Param};
use isa::kernel::{Kernel, KernelMeta};

/// Every one, in the order of the report.
pub const ALL: &[Litmus] = &[
    Litmus {
        name: "tcgen05.ld: 32x32b and 16x256b",
        says: "Lane i of a warp has row i of its lanes; in a fragment, lane i has columns 2 (i % 4) and the next, \
               of row i / 4 and of the row 8 below.",
        run: layouts,
        refused: None,
    },
    Litmus {
        name: "tcgen05.st, tcgen05.commit: what comes back, and when",
        says: "A store is read back by its thread behind its waits. A commit is one arrival, also of nothing.",
        run: stores_and_commits,
        refused: None,
    },
    Litmus {
        name: "tcgen05.mma.cta_group::2: a pair",
        says: "Each CTA has 128 of the 256 rows of D, and all columns; it brings half of B.",
        run: pair,
        refused: None,
    },
    Litmus {
        name: "tcgen05.mma.block_scale: factors of MXFP8",
        says: "A row's factor lies in lane row % 32 of column row / 32, copied to all four warps' lanes.",
        run: factors,
        refused: None,
    },
    Litmus {
        name: "tcgen05.mma.block_scale: factors of NVFP4",
        says: "Byte i of a row's word is the factor of the elements 16 i to 16 i + 15.",
        run: factors_of_sixteen,
        refused: None,
    },
    Litmus {
        name: "tcgen05.mma.cta_group::2.block_scale: factors of a pair",
        says: "Each CTA has the factors of its 128 rows of A, and of all columns of D.",
        run: factors_of_a_pair,
        refused: None,
    },
    Litmus {
        name: "tcgen05.mma: A in tensor memory",
        says: "Row i of A lies in lane i, two elements of bf16 in a column.",
        run: a_in_tensor_memory,
        refused: None,
    },
    Litmus {
        name: "tcgen05.shift: the rows of a warp",
        says: "Our reading: 32 lanes from the address's lane on, and 32 bytes of each, move down by one row. The \
               first row stays.",
        run: shifted,
        refused: None,
    },
    Litmus {
        name: "clusterlaunchcontrol: each CTA's work is done once",
        says: "A request that succeeds cancels the launch of a cluster, whose work its asker does.",
        run: claims,
        refused: None,
    },
];

/// The descriptions of their kernels.
pub fn kernels() -> Vec<KernelMeta> {
    vec![
        kernels::layouts::DESC.meta,
        kernels::stores_and_commits::DESC.meta,
        kernels::pair::DESC.meta,
        kernels::factors::DESC.meta,
        kernels::factors_of_sixteen::DESC.meta,
        kernels::factors_of_a_pair::DESC.meta,
        kernels::a_in_tensor_memory::DESC.meta,
        kernels::shifted::DESC.meta,
        kernels::claims::DESC.meta,
    ]
}

/// The words that a kernel of these CTAs wrote; 0 where it wrote none.
fn observe<K: Kernel>(bench: &Bench, ctas: u32, words: usize) -> Result<Vec<u32>, Error> {
    let out = bench.upload(&vec![0; words])?;
    bench.queue::<K>(ctas, &[Param::value(out.addr())])?;
    bench.device.synchronize()?;
    Ok(crate::bench::words(&out.to_vec()?))
}

fn float(x: u32) -> u32 {
    (x as f32).to_bits()
}

/// D of a CTA: its elements, by rows of 16 columns.
fn elements(log: &mut Log, have: &[u32], want: impl Fn(u32, u32) -> u32) {
    for (row, have) in (0..).zip(have.chunks_exact(16)) {
        log.part(format!("row {row} of D"));
        log.exactly(have, (0..16).map(|column| want(row, column)));
    }
}

fn layouts(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::layouts>(bench, 1, 128 * kernels::WORDS as usize)?;
    for (t, have) in (0..).zip(have.chunks_exact(kernels::WORDS as usize)) {
        let (warp, lane) = (t / 32, t % 32);
        // PTX manual, *Matrix fragments for shape .32x32b*, and .16x256b.
        let rows = (0..16).map(|i| (t, i));
        let fragment = |half: u32| {
            move |i: u32| {
                let row = 32 * warp + 16 * half + lane / 4 + 8 * (i / 2 % 2);
                (row, 8 * (i / 4) + 2 * (lane % 4) + i % 2)
            }
        };
        let all = rows.chain((0..8).map(fragment(0))).chain((0..8).map(fragment(1)));
        log.part(format!("thread {t}"));
        log.exactly(have, all.map(|(row, column)| float(row + 128 * column)));
    }
    Ok(())
}

fn stores_and_commits(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::stores_and_commits>(bench, 1, 514)?;
    for (t, have) in (0..).zip(have[..512].chunks_exact(4)) {
        log.part(format!("the words of thread {t}"));
        log.exactly(have, (0..4).map(|i| 100 * t + i));
    }
    log.part("a barrier that expects two arrivals, behind one commit: its phase is over");
    log.push(have[512], Allowed::Is(0));
    log.part("a commit without a multiplication since the one before arrives");
    log.push(have[513], Allowed::Is(1));
    Ok(())
}

/// The rows of D of a pair.
fn rows_of_a_pair(log: &mut Log, have: &[u32], want: impl Fn(u32, u32) -> u32) {
    for (row, have) in (0..).zip(have.chunks_exact(kernels::WORDS as usize)) {
        log.part(format!("row {row} of D, of CTA {}", row / 128));
        log.exactly(have, (0..32).map(|column| want(row, column)));
    }
}

fn pair(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::pair>(bench, 2, 256 * kernels::WORDS as usize)?;
    rows_of_a_pair(log, &have, |row, column| float(row + 256 * column));
    Ok(())
}

fn factors_of_a_pair(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::factors_of_a_pair>(bench, 2, 256 * kernels::WORDS as usize)?;
    rows_of_a_pair(log, &have, |row, column| {
        let (a, b) = kernels::exponents(row, column);
        (32.0 * 2.0_f32.powi(a + b)).to_bits()
    });
    Ok(())
}

fn factors(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::factors>(bench, 1, 128 * 16)?;
    elements(log, &have, |row, column| {
        let (a, b) = kernels::exponents(row, column);
        (32.0 * 2.0_f32.powi(a + b)).to_bits()
    });
    Ok(())
}

fn factors_of_sixteen(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::factors_of_sixteen>(bench, 1, 128 * 16)?;
    let factor = |operand, row, i| kernels::sixteenths(operand, row, i).0;
    elements(log, &have, |row, column| {
        let parts = (0..4).map(|i| 16.0 * factor(0, row, i) * factor(1, column, i));
        parts.sum::<f32>().to_bits()
    });
    Ok(())
}

fn a_in_tensor_memory(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::a_in_tensor_memory>(bench, 1, 128 * 16)?;
    elements(log, &have, |row, column| float(row + 128 * column));
    Ok(())
}

fn shifted(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = observe::<kernels::shifted>(bench, 1, 128 * 16)?;
    for (row, have) in (0..).zip(have.chunks_exact(16)) {
        // The lanes 32 to 63, and the first eight of the 16 columns.
        let from = if (33..64).contains(&row) { row - 1 } else { row };
        log.part(format!("row {row}"));
        log.exactly(have, (0..16).map(|i| 100 * if i < 8 { from } else { row } + i));
    }
    Ok(())
}

fn claims(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    // More than there is room for: the model's devices have few SMs here.
    let ctas = if bench.device.is_sim() { 12 } else { 1 << 14 };
    let n = ctas as usize;
    let have = observe::<kernels::claims>(bench, ctas, 2 * n)?;
    log.part("how often the work of each CTA was done");
    log.exactly(&have[..n], (0..n).map(|_| 1));
    log.part("what the CTAs that started have done, together");
    log.push(have[n..].iter().sum(), Allowed::Is(ctas));
    log.part("work that a CTA did in place of another");
    let claimed = have[n..].iter().map(|done| done.saturating_sub(1)).sum();
    log.push(claimed, Allowed::Any);
    Ok(())
}
