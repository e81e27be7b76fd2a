//! The protocol state of a cluster, as numbers.
//!
//! It is what decides how the cluster goes on, apart from data and from what its threads will execute:
//! barriers and who has seen their last phase, copies in flight, groups and the registers that they hold,
//! tokens, and where each thread stands. Phases are taken modulo two, which is all that a wait sees, and
//! other counts relative to where they are now. Addresses of the host, such as those of registers, and
//! names of registers in flight are left out.

use super::machine::Machine;
use crate::cluster::tokens::Token;
use crate::copy::flight::{Copy, Kind};
use crate::protocol::record::Knowledge;
use crate::protocol::watcher::{Watcher, line, mix, number};
use crate::race::state::Race;
use crate::types::wait::{Status, Wait};
use crate::walk::order::Order;

/// The state between two steps.
pub(crate) fn state(hw: &Machine, race: Option<&Race>, watcher: &Watcher) -> Vec<u64> {
    let mut all = Vec::new();
    let mut waiting = vec![0; hw.mbarriers.all().len()];
    for (t, thread) in (0u64..).zip(&hw.threads) {
        if let Wait::MBarrier { bar, .. } = thread.wait {
            waiting[bar] = mix(waiting[bar], t);
        }
    }
    for (bar, b) in hw.mbarriers.all().iter().enumerate().filter(|(_, b)| b.live) {
        let s = &b.state;
        all.extend([
            (b.cta as u64) << 32 | u64::from(b.addr),
            u64::from(s.phase & 1) << 32 | u64::from(s.pending),
            u64::from(s.expected),
            s.tx as u64,
        ]);
        all.push(waiting[bar]);
        if let Some(race) = race {
            all.push(race.bars[bar].waiters.protocol(s.phase));
        }
    }
    let mut add = |x: u64| all.push(x);
    hw.named.protocol(&mut add);
    hw.all.protocol(&mut add);
    hw.warps.iter().for_each(|warp| warp.protocol(&mut add));
    hw.registers.protocol(&mut add);
    hw.rounds.protocol(&mut add);
    for (group, held) in hw.groups.iter().flatten().zip(hw.held.iter().flatten()) {
        group.protocol(&mut add);
        held.protocol(group.open_group(), &mut add);
    }
    hw.umma.protocol(&mut add);
    hw.tensor.iter().for_each(|memory| memory.protocol(&mut add));
    hw.pairs.protocol(&mut add);
    hw.requests.protocol(&mut add);
    hw.copies.protocol(&mut add);
    let mut copies: Vec<u64> = hw.copies.in_flight().iter().map(|copy| flight(hw, copy)).collect();
    copies.sort_unstable();
    all.extend(copies);
    for (thread, &folded) in hw.threads.iter().zip(watcher.folded()) {
        let tokens = hw.tokens.of(thread.id);
        let taken = |k: &Token| {
            let words = [u64::from(k.at), u64::from(k.index), number(k.what), line(k.loc)];
            words.into_iter().fold(number(k.name), mix)
        };
        // In any order.
        let tokens = tokens.map(taken).fold(0, u64::wrapping_add);
        let status = match thread.status {
            Status::Ready | Status::Running => 0,
            Status::Asleep => 1,
            Status::Done => 2,
        };
        let wait = match thread.wait {
            Wait::MBarrier { bar, phase, poll } => {
                let behind = hw.mbarriers.get(bar).state.phase.wrapping_sub(phase);
                mix(bar as u64, u64::from(behind) << 1 | u64::from(poll))
            }
            Wait::Named { id } => u64::from(id) | 1 << 32,
            Wait::BulkGroups { left, read } => u64::from(left) | 2 << 32 | u64::from(read) << 40,
            Wait::CpAsync { left } => u64::from(left) | 3 << 32,
            Wait::Registers { want } => u64::from(want) | 4 << 32,
            Wait::Nothing => 5 << 32,
            Wait::Cluster => 6 << 32,
            Wait::Warp { .. } => 7 << 32,
            Wait::Warpgroup => 8 << 32,
            Wait::Poll { .. } => 9 << 32,
            Wait::GridAhead => 10 << 32,
            Wait::Pair { .. } => 11 << 32,
        };
        let at = thread.loc.map_or(0, line);
        all.push([number(thread.op), at, wait, folded, tokens].into_iter().fold(status, mix));
    }
    all
}

/// A copy in flight, without its place in global memory.
pub(crate) fn flight(hw: &Machine, copy: &Copy) -> u64 {
    let (kind, cta, addr, bytes, bar) = match &copy.kind {
        Kind::TensorLoad { to, .. } => (0, to.cta, to.dst, to.bytes, Some(to.bar)),
        Kind::RunLoad { to, .. } => (1, to.cta, to.dst, to.bytes, Some(to.bar)),
        Kind::Peer { src, to, .. } => {
            (2 | u64::from(*src) << 8, to.cta, to.dst, to.bytes, Some(to.bar))
        }
        Kind::StoreRead { cta, src, bytes, .. } => (3, *cta, *src, *bytes, None),
        Kind::StoreWrite { src, data, .. } => (4, 0, *src, data.len() as u32, None),
        Kind::CpAsync => (5, 0, 0, 0, None),
        // How many commits of its thread ago.
        Kind::Commit { cta, bar, commit } => {
            let behind = hw.umma.open(copy.issuer) - commit;
            (6, *cta, behind as u32, 0, Some(*bar))
        }
        Kind::Answer { to, .. } => (7, to.cta, to.dst, to.bytes, Some(to.bar)),
    };
    let bar = bar.map_or(0, |bar| u64::from(hw.mbarriers.get(bar).addr));
    let place = (cta as u64) << 32 | u64::from(addr);
    [u64::from(copy.issuer), place, u64::from(bytes), bar, line(copy.loc)]
        .into_iter()
        .fold(kind, mix)
}

/// What each agent of the exploration has done, and knows of the others.
pub(crate) fn knowledge(order: &Order) -> Knowledge {
    let copies = order.agents().iter().map(|agent| (agent.is_copy(), agent.is_queue()));
    Knowledge { clocks: order.clocks().to_vec(), copies: copies.collect() }
}
