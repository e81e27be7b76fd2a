//! Bulk copies: TMA tensors and plain runs. Tensor maps are those of [`crate::tensor_map`].

use crate::current::{block, op};
use crate::tensor_map::DataType;
use crate::tma::Combine;

/// What a reduction does with the element in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

/// `cp.async.bulk.tensor.Dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn tensor_load<const D: usize>(dst: u32, map: *const [u64; 16], coords: [i32; D], bar: u32) {
    op("tma load", bar, |c, t| c.tensor_load(t, dst, map, &coords, bar, None));
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
    op("tma multicast", bar, |c, t| c.tensor_load(t, dst, map, &coords, bar, Some(mask)));
}

/// `cp.async.bulk.tensor.Dd.global.shared::cta.tile.bulk_group`
#[track_caller]
pub fn tensor_store<const D: usize>(map: *const [u64; 16], coords: [i32; D], src: u32) {
    op("tma store", src, |c, t| c.tensor_store(t, map, &coords, src, Combine::Store));
}

/// `cp.reduce.async.bulk.tensor.Dd.global.shared::cta`
#[track_caller]
pub fn tensor_reduce<const D: usize>(
    reduce: ReduceOp,
    map: *const [u64; 16],
    coords: [i32; D],
    src: u32,
) {
    op("tma reduce", src, |c, t| c.tensor_store(t, map, &coords, src, Combine::Reduce(reduce)));
}

/// `cp.async.bulk.prefetch.tensor.Dd.L2.global.tile`
#[track_caller]
pub fn tensor_prefetch<const D: usize>(map: *const [u64; 16], _coords: [i32; D]) {
    op("tma prefetch", 0, |c, _| c.prefetch(map, Some(D)));
}

/// `prefetch.tensormap`
#[track_caller]
pub fn prefetch_tensormap(map: *const [u64; 16]) {
    op("prefetch.tensormap", 0, |c, _| c.prefetch(map, None));
}

/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn load(dst: u32, src: *const u8, bytes: u32, bar: u32) {
    op("bulk load", bar, |c, t| c.run_load(t, dst, src as u64, bytes, bar));
}

/// `cp.async.bulk.global.shared::cta.bulk_group`
#[track_caller]
pub fn store(dst: *mut u8, src: u32, bytes: u32) {
    op("bulk store", src, |c, t| {
        c.run_store(t, dst as u64, src, bytes, Combine::Store, DataType::U8)
    });
}

/// `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes`
#[track_caller]
pub fn copy_to_cta(rdst: u32, src: u32, bytes: u32, rbar: u32) {
    op("bulk copy to CTA", rbar, |c, t| c.copy_to_cta(t, rdst, src, bytes, rbar));
}

/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32`
#[track_caller]
pub fn reduce_add_u32(dst: *mut u8, src: u32, bytes: u32) {
    let add = Combine::Reduce(ReduceOp::Add);
    op("bulk reduce", src, |c, t| c.run_store(t, dst as u64, src, bytes, add, DataType::U32));
}

/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`
#[track_caller]
pub fn reduce_add_f32(dst: *mut u8, src: u32, bytes: u32) {
    let add = Combine::Reduce(ReduceOp::Add);
    op("bulk reduce", src, |c, t| c.run_store(t, dst as u64, src, bytes, add, DataType::F32));
}

/// `cp.async.bulk.commit_group`
#[track_caller]
pub fn commit_group() {
    op("bulk commit_group", 0, |c, t| {
        c.threads[t as usize].bulk.commit();
        Ok(())
    });
}

/// `cp.async.bulk.wait_group N`
#[track_caller]
pub fn wait_group<const N: u32>() {
    block("bulk wait_group", N, |c, t| Ok(c.bulk_wait(t, N, false)));
}

/// `cp.async.bulk.wait_group.read N`
#[track_caller]
pub fn wait_group_read<const N: u32>() {
    block("bulk wait_group.read", N, |c, t| Ok(c.bulk_wait(t, N, true)));
}
