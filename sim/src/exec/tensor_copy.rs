//! `tcgen05.cp`: shared memory to tensor memory, by one thread, in its CTA or in both of its pair.
//!
//! A copy of a pair does in each CTA what one of a single CTA does: the rows lie in the shared memory of the CTA that gets them.

use super::tensor::ordered;
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::race::tensor::Uses;
use crate::tensor::copy::Shape;
use crate::tensor::memory::split;
use crate::tensor::pair;
use crate::types::word::Word;

/// `tcgen05.cp` to the address `to`, of the rows that the descriptor `from` names.
pub(crate) fn copy(
    e: &mut Engine,
    t: u32,
    (to, from): (u32, u64),
    shape: Shape,
    pair: bool,
) -> Result<(), Fault> {
    let (cta, line) = (e.hw.thread(t).cta, e.hw.line(t));
    e.hw.pairs.group(pair, "tcgen05.cp", line)?;
    let peer = if pair { Some(pair::peer(&e.hw.ctas, cta, "tcgen05.cp")?) } else { None };
    let chunks = shape.addresses(from)?;
    e.operands(|| [from, u64::from(to)]);
    for cta in std::iter::once(cta).chain(peer) {
        within(e, (t, cta), to, &chunks, shape)?;
    }
    Ok(())
}

/// The copy in one CTA.
fn within(
    e: &mut Engine,
    (t, cta): (u32, usize),
    to: u32,
    chunks: &[u32],
    shape: Shape,
) -> Result<(), Fault> {
    let line = e.hw.line(t);
    let (lane, first) = split(to);
    let (lanes, step) = shape.lanes(lane)?;
    let columns = first..first + shape.columns();
    e.hw.tensor[cta].check(&columns)?;
    let mut words = Vec::with_capacity(chunks.len());
    for &addr in chunks {
        match e.hw.smem[cta].hold_chunk(addr) {
            Ok(bytes) => words.push(<[u32; 4]>::from_bytes(bytes)),
            Err(c) => return Err(e.hw.conflict(cta, c)),
        }
    }
    let commit = e.hw.umma.open(t);
    e.guided(|guide| {
        guide.visit(cta);
        for &addr in chunks {
            guide.touch(cta as u64, u64::from(addr), 16, false);
        }
    });
    e.checked(t, |race, thread| {
        race.reaches(thread, cta);
        race.umma((thread, cta), chunks, commit)
    })?;
    if step == 1 {
        ordered(e, (t, cta), lanes.clone(), columns, Uses::Copy, commit)?;
    } else {
        for lane in lanes.clone().step_by(step) {
            ordered(e, (t, cta), lane..lane + 1, columns.clone(), Uses::Copy, commit)?;
        }
    }
    e.hw.umma.issue(t, cta, chunks.to_vec(), line);
    let memory = &mut e.hw.tensor[cta];
    for lane in lanes.step_by(step) {
        let row = shape.row(lane) * shape.chunks();
        let words = &words[row as usize..][..shape.chunks() as usize];
        for (column, word) in (first..).zip(words.as_flattened()) {
            *memory.word(lane, column) = *word;
        }
    }
    Ok(())
}
