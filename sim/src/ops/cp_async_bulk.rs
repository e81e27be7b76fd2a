//! Bulk copies: TMA tensors and plain runs. Tensor maps are those of [`crate::tensor_map`].

use crate::copy::boxes::Combine;
use crate::copy::check;
pub use crate::copy::reduce::ReduceOp;
use crate::drive::current::{block, op};
use crate::exec::bulk::{self, Run, To};
use crate::exec::{groups, tensormap};
use crate::types::tensor_map::DataType;

/// `cp.async.bulk.tensor.Dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn tensor_load<const D: usize>(dst: u32, map: *const [u64; 16], coords: [i32; D], bar: u32) {
    op("tma load", bar, |e, t| bulk::tensor_load(e, t, dst, (map, &coords), bar, To::One));
}

/// The same with `.multicast::cluster`
#[track_caller]
pub fn tensor_load_multicast<const D: usize>(
    dst: u32,
    map: *const [u64; 16],
    coords: [i32; D],
    bar: u32,
    mask: u16,
) {
    op("tma multicast", bar, |e, t| {
        bulk::tensor_load(e, t, dst, (map, &coords), bar, To::Mask(mask))
    });
}

/// The same with `.cta_group::2`
#[track_caller]
pub fn tensor_load_2sm<const D: usize>(
    dst: u32,
    map: *const [u64; 16],
    coords: [i32; D],
    bar: u32,
) {
    op("tma load", bar, |e, t| bulk::tensor_load(e, t, dst, (map, &coords), bar, To::Pair));
}

/// `cp.async.bulk.tensor.Dd.global.shared::cta.tile.bulk_group`
#[track_caller]
pub fn tensor_store<const D: usize>(map: *const [u64; 16], coords: [i32; D], src: u32) {
    op("tma store", src, |e, t| bulk::tensor_store(e, t, (map, &coords), src, Combine::Store));
}

/// `cp.reduce.async.bulk.tensor.Dd.global.shared::cta`
#[track_caller]
pub fn tensor_reduce<const D: usize>(
    reduce: ReduceOp,
    map: *const [u64; 16],
    coords: [i32; D],
    src: u32,
) {
    op("tma reduce", src, |e, t| {
        bulk::tensor_store(e, t, (map, &coords), src, Combine::Reduce(reduce))
    });
}

/// `cp.async.bulk.prefetch.tensor.Dd.L2.global.tile`
#[track_caller]
pub fn tensor_prefetch<const D: usize>(map: *const [u64; 16], _coords: [i32; D]) {
    op("tma prefetch", 0, |e, t| tensormap::of(e, t, map, D).map(|_| ()));
}

/// `prefetch.tensormap`
#[track_caller]
pub fn prefetch_tensormap(map: *const [u64; 16]) {
    op("prefetch.tensormap", 0, |_, _| check::map_address(map).map(|_| ()));
}

/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn load(dst: u32, src: *const u8, bytes: u32, bar: u32) {
    op("bulk load", bar, |e, t| {
        bulk::run_load(e, t, Run { smem: dst, global: src as u64, bytes }, bar)
    });
}

/// `cp.async.bulk.global.shared::cta.bulk_group`
#[track_caller]
pub fn store(dst: *mut u8, src: u32, bytes: u32) {
    op("bulk store", src, |e, t| {
        bulk::run_store(
            e,
            t,
            Run { smem: src, global: dst as u64, bytes },
            Combine::Store,
            DataType::U8,
        )
    });
}

/// `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn copy_to_cta(rdst: u32, src: u32, bytes: u32, rbar: u32) {
    op("bulk copy to CTA", rbar, |e, t| bulk::copy_to_cta(e, t, (rdst, src), bytes, rbar));
}

/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32`
#[track_caller]
pub fn reduce_add_u32(dst: *mut u8, src: u32, bytes: u32) {
    let add = Combine::Reduce(ReduceOp::Add);
    op("bulk reduce", src, |e, t| {
        bulk::run_store(e, t, Run { smem: src, global: dst as u64, bytes }, add, DataType::U32)
    });
}

/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`
#[track_caller]
pub fn reduce_add_f32(dst: *mut u8, src: u32, bytes: u32) {
    let add = Combine::Reduce(ReduceOp::Add);
    op("bulk reduce", src, |e, t| {
        bulk::run_store(e, t, Run { smem: src, global: dst as u64, bytes }, add, DataType::F32)
    });
}

/// `cp.async.bulk.commit_group`
#[track_caller]
pub fn commit_group() {
    op("bulk commit_group", 0, |e, t| {
        groups::commit(e, t);
        Ok(())
    });
}

/// `cp.async.bulk.wait_group N`
#[track_caller]
pub fn wait_group<const N: u32>() {
    block("bulk wait_group", N, |e, t| Ok(groups::wait(e, t, N, false)));
}

/// `cp.async.bulk.wait_group.read N`
#[track_caller]
pub fn wait_group_read<const N: u32>() {
    block("bulk wait_group.read", N, |e, t| Ok(groups::wait(e, t, N, true)));
}
