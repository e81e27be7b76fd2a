//! mbarriers that count bytes, and barriers of other CTAs.

use super::{Litmus, Refusal};
use crate::bench::Bench;
use crate::kernels::remote::*;
use crate::kernels::transactions::*;
use crate::log::{Allowed, Log};
use host::{Dtype, Error, Param, TensorNd};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "mbarrier: orders of bytes",
        says: "The phase completes when no arrival is pending and the tx-count is zero, whichever \
               event brings that about; expectations add, completions subtract, in any order while \
               an arrival is missing.",
        run: orders,
        refused: None,
    },
    Litmus {
        name: "mbarrier: bytes and two arrivals",
        says: "Bytes that are all there do not complete a phase that lacks an arrival.",
        run: two_arrivals,
        refused: None,
    },
    Litmus {
        name: "mbarrier: more bytes than expected, after the arrivals",
        says: "The tx-count passes zero without resting there: not completed by these bytes. What \
               the missing expectation then does is not said.",
        run: overrun,
        refused: Some(Refusal::rule("WP003")),
    },
    Litmus {
        name: "mbarrier: more bytes than expected, before the last arrival",
        says: "No arrival is pending, and the tx-count is not zero.",
        run: overrun_first,
        refused: Some(Refusal::rule("WP003")),
    },
    Litmus {
        name: "mbarrier: fewer bytes than expected",
        says: "The phase does not complete while bytes are owed.",
        run: short,
        refused: Some(Refusal::rule("WP002")),
    },
    Litmus {
        name: "mbarrier: remote arrivals",
        says: "A barrier of a peer, through mapa and shared::cluster, takes arrivals like one's own; \
               what was written before a release at cluster scope is read after the acquire.",
        run: arrivals,
        refused: None,
    },
    Litmus {
        name: "mbarrier: remote bytes and copies between CTAs",
        says: "Bytes can be expected and completed on a peer's barrier, by hand or by a bulk copy \
               into its shared memory.",
        run: bytes,
        refused: None,
    },
    Litmus {
        name: "TMA: multicast",
        says: "A multicast writes to the same offset in each CTA of the mask and completes on the \
               barrier at the same offset there; the others see nothing.",
        run: multicast,
        refused: None,
    },
];

fn orders(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<tx_orders>(1, 17, vec![])?;
    log.table(
        &have,
        &[
            (0, "bytes expected, arrival missing"),
            (0, "arrival there, 64 bytes owed"),
            (0, "32 bytes owed"),
            (1, "the last bytes complete the phase"),
            (0, "48 bytes early, arrival missing"),
            (0, "expected after they came: zero owed, arrival missing"),
            (1, "the arrival completes the phase"),
            (0, "80 bytes early, arrival missing"),
            (1, "arrive.expect_tx adds the bytes before it arrives"),
            (0, "16 + 32 + 64 bytes owed"),
            (0, "one of 112 bytes owed"),
            (1, "none owed"),
            (0, "balanced, arrival missing"),
            (1, "the arrival completes the phase"),
            (0, "below zero and back, arrival missing"),
            (1, "the arrival completes the phase"),
            (1, "an expectation of no bytes is an arrival"),
        ],
    );
    Ok(())
}

fn two_arrivals(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<tx_two_arrivals>(1, 10, vec![])?;
    log.table(
        &have,
        &[
            (2, "two pending"),
            (0, "an arrival missing, 16 bytes owed"),
            (0, "an arrival missing, none owed"),
            (1, "one pending"),
            (0, "all arrived, 16 bytes owed"),
            (1, "none owed"),
            (0, "all arrived, one of them leaving, 32 bytes owed"),
            (1, "none owed"),
            (1, "the next phase expects one"),
            (1, "and no bytes"),
        ],
    );
    Ok(())
}

/// 0 or 1: the manual does not say, or says it of programs within the rules.
const OPEN: Allowed = Allowed::OneOf([0, 1]);

fn overrun(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<tx_overrun>(1, 5, vec![])?;
    log.part("32 bytes owed");
    log.push(have[0], Allowed::Is(0));
    for (&have, part) in have[1..].iter().zip([
        "32 bytes too many",
        "the 32 bytes are expected after all",
        "one arrival later, parity 0",
        "one arrival later, parity 1",
    ]) {
        log.part(part);
        log.push(have, OPEN);
    }
    Ok(())
}

fn overrun_first(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<tx_overrun_first>(1, 3, vec![])?;
    log.part("an arrival missing, 32 bytes too many");
    log.push(have[0], Allowed::Is(0));
    log.part("all arrived, 32 bytes too many");
    log.push(have[1], OPEN);
    log.part("the 32 bytes are expected after all");
    log.push(have[2], OPEN);
    Ok(())
}

fn short(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<tx_short>(1, 2, vec![])?;
    log.table(&have, &[(0, "16 of 64 bytes owed"), (0, "the same by token")]);
    Ok(())
}

/// Clusters of a launch.
const CLUSTERS: u32 = 3;

fn arrivals(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for (desc, size) in [(&remote_arrivals_2::DESC, 2), (&remote_arrivals_4::DESC, 4)] {
        let ctas = CLUSTERS * size;
        let count = (ctas * ARRIVAL_WORDS) as usize;
        let have = bench.observe_desc(desc, [ctas, 1, 1], count, vec![])?;
        for (cta, have) in have.chunks_exact(ARRIVAL_WORDS as usize).enumerate() {
            let rank = cta as u32 % size;
            let first = u32::from(rank == 0);
            log.table(
                have,
                &[
                    (0, "every CTA arrived once at rank 0, which counts two of each and one more"),
                    (0, "every CTA arrived twice"),
                    (first, "one is pending at rank 0"),
                    (first, "which completes its phase"),
                    (1, "the neighbour arrived at this CTA's second barrier"),
                    (500 + (rank + size - 1) % size, "and had written here before"),
                    (1, "phase 0 of the second barrier has completed"),
                    (0, "and phase 1 has not"),
                ],
            );
        }
    }
    Ok(())
}

fn bytes(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for (desc, size) in [(&remote_bytes_2::DESC, 2), (&remote_bytes_4::DESC, 4)] {
        let ctas = CLUSTERS * size;
        let notes = (ctas * BYTES_WORDS) as usize;
        let copied = (COPY / 4) as usize;
        let count = notes + ctas as usize * copied;
        let have = bench.observe_desc(desc, [ctas, 1, 1], count, vec![])?;
        let (notes, data) = have.split_at(notes);
        for (cta, have) in notes.chunks_exact(BYTES_WORDS as usize).enumerate() {
            log.table(
                have,
                &[
                    (0, "the neighbour expected 64 bytes here and arrived"),
                    (1, "and completed them"),
                    (0, "the neighbour expects the copy's bytes; no arrival"),
                    (0, "arrived here; the bytes are owed"),
                    (1, "the copy landed"),
                    (0, "phase 2 is in progress"),
                    (1, "phase 1 has completed"),
                    (cta as u32 % size, "the CTA's rank"),
                ],
            );
        }
        for (cta, have) in data.chunks_exact(copied).enumerate() {
            log.part(format!("bytes copied to CTA {cta} of clusters of {size}"));
            let left = (cta as u32 + size - 1) % size;
            log.exactly(have, (0..COPY / 4).map(|i| 10_000 * left + i));
        }
    }
    Ok(())
}

fn multicast(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases: [(&KernelDesc, u32, u32, u32); 6] = [
        (&remote_multicast_2::DESC, 2, 0, 0b11),
        (&remote_multicast_2::DESC, 2, 1, 0b01),
        (&remote_multicast_4::DESC, 4, 0, 0b1111),
        (&remote_multicast_4::DESC, 4, 3, 0b0110),
        (&remote_multicast_4::DESC, 4, 2, 0b0100),
        (&remote_multicast_4::DESC, 4, 1, 0b1011),
    ];
    let tensor: Vec<u32> = (0..BOX / 4).map(|i| 70_000 + i).collect();
    let buffer = bench.upload(&tensor)?;
    let map = bench.device.tensor_map_nd(&TensorNd {
        buffer: &buffer,
        dtype: Dtype::U32,
        dims: &[16, u64::from(BOX / 64)],
        strides: &[64],
        box_dims: &[16, BOX / 64],
        swizzle_bytes: 0,
    })?;
    for (desc, size, from, mask) in cases {
        let ctas = CLUSTERS * size;
        let words = MULTICAST_WORDS as usize;
        let params = vec![Param::map(&map), Param::value(from), Param::value(mask)];
        let have = bench.observe_desc(desc, [ctas, 1, 1], words * ctas as usize, params)?;
        for (cta, have) in have.chunks_exact(words).enumerate() {
            let rank = cta as u32 % size;
            let mine = mask >> rank & 1;
            log.table(
                &have[..4],
                &[
                    (0, "nothing was issued yet"),
                    (mine, "the box landed here if the mask has this rank"),
                    (mine, "and has completed the phase"),
                    (rank, "the CTA's rank"),
                ],
            );
            log.part(format!("shared memory of CTA {cta}, mask {mask:#b} from rank {from}"));
            let fill = 0xeeee_eeee;
            log.exactly(&have[4..], tensor.iter().map(|&v| if mine == 1 { v } else { fill }));
        }
    }
    Ok(())
}
