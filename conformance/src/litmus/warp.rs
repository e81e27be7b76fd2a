//! Shuffles, votes, election, conversions, matrix moves.

use super::Litmus;
use crate::bench::Bench;
use crate::kernels::matrix::*;
use crate::kernels::warp::*;
use crate::log::{Allowed, Log};
use half::{bf16, f16};
use host::{Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "shfl.sync",
        says: "The amount counts modulo 32; up and down leave a lane its own value where there is no \
               other.",
        run: shuffles,
        refused: None,
    },
    Litmus {
        name: "vote.sync, elect.sync",
        says: "Votes are over all lanes; one lane is elected, the same each time.",
        run: votes,
        refused: None,
    },
    Litmus {
        name: "cvt, sqrt",
        says: "To nearest even; beyond the range an infinity. A NaN becomes the canonical one of the \
               new type: so do CUDA's headers on the host; the manual is silent on cvt.",
        run: converted,
        refused: None,
    },
    Litmus {
        name: "ldmatrix",
        says: "Register i of lane l holds elements 2 (l % 4) and the next of row l / 4 of matrix i, \
               whose rows lanes 8 i to 8 i + 7 address; transposed, rows and columns change places.",
        run: loads,
        refused: None,
    },
    Litmus {
        name: "stmatrix",
        says: "The same mapping, to memory; rows that no lane of the form addresses stay.",
        run: stores,
        refused: None,
    },
];

fn shuffles(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let count = (AMOUNTS * SHUFFLES * 32) as usize;
    let have = bench.observe::<warp_shuffles>(1, count, vec![])?;
    for (amount, have) in (0..AMOUNTS).zip(have.chunks_exact(128)) {
        let b = amount % 32;
        let from: [(&str, &dyn Fn(u32) -> u32); 4] = [
            ("idx", &|_| b),
            ("bfly", &|lane| lane ^ b),
            ("up", &|lane| lane.checked_sub(b).unwrap_or(lane)),
            ("down", &|lane| if lane + b < 32 { lane + b } else { lane }),
        ];
        for ((name, from), have) in from.iter().zip(have.chunks_exact(32)) {
            log.part(format!("{name} by {amount}, per lane"));
            log.exactly(have, (0..32).map(|lane| 1000 + from(lane)));
        }
    }
    Ok(())
}

fn votes(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let patterns = [0, u32::MAX, 1, 1 << 31, 0xffff_fffe, 0x5555_5555, 0x8000_0001, 0x0ff0_1234];
    let buffer = bench.upload(&patterns)?;
    let count = patterns.len() * (VOTES * 32) as usize;
    let have = bench.observe::<warp_votes>(1, count, vec![Param::slice::<u32>(&buffer)])?;
    let mut elected = None;
    for (&p, have) in patterns.iter().zip(have.chunks_exact(128)) {
        log.part(format!("any, all and ballot of {p:#x}, per lane"));
        log.exactly(&have[..32], [u32::from(p != 0); 32]);
        log.exactly(&have[32..64], [u32::from(p == u32::MAX); 32]);
        log.exactly(&have[64..96], [p; 32]);
        let lanes: Vec<usize> = (0..32).filter(|&l| have[96 + l] != 0).collect();
        log.part("lanes elected");
        log.push(lanes.len() as u32, Allowed::Is(1));
        let first = elected.get_or_insert_with(|| lanes.clone());
        log.part("the same lane as before");
        log.push(u32::from(*first == lanes), Allowed::Is(1));
    }
    Ok(())
}

/// The canonical NaNs of the 16-bit types and of f32.
const NAN_16: u16 = 0x7fff;
const NAN_32: u32 = 0x7fff_ffff;

fn converted(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let mut bits: Vec<u32> = vec![
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_1234,
        0x7f80_0001,
        0x3f80_0000,
        0xbf80_0000,
    ];
    // Every half-way case of both types, and its neighbours, around one and at f16's ends.
    for base in [0x3f80_0000u32, 0x3f81_0000, 0x4770_0000, 0x477f_e000, 0x3880_0000, 0x3300_0000] {
        for offset in [0, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
            bits.extend([base + offset, base + offset + 0x8000_0000]);
        }
    }
    let mut x = 0x2545_f491u32;
    bits.extend(
        std::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            x
        })
        .take(2000),
    );
    let buffer = bench.upload(&bits)?;
    let have =
        bench.observe::<conversions>(1, 8 * bits.len(), vec![Param::slice::<u32>(&buffer)])?;
    let to_bf16 = |x: f32| if x.is_nan() { NAN_16 } else { bf16::from_f32(x).to_bits() };
    let to_f16 = |x: f32| if x.is_nan() { NAN_16 } else { f16::from_f32(x).to_bits() };
    let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
    let from_f16 = |b: u32| {
        let x = f16::from_bits(b as u16);
        if x.is_nan() { NAN_32 } else { x.to_f32().to_bits() }
    };
    for (&b, have) in bits.iter().zip(have.chunks_exact(8)) {
        let x = f32::from_bits(b);
        let root = x.sqrt();
        log.part(format!("{b:#x}: bf16 pairs, f16 pair, its halves as bf16 and f16, square root"));
        log.exactly(
            have,
            [
                pair(to_bf16(x), to_bf16(1.0)),
                pair(to_bf16(1.0), to_bf16(x)),
                pair(to_f16(x), to_f16(1.0)),
                b << 16,
                b & 0xffff_0000,
                from_f16(b),
                from_f16(b >> 16),
                if root.is_nan() { NAN_32 } else { root.to_bits() },
            ],
        );
    }
    Ok(())
}

/// The 16-byte row that lane `lane` of the kernels addresses.
fn row(lane: u32) -> u32 {
    5 * lane % 32
}

/// Index, among the 256 elements of memory, of element `e` (0 or 1) of register `r` of a lane.
fn element(lane: u32, r: u32, e: u32, trans: bool) -> u32 {
    let (a, b) = (lane / 4, 2 * (lane % 4) + e);
    let (matrix_row, col) = if trans { (b, a) } else { (a, b) };
    8 * row(8 * r + matrix_row) + col
}

fn loads(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let have = bench.observe::<matrix_loads>(1, 14 * 32, vec![])?;
    let mut have = have.chunks_exact(32);
    for trans in [false, true] {
        for n in [1, 2, 4] {
            for r in 0..n {
                log.part(format!("x{n}, transposed {trans}, register {r}, per lane"));
                log.exactly(
                    have.next().unwrap_or_default(),
                    (0..32).map(|l| element(l, r, 0, trans) | element(l, r, 1, trans) << 16),
                );
            }
        }
    }
    Ok(())
}

fn stores(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases: [(&KernelDesc, u32, bool); 6] = [
        (&matrix_store_x1::DESC, 1, false),
        (&matrix_store_x2::DESC, 2, false),
        (&matrix_store_x4::DESC, 4, false),
        (&matrix_store_x1_trans::DESC, 1, true),
        (&matrix_store_x2_trans::DESC, 2, true),
        (&matrix_store_x4_trans::DESC, 4, true),
    ];
    for (desc, n, trans) in cases {
        let have = bench.observe_desc(desc, [1, 1, 1], 128, vec![])?;
        let mut want = [0xffffu32; 256];
        for (lane, r, e) in (0..32).flat_map(|l| (0..n).flat_map(move |r| [(l, r, 0), (l, r, 1)])) {
            want[element(lane, r, e, trans) as usize] = 16 * lane + 2 * r + e;
        }
        log.part(format!("memory after x{n}, transposed {trans}"));
        log.exactly(&have, want.chunks_exact(2).map(|p| p[0] | p[1] << 16));
    }
    Ok(())
}
