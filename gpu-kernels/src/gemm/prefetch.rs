//! Brings a CTA's first tiles nearer while the grid ahead still runs. (CUTLASS: the collective's
//! `prefetch`.)
#![forbid(unsafe_code)]

use super::GemmParams;
use super::scheduler::TileScheduler;
use isa::misc::nounroll;
use pipeline::prelude::*;
use pipeline::prologue::Prologue;
use pipeline::roles::Roles;
use pipeline::smem::Regions;

/// Prefetches the first [`GemmParams::early`] stages of the CTA's first work into the L2 cache.
#[inline(always)]
pub fn first_stages<
    T: Element,
    R: Regions,
    Ro: Roles,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const CM: usize,
    const CN: usize,
>(
    early: &Prologue<R, Ro, Cluster<CM, CN>>,
    a: &TensorMap<Tile<T, BM, BK>, AlongN<CN>>,
    b: &TensorMap<Tile<T, BN, BK>, AlongM<CM>>,
    p: &GemmParams,
) {
    if p.early == 0 {
        return;
    }
    early.by_one(|one| {
        let at = early.cta().coord();
        let tiles = TileScheduler::<BM, BN, _>::new(at, &p.scheduler);
        let Some(work) = tiles.clone().next() else { return };
        let tile = tiles.origin(&work);
        for k in work.k..work.k + work.k_tiles.min(p.early) {
            nounroll();
            a.tile(tile.row, k * BK as u32, at.sharing_a()).prefetch(one);
            b.tile(tile.col, k * BK as u32, at.sharing_b()).prefetch(one);
        }
    });
}
