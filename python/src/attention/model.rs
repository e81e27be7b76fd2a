//! Attention of host tensors, on the SM model.

use super::problem::without_gaps;
use super::{Attended, Call};
use crate::layout::{Order, View};
use crate::model::{Model, gather, on_the_model, scatter};
use crate::python::raise;
use pyo3::prelude::*;
use warpipe::host::attention::{AttentionInfo, AttentionProblem, Operand};
use warpipe::host::{Error, ViewMut};

/// The plan of a call on the model.
pub fn describe(call: &Attended) -> PyResult<AttentionInfo> {
    let problem = without_gaps(&call.size, &call.lengths);
    let plan = on_the_model(|model| model.attention.plan(&problem));
    Ok(plan.map_err(|e| raise(&e))?.describe().clone())
}

/// Computes attention of a checked call, and writes `out` and `lse`.
pub fn run(
    py: Python<'_>,
    call: &Call,
    checked: &Attended,
    out: &View,
    lse: Option<&View>,
) -> PyResult<()> {
    if checked.is_empty() {
        return Ok(());
    }
    // SAFETY: `call` was checked, so no stride is negative and the elements of each tensor lie in its memory. The
    // caller holds the tensors.
    let bytes = |t: &View| unsafe { gather(t, Order::Rows) };
    let [q, k, v] = [&call.q, &call.k, &call.v].map(bytes);
    let table = checked.block_table.as_ref().map(bytes);
    let problem = without_gaps(&checked.size, &checked.lengths);
    let attend = move |model: &Model| attend(model, &problem, [&q, &k, &v], table.as_deref());
    let (o, sums) = py.detach(|| on_the_model(attend)).map_err(|e| raise(&e))?;
    // SAFETY: as above, and both are writable and apart from the operands.
    unsafe {
        scatter(out, &o);
        if let Some(lse) = lse {
            scatter(lse, &sums);
        }
    }
    Ok(())
}

fn attend(
    model: &Model,
    problem: &AttentionProblem,
    [q, k, v]: [&[u8]; 3],
    block_table: Option<&[u8]>,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let device = &model.device;
    // Before anything is copied.
    problem.check()?;
    let plan = model.attention.plan(problem)?;
    let (q, k, v) = (device.upload(q)?, device.upload(k)?, device.upload(v)?);
    let table = block_table.map(|table| device.upload(table)).transpose()?;
    let mut o = device.alloc(problem.bytes(Operand::O)? as usize)?;
    let bytes = if problem.lse { problem.bytes(Operand::Lse)? as usize } else { 0 };
    let mut lse = device.alloc(bytes)?;
    let sums = problem.lse.then_some(()).map(|()| ViewMut::from(&mut lse));
    let bound = match &table {
        None => plan.bind(&q, &k, &v, &mut o, sums)?,
        Some(table) => plan.bind_paged(&q, &k, &v, table, &mut o, sums)?,
    };
    bound.run(&device.stream())?;
    Ok((o.to_vec()?, lse.to_vec()?))
}
