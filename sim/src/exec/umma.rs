//! `tcgen05.mma`: what a multiplication of one CTA, or of a pair, reads and writes.
//!
//! The thread that issues it is ordered with what it touches in both CTAs of a pair, as with its own CTA.

use super::tensor::{ordered, own};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::tensor::Uses;
use crate::tensor::descriptor::{Kind, M, Shape};
use crate::tensor::memory::{LANES, split};
use crate::tensor::umma::{A_COLUMNS, Operands, multiply};
use crate::tensor::{pair, scaled};
use std::ops::Range;

/// Where A lies: a descriptor of shared memory, or an address of tensor memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum A {
    Shared(u64),
    Tensor(u32),
}

/// `tcgen05.mma` of a kind, by one thread, for its CTA or its pair.
pub(crate) fn mma(
    e: &mut Engine,
    t: u32,
    d: u32,
    (a, b): (A, u64),
    (kind, idesc, pair): (Kind, u32, bool),
    adds: bool,
) -> Result<(), Fault> {
    let ctas = issues(e, t, pair)?;
    let shape = Shape::new(idesc, kind, pair)?;
    let operands = operands(e, (t, &ctas), (a, b), (d, idesc, shape))?;
    product(e, t, d, &operands, (ctas, shape, kind == Kind::I8), (adds, None))
}

/// `tcgen05.mma` of a kind with block scales, with factors at two addresses of tensor memory, in each CTA.
pub(crate) fn mma_scaled(
    e: &mut Engine,
    t: u32,
    d: u32,
    (a, b, addresses): (A, u64, [u32; 2]),
    (kind, idesc, pair): (Kind, u32, bool),
    adds: bool,
) -> Result<(), Fault> {
    let ctas = issues(e, t, pair)?;
    let (shape, factors) = scaled::shape(idesc, kind, pair)?;
    // Each CTA of a pair has the factors of its rows of A, and of all rows of B.
    let rows = [M, shape.n];
    let mut columns = [0; 2];
    for ((column, address), rows) in columns.iter_mut().zip(addresses).zip(rows) {
        let (lane, first) = split(address);
        if lane != 0 {
            let message = format!("factors at lane {lane}: they begin at lane 0");
            return Err(Fault::new(Rule::TensorLanes, message));
        }
        *column = first;
        let all = scaled::columns(first, rows);
        for cta in ctas.clone() {
            reads(e, (t, cta), &all)?;
        }
    }
    let operands = operands(e, (t, &ctas), (a, b), (d, idesc, shape))?;
    product(e, t, d, &operands, (ctas, shape, false), (adds, Some((columns, factors))))
}

/// The thread's multiplication reads columns of a CTA.
fn reads(e: &mut Engine, (t, cta): (u32, usize), columns: &Range<u32>) -> Result<(), Fault> {
    e.guided(|guide| guide.visit(cta));
    e.hw.tensor[cta].check(columns)?;
    let commit = e.hw.umma.open(t);
    ordered(e, (t, cta), 0..LANES, columns.clone(), Uses::Operand, commit)
}

/// The operands of a multiplication into the columns from `d` on.
fn operands(
    e: &mut Engine,
    (t, ctas): (u32, &Range<usize>),
    (a, b): (A, u64),
    (d, idesc, shape): (u32, u32, Shape),
) -> Result<Operands, Fault> {
    let (descriptor, words) = match a {
        A::Shared(a) => (a, None),
        A::Tensor(a) => {
            let sums = d..d + shape.n;
            let rows: Result<_, _> =
                ctas.clone().map(|cta| rows_of_a(e, (t, cta), a, &sums)).collect();
            (u64::from(a), Some(rows?))
        }
    };
    e.operands(|| [descriptor, b, u64::from(idesc) << 32 | u64::from(d)]);
    Operands::new(descriptor, words, b, shape)
}

/// The rows of A in a CTA's tensor memory, which a multiplication reads.
fn rows_of_a(
    e: &mut Engine,
    (t, cta): (u32, usize),
    a: u32,
    sums: &Range<u32>,
) -> Result<Vec<u32>, Fault> {
    let (lane, first) = split(a);
    if lane != 0 {
        let message = format!("an operand A at lane {lane}: {M} rows begin at lane 0");
        return Err(Fault::new(Rule::TensorLanes, message));
    }
    let columns = first..first + A_COLUMNS;
    if columns.start < sums.end && sums.start < columns.end {
        let message = format!(
            "{} multiplies ({}) an A in the columns {first} to {} of tensor memory into the columns {} to {}: it reads A while it \
             writes the sums",
            e.hw.thread(t).place(),
            e.hw.thread(t).op,
            columns.end - 1,
            sums.start,
            sums.end - 1
        );
        return Err(Fault::new(Rule::TensorRace, message));
    }
    own(e, t, &columns, true)?;
    reads(e, (t, cta), &columns)?;
    let memory = &mut e.hw.tensor[cta];
    let row = |lane| columns.clone().map(move |column| (lane, column));
    Ok((0..M).flat_map(row).map(|(lane, column)| *memory.word(lane, column)).collect())
}

/// A multiplication: checks what it touches, and does it.
fn product(
    e: &mut Engine,
    t: u32,
    d: u32,
    operands: &Operands,
    (ctas, shape, integers): (Range<usize>, Shape, bool),
    (adds, factors): (bool, Option<([u32; 2], scaled::Factors)>),
) -> Result<(), Fault> {
    let (lane, first) = split(d);
    if lane != 0 {
        let message = format!("an accumulator at lane {lane}: {M} rows begin at lane 0");
        return Err(Fault::new(Rule::TensorLanes, message));
    }
    let columns = first..first + shape.n;
    for cta in ctas.clone() {
        e.hw.tensor[cta].check(&columns)?;
    }
    own(e, t, &columns, false)?;
    own(e, t, &columns, true)?;
    // Each part has factors of its own.
    let parts = factors.map_or(1, |(_, factors)| factors.count as usize);
    let products = multiply(&mut e.hw.smem, ctas.clone(), operands, (shape, parts));
    let products = products.map_err(|(cta, c)| e.hw.conflict(cta, c))?;
    let chunks = operands.chunks();
    let commit = e.hw.umma.open(t);
    let line = e.hw.line(t);
    for (cta, mut products) in ctas.zip(products) {
        e.guided(|guide| {
            guide.visit(cta);
            for &addr in &chunks {
                guide.touch(cta as u64, u64::from(addr), 16, false);
            }
        });
        e.checked(t, |race, thread| {
            race.reaches(thread, cta);
            race.umma((thread, cta), &chunks, commit)
        })?;
        ordered(e, (t, cta), 0..LANES, columns.clone(), Uses::Multiply { adds }, commit)?;
        e.hw.umma.issue(t, cta, chunks.clone(), line);
        let memory = &mut e.hw.tensor[cta];
        if let Some(([a, b], factors)) = factors {
            let a = scaled::factors(memory, a, M, factors, 0)?;
            let b = scaled::factors(memory, b, shape.n, factors, 1)?;
            for (i, product) in products.iter_mut().enumerate() {
                let (a, b) = (a.iter().skip(i).step_by(parts), b.iter().skip(i).step_by(parts));
                for (row, a) in product.chunks_exact_mut(shape.n as usize).zip(a) {
                    row.iter_mut().zip(b.clone()).for_each(|(sum, b)| *sum *= a * b);
                }
            }
        }
        let mut products = products.into_iter();
        let mut product = products.next().unwrap_or_default();
        for other in products {
            product.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        for (row, sums) in (0..).zip(product.chunks_exact(shape.n as usize)) {
            for (column, sum) in (first..).zip(sums) {
                let word = memory.word(row, column);
                let before = if adds { *word } else { 0 };
                *word = if integers {
                    // f32 holds the sum of 32 products of two bytes.
                    before.wrapping_add((*sum as i32).cast_unsigned())
                } else {
                    (f32::from_bits(before) + sum).to_bits()
                };
            }
        }
    }
    e.stats.wgmmas += 1;
    Ok(())
}

/// The CTAs that a multiplication of a thread works in.
fn issues(e: &mut Engine, t: u32, pair: bool) -> Result<Range<usize>, Fault> {
    let (cta, line) = (e.hw.thread(t).cta, e.hw.line(t));
    e.hw.pairs.group(pair, "tcgen05.mma", line)?;
    if !pair {
        return Ok(cta..cta + 1);
    }
    let peer = pair::peer(&e.hw.ctas, cta, "tcgen05.mma")?;
    if peer < cta {
        let message = format!(
            "tcgen05.mma with .cta_group::2 by {}, in CTA {cta}: a thread of CTA {peer} issues it, whose rank is even",
            e.hw.thread(t).place()
        );
        return Err(Fault::new(Rule::TensorPair, message));
    }
    Ok(cta..cta + 2)
}
