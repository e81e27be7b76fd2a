//! What the warps of a pair of CTAs do together: they allocate and free tensor memory of both.

use super::tensor::ordered;
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::tensor::Uses;
use crate::tensor::memory::{LANES, split};
use crate::tensor::pair::{self, Half, Together};
use crate::types::wait::Wait;
use crate::walk::guide::{self, GLOBAL};
use crate::walk::order::Key;
use crate::warp::warps::members;

/// A whole warp comes; whether the other CTA's has come as well. If so, both go on.
pub(crate) fn meet(e: &mut Engine, t: u32, warp: usize, what: Together) -> Result<bool, Fault> {
    let cta = e.hw.thread(t).cta;
    let peer = pair::peer(&e.hw.ctas, cta, what.name())?;
    e.guided(|guide| guide.visit(peer));
    if let Together::Free { address, columns } = what {
        let first = split(address).1;
        for cta in [cta, peer] {
            // The work on the columns is over, in both CTAs.
            ordered(e, (t, cta), 0..LANES, first..first + columns, Uses::Free, 0)?;
        }
    }
    let half = Half { t, warp, cta, what, loc: e.hw.line(t) };
    let other = e.hw.pairs.come(half)?;
    e.guided(|guide| guide.order.gather(Key::Pair(cta / 2), other.is_some()));
    let Some(other) = other else {
        let wait = Wait::Pair { op: what.name() };
        let first = e.hw.first_of_warp(warp);
        members(first, e.hw.warps[warp].lanes).for_each(|m| e.hw.thread_mut(m).wait = wait);
        return Ok(false);
    };
    let addresses = [take(e, other)?, take(e, half)?];
    if addresses[0] != addresses[1] {
        let message = format!(
            "the CTAs of a pair would get different columns: {addresses:?}, for what one has allocated alone"
        );
        return Err(Fault::new(Rule::TensorAlloc, message));
    }
    e.progress();
    let first = e.hw.first_of_warp(other.warp);
    for member in members(first, e.hw.warps[other.warp].lanes) {
        e.wake(member, 0);
    }
    Ok(true)
}

/// One CTA's part of it; gives the address.
fn take(e: &mut Engine, half: Half) -> Result<u32, Fault> {
    let Half { t, cta, what, loc, .. } = half;
    match what {
        Together::Free { address, columns } => {
            e.guided(|guide| guide.touch(GLOBAL, guide::columns(cta), 1, true));
            e.hw.tensor[cta].free(address, columns, loc)?;
            Ok(address)
        }
        Together::Alloc { to, columns } => super::tensor::alloc_at(e, t, (to, columns), loc),
    }
}
