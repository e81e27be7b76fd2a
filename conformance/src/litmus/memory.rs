//! Words, atomics, flags between CTAs.

use super::Litmus;
use crate::bench::{Bench, words};
use crate::kernels::memory::*;
use crate::log::Log;
use host::{Error, Param};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "ld, st: words of every size",
        says: "Little-endian; vectors are their elements in order; a CTA's own memory has an address \
               in the cluster as well.",
        run: sizes,
        refused: None,
    },
    Litmus {
        name: "atom: shared and global",
        says: "Each atomic finds what another left; the values found are all different and complete.",
        run: atomics,
        refused: None,
    },
    Litmus {
        name: "ld.acquire, st.release, red.release: a flag from CTA to CTA",
        says: "What was written before a release is read after the acquire that saw its value.",
        run: flags,
        refused: None,
    },
    Litmus {
        name: "atom.acq_rel.inc: the last CTA",
        says: "The CTA that counts last reads what all others wrote before they counted; the counter is 0 again.",
        run: last,
        refused: None,
    },
];

fn sizes(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let v = 0xa1b2_0010u32;
    let have = bench.observe::<memory_words>(1, WORDS as usize, vec![Param::value(v)])?;
    log.table(
        &have[..17],
        &[
            (v, "element 0 of four"),
            (v + 1, "element 1"),
            (v + 2, "element 2"),
            (v + 3, "element 3"),
            (v + 2, "the low half of eight bytes"),
            (v + 3, "the high half"),
            (v >> 16, "the upper two bytes of a word"),
            (v ^ 0xffff, "element 0 of two"),
            (v ^ 0xffff_0000, "element 1 of two"),
            (v ^ 0xffff, "the same in a vector of four"),
            (v ^ 0xffff_0000, "the same in a vector of four"),
            (0x89ab_cdef, "eight bytes, low half first"),
            (0x0123_4567, "then the high half"),
            (0x7777_cdef, "two bytes replaced"),
            (0xbfc0_0000, "the bits of -1.5"),
            (v, "by its address in the cluster"),
            (v + 9, "written by its address in the cluster"),
        ],
    );
    Ok(())
}

fn atomics(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let sums = bench.upload(&[11, 1f32.to_bits()])?;
    let have = bench.observe::<memory_atomics>(1, 257, vec![Param::value(sums.addr())])?;
    // Who comes when is open: the values found, in their order.
    for (part, first, step) in [(0, 7, 3), (1, 11, 5)] {
        let mut found = have[128 * part..][..128].to_vec();
        found.sort_unstable();
        log.part(format!("values found in {} memory, sorted", ["shared", "global"][part]));
        log.exactly(&found, (0..128).map(|k| first + step * k));
    }
    let sums = words(&sums.to_vec()?);
    log.table(
        &[have[256], sums[0], sums[1]],
        &[
            (7 + 3 * 128, "the sum in shared memory"),
            (11 + 5 * 128, "the sum in global memory"),
            (65f32.to_bits(), "the sum of floats, exact in any order"),
        ],
    );
    Ok(())
}

fn flags(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let chain = bench.upload(&[1, 0, 0, 0, 2, 0, 0, 0])?;
    let have = bench.observe::<memory_flags>(3, 3, vec![Param::value(chain.addr())])?;
    log.part("flags seen");
    log.exactly(&have, [1; 3]);
    log.part("flags and words in the end");
    log.exactly(&words(&chain.to_vec()?), [1, 1, 1, 1, 2, 7, 22, 67]);
    Ok(())
}

fn last(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let ctas = LAST_CTAS;
    let buffer = bench.upload(&vec![0; 32 * (1 + ctas as usize)])?;
    let words_out = (ctas + 32) as usize;
    let have = bench.observe::<memory_last>(ctas, words_out, vec![Param::value(buffer.addr())])?;
    let mut found = have[..ctas as usize].to_vec();
    found.sort_unstable();
    log.part("values found in the counter, sorted");
    log.exactly(&found, 0..ctas);
    log.part("sums of the last CTA");
    log.exactly(&have[ctas as usize..], (0..32).map(|me| ctas * me + 100 * (0..ctas).sum::<u32>()));
    log.part("the counter in the end");
    log.exactly(&words(&buffer.to_vec()?)[..1], [0]);
    Ok(())
}
