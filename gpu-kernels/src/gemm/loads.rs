//! The thread that loads A and B, in both kernels. (CUTLASS `CollectiveMma::load`.)
#![forbid(unsafe_code)]

use super::GemmParams;
use super::cooperative::{Load, MainLoop, Operands, Order};
use super::scheduler::{TileOrigin, TileScheduler};
use isa::misc::nounroll;
use pipeline::barrier::MainLoopEnd;
use pipeline::cta::Elected;
use pipeline::grid::BeforeWait;
use pipeline::prelude::*;
use pipeline::ring::{ProducerEnd, Readers};

/// Fills the ring with the stages of all tiles of a CTA, one after the other, and runs ahead over their
/// borders. `SHARES` says whether a tile's K may be shared: then its stages begin anywhere.
///
/// Before the grid ahead has ended it computes where the first boxes lie, and brings those of the first
/// `p.early` stages into the L2 cache.
///
/// Waits for the grid ahead, for empty slots, and where CTAs keep pace for the others; at the end until every
/// slot has been read. Signals full slots, the load order after the first tile, and the pace.
#[inline(always)]
pub fn operands<
    T,
    R,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const CM: usize,
    const CN: usize,
    const SHARES: bool,
>(
    early: BeforeWait<Elected<Load, Cluster<CM, CN>>>,
    a: &TensorMap<Tile<T, BM, BK>, AlongN<CN>>,
    b: &TensorMap<Tile<T, BN, BK>, AlongM<CM>>,
    ring: ProducerEnd<STAGES, Operands<T, BM, BN, BK>, Tma, R, MainLoop, Cluster<CM, CN>>,
    order: MainLoopEnd<Order>,
    pace: &Pace<'_>,
    p: &GemmParams,
) where
    T: Element,
    R: Readers,
{
    let at = early.coord();
    let tiles = TileScheduler::<BM, BN, _>::new(at, &p.scheduler);
    let boxes = |tile: TileOrigin, k: u32| {
        let col = k * BK as u32;
        (a.tile(tile.row, col, at.sharing_a()), b.tile(tile.col, col, at.sharing_b()))
    };
    // Where the first loads go is known when the grid ahead ends, and the first bytes are near.
    let mut works = tiles.clone().map(|work| (work, tiles.origin(&work)));
    let mut next = works.next();
    if let Some((work, tile)) = &next {
        for k in work.k..work.k + work.k_tiles.min(p.early) {
            nounroll();
            let (a, b) = boxes(*tile, k);
            a.prefetch(&early);
            b.prefetch(&early);
        }
    }
    let one = early.wait();
    let mut loads = ring.by(&one);
    let mut order = Some(order.by(&one));
    let mut pace = pace.by(&one, tiles.rounds().saturating_sub(1));
    while let Some((work, tile)) = next {
        pace.wait();
        let first = if SHARES { work.k } else { 0 };
        for k in first..first + work.k_tiles {
            loads.acquire().load(boxes(tile, k));
            if k == work.nearly_done() && (!SHARES || tiles.in_turn(&work)) {
                pace.arrive();
            }
        }
        if let Some(mut order) = order.take() {
            order.arrive_and_step();
        }
        next = works.next();
    }
    if p.early > 0 {
        one.launch_dependents();
    }
    pace.tail();
    loads.tail();
}
