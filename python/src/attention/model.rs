//! Attention of host tensors, on the SM model.

use super::{Attended, Axes, Call, Size};
use crate::layout::{Order, View};
use crate::model::{Model, dtype, gather, on_the_model, scatter};
use crate::python::raise;
use pyo3::prelude::*;
use warpipe::host::ViewMut;
use warpipe::host::attention::{AttentionInfo, AttentionProblem, Heads, Operand, Sequences};
use warpipe::host::{self, Error};

/// The host crate's description of attention of tensors without gaps.
fn problem(size: &Size) -> AttentionProblem {
    let heads = Heads { q: size.heads_q, kv: size.heads_kv, dim: size.dim };
    let sequences = Sequences::Equal { batch: size.batch, q: size.seq_q, kv: size.seq_kv };
    let plain = match size.options.axes {
        Axes::Bshd => AttentionProblem::bshd(dtype(size.element), heads, sequences),
        Axes::Bhsd => AttentionProblem::bhsd(dtype(size.element), heads, sequences),
    };
    let options = &size.options;
    AttentionProblem {
        mask: host::attention::Mask { left: options.left, right: options.right },
        scale: options.scale(),
        softcap: options.softcap(),
        lse: options.lse,
        ..plain
    }
}

/// The plan of a call on the model.
pub fn describe(call: &Attended) -> PyResult<AttentionInfo> {
    let plan = on_the_model(|model| model.attention.plan(&problem(&call.size)));
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
    let [q, k, v] = [call.q, call.k, call.v].map(|t| unsafe { gather(&t, Order::Rows) });
    let size = checked.size;
    let computed = py.detach(move || on_the_model(|model| attend(model, &size, [&q, &k, &v])));
    let (o, sums) = computed.map_err(|e| raise(&e))?;
    // SAFETY: as above, and both are writable and apart from the operands.
    unsafe {
        scatter(out, &o);
        if let Some(lse) = lse {
            scatter(lse, &sums);
        }
    }
    Ok(())
}

fn attend(model: &Model, size: &Size, [q, k, v]: [&[u8]; 3]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let problem = problem(size);
    let device = &model.device;
    // Before anything is copied.
    problem.check()?;
    let plan = model.attention.plan(&problem)?;
    let (q, k, v) = (device.upload(q)?, device.upload(k)?, device.upload(v)?);
    let mut o = device.alloc(problem.bytes(Operand::O)? as usize)?;
    let bytes = if problem.lse { problem.bytes(Operand::Lse)? as usize } else { 0 };
    let mut lse = device.alloc(bytes)?;
    let sums = problem.lse.then_some(()).map(|()| ViewMut::from(&mut lse));
    plan.run(&q, &k, &v, &mut o, sums)?;
    Ok((o.to_vec()?, lse.to_vec()?))
}
