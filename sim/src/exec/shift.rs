//! `tcgen05.shift`: rows of tensor memory, moved down by one.
//!
//! The model reads the manual literally: 32 lanes from the address's lane on, 32 bytes of each, and the last row's are lost. A
//! shift of a pair does that in both CTAs, whichever of them has the thread.

use super::tensor::{ordered, own};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::tensor::Uses;
use crate::tensor::memory::{LANES, split};
use crate::tensor::pair;

/// Rows of the matrix, which are the lanes of a warp.
const ROWS: u32 = 32;
/// Columns of 32 bits: 32 bytes of a row.
const COLUMNS: u32 = 8;

/// `tcgen05.shift.down` by one thread, in its CTA or in its pair.
pub(crate) fn down(e: &mut Engine, t: u32, address: u32, pair: bool) -> Result<(), Fault> {
    let (cta, line) = (e.hw.thread(t).cta, e.hw.line(t));
    e.hw.pairs.group(pair, "tcgen05.shift", line)?;
    let (lane, first) = split(address);
    if lane >= LANES || !lane.is_multiple_of(ROWS) {
        let message = format!("a shift at lane {lane}: right is 0, 32, 64 or 96");
        return Err(Fault::new(Rule::TensorLanes, message));
    }
    e.operands(|| [u64::from(address)]);
    let columns = first..first + COLUMNS;
    let peer = if pair { Some(pair::peer(&e.hw.ctas, cta, "tcgen05.shift")?) } else { None };
    for cta in std::iter::once(cta).chain(peer) {
        e.hw.tensor[cta].check(&columns)?;
    }
    own(e, t, &columns, false)?;
    own(e, t, &columns, true)?;
    let commit = e.hw.umma.open(t);
    for cta in std::iter::once(cta).chain(peer) {
        e.guided(|guide| guide.visit(cta));
        e.checked(t, |race, thread| {
            race.reaches(thread, cta);
            Ok(())
        })?;
        let (from, to) = (lane..lane + ROWS - 1, lane + 1..lane + ROWS);
        ordered(e, (t, cta), from, columns.clone(), Uses::Operand, commit)?;
        ordered(e, (t, cta), to.clone(), columns.clone(), Uses::Copy, commit)?;
        e.hw.umma.issue(t, cta, Vec::new(), line);
        let memory = &mut e.hw.tensor[cta];
        for column in columns.clone() {
            for row in to.clone().rev() {
                let above = *memory.word(row - 1, column);
                *memory.word(row, column) = above;
            }
        }
    }
    Ok(())
}
