//! Values that registers give to instructions: none may belong to a wgmma in flight.

use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::types::word::Word;
use crate::wgmma::pool::suspicious;

/// A thread gives the value of a register to an instruction.
#[inline]
pub(crate) fn given(e: &mut Engine, t: u32, value: impl Word) -> Result<(), Fault> {
    let Some(bits) = value.find(suspicious) else { return Ok(()) };
    e.hw.umma.used(t, bits)?;
    let (held, member) = e.hw.held_mut(t);
    held.used(member, bits)
}
