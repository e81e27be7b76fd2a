//! The trace of a cluster that has ended.

use crate::engine::cluster::Engine;
use crate::trace::data::{BarrierName, ThreadTrace, Trace};
use crate::types::grid::SMEM_BASE;

/// Hands the trace over, if it was asked for.
pub(crate) fn hand_over(e: &mut Engine, finished: bool) {
    let Some((events, _)) = e.time.as_mut().and_then(|time| time.events.take()) else {
        return;
    };
    let (Some(tracing), Some(time), hw) = (&e.tracing, &e.time, &e.hw) else { return };
    let threads =
        hw.threads.iter().map(|t| ThreadTrace { place: t.place(), end: time.clock(t.id) });
    let barriers = hw.mbarriers.all().iter().map(|b| BarrierName {
        cta: b.cta as u32,
        addr: b.addr,
        label: hw.mbarriers.labels.get(b.cta, b.addr),
    });
    tracing.put(Trace {
        kernel: hw.shape.name.clone(),
        cluster: hw.shape.index,
        ctas: hw.shape.ctas(),
        block: hw.shape.block_threads(),
        smem_base: SMEM_BASE,
        finished,
        dropped: time.dropped,
        threads: threads.collect(),
        barriers: barriers.collect(),
        events,
    });
}
