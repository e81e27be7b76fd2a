//! Named barriers (`barrier.cta`). The plain forms are `.aligned`.

use crate::barrier::named::Reduction;
use crate::drive::current::{block, op};
use crate::exec::{named, warp};

/// `barrier.cta.sync.aligned`
#[track_caller]
pub fn sync(id: u32, threads: u32) {
    red(true, id, threads, Reduction::None, false);
}

/// `barrier.cta.sync`
#[track_caller]
pub fn sync_unaligned(id: u32, threads: u32) {
    red(false, id, threads, Reduction::None, false);
}

/// `barrier.cta.arrive.aligned`
#[track_caller]
pub fn arrive(id: u32, threads: u32) {
    op("barrier.arrive", id, |e, t| {
        warp::aligned(e, t, "barrier.arrive")?;
        named::come(e, t, (id, threads), None).map(|_| ())
    });
}

/// `barrier.cta.arrive`
#[track_caller]
pub fn arrive_unaligned(id: u32, threads: u32) {
    op("barrier.arrive", id, |e, t| named::come(e, t, (id, threads), None).map(|_| ()));
}

/// `barrier.cta.red.popc.aligned`
#[track_caller]
pub fn red_popc(id: u32, threads: u32, p: bool) -> u32 {
    red(true, id, threads, Reduction::Popc, p)
}

/// `barrier.cta.red.and.aligned`
#[track_caller]
pub fn red_and(id: u32, threads: u32, p: bool) -> bool {
    red(true, id, threads, Reduction::And, p) != 0
}

/// `barrier.cta.red.or.aligned`
#[track_caller]
pub fn red_or(id: u32, threads: u32, p: bool) -> bool {
    red(true, id, threads, Reduction::Or, p) != 0
}

#[track_caller]
fn red(aligned: bool, id: u32, threads: u32, reduction: Reduction, p: bool) -> u32 {
    let mut first = aligned;
    block("barrier.sync", id, |e, t| {
        if std::mem::take(&mut first) {
            warp::aligned(e, t, "barrier.sync")?;
        }
        named::come(e, t, (id, threads), Some((reduction, p)))
    })
}
