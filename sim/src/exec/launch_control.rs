//! Launch control: a cluster asks for the work of one that has not started.
//!
//! The model decides when the request is issued. It refuses one request in eight although clusters are left, because the
//! manual promises nothing. It does not while all schedules are walked ([`crate::explore()`]): a cluster that is refused does the same
//! as one behind which none is left, and another number of steps is another run ([`crate::certify`]).

use super::access::smem_load;
use super::bulk::{start, target};
use crate::cluster::ctas::ranked;
use crate::copy::flight::Kind;
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::schedule::rng::Rng;
use crate::walk::guide::{GLOBAL, LAUNCHES, failed_request};

/// The first word of an answer: a failed request, and a successful one.
const ANSWERS: [u32; 2] = [0x434c_4300, 0x434c_4301];

/// The stream of the draws.
const REQUESTS: u64 = 0xc1c0_0000;

/// `clusterlaunchcontrol.try_cancel`
pub(crate) fn try_cancel(
    e: &mut Engine,
    t: u32,
    (to, bar): (u32, u32),
    multicast: bool,
) -> Result<(), Fault> {
    let (cta, dst) = e.hw.own(t, to, 16)?;
    let (_, bar) = e.hw.own(t, bar, 8)?;
    if !dst.is_multiple_of(16) {
        let message = format!("an answer of clusterlaunchcontrol at {dst:#x}: a multiple of 16");
        return Err(Fault::new(Rule::Misaligned, message));
    }
    if let Some((_, loc)) = e.hw.requests.failed.iter().find(|f| f.0 == cta) {
        let message = format!(
            "{} asks for another cluster, and CTA {cta} has seen a request fail: it does not ask again",
            e.hw.thread(t).place()
        );
        return Err(
            Fault::new(Rule::LaunchControl, message).against("the query of the failed one", loc)
        );
    }
    e.guided(|guide| {
        guide.touch(GLOBAL, LAUNCHES, 1, true);
        guide.touch(GLOBAL, failed_request(cta), 1, true);
    });
    let ctas = if multicast { 0..e.hw.ctas.len() } else { cta..cta + 1 };
    let mut targets = Vec::new();
    for rank in ctas {
        // Each CTA must run to receive the answer.
        e.hw.split(t, ranked(dst, rank as u32), 16)?;
        e.guided(|guide| guide.visit(rank));
        e.told(t, |race, thread| race.reaches(thread, rank));
        targets.push(target(e, t, (rank, dst, 16), (rank, bar))?);
    }
    e.hw.requests.made += 1;
    let (index, made) = (u64::from(e.hw.shape.index), e.hw.requests.made);
    let draw = Rng::new(e.seed(), ((REQUESTS + index) << 32) | made).below(8);
    let refused = draw == 0 && e.guide.is_none();
    let taken = if refused { None } else { e.hw.launches.cancel() };
    let first = taken.map(|index| e.hw.shape.first_cta(index));
    let words = match first {
        Some([x, y, z]) => [ANSWERS[1], x, y, z],
        None => [ANSWERS[0], 0, 0, 0],
    };
    for to in targets {
        start(e, t, Kind::Answer { words, to });
    }
    Ok(())
}

/// `clusterlaunchcontrol.query_cancel` of the answer at an address.
pub(crate) fn query(e: &mut Engine, t: u32, from: u32) -> Result<Option<[u32; 3]>, Fault> {
    let [kind, x, y, z] = smem_load::<[u32; 4]>(e, t, from, false)?;
    if kind == ANSWERS[1] {
        return Ok(Some([x, y, z]));
    }
    if kind != ANSWERS[0] {
        let message = format!("no answer of clusterlaunchcontrol.try_cancel lies at {from:#x}");
        return Err(Fault::new(Rule::LaunchControl, message));
    }
    let (cta, loc) = (e.hw.thread(t).cta, e.hw.line(t));
    // Threads that see it fail may come in any order: the next request may not come before them.
    e.guided(|guide| guide.touch(GLOBAL, failed_request(cta), 1, false));
    if !e.hw.requests.failed.iter().any(|f| f.0 == cta) {
        e.hw.requests.failed.push((cta, loc));
    }
    Ok(None)
}
