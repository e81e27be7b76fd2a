//! Tensor memory, and the matrix multiply-accumulate of the fifth generation.

use crate::drive::current::{aside, block, op};
use crate::exec::shift;
use crate::exec::tensor::{self, Form};
use crate::exec::tensor_copy::copy;
use crate::exec::umma::{self, A};
use crate::exec::warp;
use crate::tensor::copy::Shape;
use crate::tensor::descriptor::Kind;
use crate::warp::meeting::Meet;

/// `tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32`
#[track_caller]
pub fn alloc(to: u32, columns: u32) {
    let meet = ("tcgen05.alloc", Meet::TensorAlloc { columns, pair: false });
    block("tcgen05.alloc", to, |e, t| warp::meet(e, t, meet, [0; 4], to));
}

/// `tcgen05.dealloc.cta_group::1.sync.aligned.b32`
#[track_caller]
pub fn dealloc(taddr: u32, columns: u32) {
    let meet = ("tcgen05.dealloc", Meet::TensorFree { address: taddr, columns, pair: false });
    block("tcgen05.dealloc", taddr, |e, t| warp::meet(e, t, meet, [0; 4], 0));
}

/// `tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned`
#[track_caller]
pub fn relinquish_alloc_permit() {
    let meet = ("tcgen05.relinquish_alloc_permit", Meet::TensorPermit { pair: false });
    block("tcgen05.relinquish_alloc_permit", 0, |e, t| warp::meet(e, t, meet, [0; 4], 0));
}

macro_rules! multiplications {
    ($($name:ident $tensor:ident by $group:literal, $pair:literal: $kind:ident $ptx:literal;)*) => {$(
        #[doc = concat!("`tcgen05.mma.cta_group::", $group, ".kind::", $ptx, "`")]
        #[track_caller]
        pub fn $name(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
            op("tcgen05.mma", 0, |e, t| {
                umma::mma(e, t, d, (A::Shared(a), b), (Kind::$kind, idesc, $pair), scale_d)
            });
        }
        #[doc = concat!("`tcgen05.mma.cta_group::", $group, ".kind::", $ptx, "`, with A in tensor memory")]
        #[track_caller]
        pub fn $tensor(d: u32, a: u32, b: u64, idesc: u32, scale_d: bool) {
            op("tcgen05.mma", 0, |e, t| {
                umma::mma(e, t, d, (A::Tensor(a), b), (Kind::$kind, idesc, $pair), scale_d)
            });
        }
    )*};
}

multiplications! {
    mma_f16 mma_f16_ts by 1, false: F16 "f16";
    mma_tf32 mma_tf32_ts by 1, false: Tf32 "tf32";
    mma_f8f6f4 mma_f8f6f4_ts by 1, false: F8f6f4 "f8f6f4";
    mma_i8 mma_i8_ts by 1, false: I8 "i8";
    mma_f16_2sm mma_f16_ts_2sm by 2, true: F16 "f16";
    mma_tf32_2sm mma_tf32_ts_2sm by 2, true: Tf32 "tf32";
    mma_f8f6f4_2sm mma_f8f6f4_ts_2sm by 2, true: F8f6f4 "f8f6f4";
    mma_i8_2sm mma_i8_ts_2sm by 2, true: I8 "i8";
}

/// `tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64`
#[track_caller]
pub fn commit(bar: u32) {
    op("tcgen05.commit", bar, |e, t| tensor::commit(e, t, bar, (None, false)));
}

/// `tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64`
#[track_caller]
pub fn commit_multicast(bar: u32, mask: u16) {
    op("tcgen05.commit", bar, |e, t| tensor::commit(e, t, bar, (Some(mask), false)));
}

/// `tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32`
#[track_caller]
pub fn alloc_2sm(to: u32, columns: u32) {
    let meet = ("tcgen05.alloc", Meet::TensorAlloc { columns, pair: true });
    block("tcgen05.alloc", to, |e, t| warp::meet(e, t, meet, [0; 4], to));
}

/// `tcgen05.dealloc.cta_group::2.sync.aligned.b32`
#[track_caller]
pub fn dealloc_2sm(taddr: u32, columns: u32) {
    let meet = ("tcgen05.dealloc", Meet::TensorFree { address: taddr, columns, pair: true });
    block("tcgen05.dealloc", taddr, |e, t| warp::meet(e, t, meet, [0; 4], 0));
}

/// `tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned`
#[track_caller]
pub fn relinquish_alloc_permit_2sm() {
    let meet = ("tcgen05.relinquish_alloc_permit", Meet::TensorPermit { pair: true });
    block("tcgen05.relinquish_alloc_permit", 0, |e, t| warp::meet(e, t, meet, [0; 4], 0));
}

/// `tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64`
#[track_caller]
pub fn commit_2sm(bar: u32) {
    op("tcgen05.commit", bar, |e, t| tensor::commit(e, t, bar, (None, true)));
}

/// `tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64`
#[track_caller]
pub fn commit_multicast_2sm(bar: u32, mask: u16) {
    op("tcgen05.commit", bar, |e, t| tensor::commit(e, t, bar, (Some(mask), true)));
}

macro_rules! copies {
    ($($name:ident $pair:ident $shape:ident $ptx:literal;)*) => {$(
        #[doc = concat!("`tcgen05.cp.cta_group::1.", $ptx, "`")]
        #[track_caller]
        pub fn $name(taddr: u32, from: u64) {
            op("tcgen05.cp", 0, |e, t| copy(e, t, (taddr, from), Shape::$shape, false));
        }
        #[doc = concat!("`tcgen05.cp.cta_group::2.", $ptx, "`")]
        #[track_caller]
        pub fn $pair(taddr: u32, from: u64) {
            op("tcgen05.cp", 0, |e, t| copy(e, t, (taddr, from), Shape::$shape, true));
        }
    )*};
}

copies! {
    cp_128x256b cp_128x256b_2sm All256 "128x256b";
    cp_4x256b cp_4x256b_2sm Four256 "4x256b";
    cp_128x128b cp_128x128b_2sm All128 "128x128b";
    cp_64x128b_warpx2_02_13 cp_64x128b_warpx2_02_13_2sm Half128Alternate "64x128b.warpx2::02_13";
    cp_64x128b_warpx2_01_23 cp_64x128b_warpx2_01_23_2sm Half128Adjacent "64x128b.warpx2::01_23";
    cp_32x128b_warpx4 cp_32x128b_warpx4_2sm Quarter128 "32x128b.warpx4";
}

/// `tcgen05.shift.cta_group::1.down`
#[track_caller]
pub fn shift_down(taddr: u32) {
    op("tcgen05.shift", 0, |e, t| shift::down(e, t, taddr, false));
}

/// `tcgen05.shift.cta_group::2.down`
#[track_caller]
pub fn shift_down_2sm(taddr: u32) {
    op("tcgen05.shift", 0, |e, t| shift::down(e, t, taddr, true));
}

macro_rules! scaled {
    ($($name:ident $tensor:ident by $group:literal, $pair:literal: $kind:ident $ptx:literal;)*) => {$(
        #[doc = concat!("`tcgen05.mma.cta_group::", $group, ".kind::", $ptx, "`")]
        #[track_caller]
        pub fn $name(d: u32, a: u64, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool) {
            let operands = (A::Shared(a), b, [sfa, sfb]);
            op("tcgen05.mma", 0, |e, t| {
                umma::mma_scaled(e, t, d, operands, (Kind::$kind, idesc, $pair), scale_d)
            });
        }
        #[doc = concat!("`tcgen05.mma.cta_group::", $group, ".kind::", $ptx, "`, with A in tensor memory")]
        #[track_caller]
        pub fn $tensor(d: u32, a: u32, b: u64, idesc: u32, sfa: u32, sfb: u32, scale_d: bool) {
            let operands = (A::Tensor(a), b, [sfa, sfb]);
            op("tcgen05.mma", 0, |e, t| {
                umma::mma_scaled(e, t, d, operands, (Kind::$kind, idesc, $pair), scale_d)
            });
        }
    )*};
}

scaled! {
    mma_mxf8f6f4_block_scale mma_mxf8f6f4_block_scale_ts by 1, false: Mxf8f6f4 "mxf8f6f4.block_scale.scale_vec::1X";
    mma_mxf4_block_scale mma_mxf4_block_scale_ts by 1, false: Mxf4 "mxf4.block_scale.scale_vec::2X";
    mma_mxf4nvf4_block_scale mma_mxf4nvf4_block_scale_ts by 1, false: Mxf4nvf4 "mxf4nvf4.block_scale.scale_vec::4X";
    mma_mxf8f6f4_block_scale_2sm mma_mxf8f6f4_block_scale_ts_2sm by 2, true: Mxf8f6f4 "mxf8f6f4.block_scale.scale_vec::1X";
    mma_mxf4_block_scale_2sm mma_mxf4_block_scale_ts_2sm by 2, true: Mxf4 "mxf4.block_scale.scale_vec::2X";
    mma_mxf4nvf4_block_scale_2sm mma_mxf4nvf4_block_scale_ts_2sm by 2, true: Mxf4nvf4 "mxf4nvf4.block_scale.scale_vec::4X";
}

/// `tcgen05.wait::ld.sync.aligned`
#[track_caller]
pub fn wait_ld() {
    op("tcgen05.wait::ld", 0, |e, t| tensor::wait(e, t, false));
}

/// `tcgen05.wait::st.sync.aligned`
#[track_caller]
pub fn wait_st() {
    op("tcgen05.wait::st", 0, |e, t| tensor::wait(e, t, true));
}

/// `tcgen05.fence::before_thread_sync`
#[track_caller]
pub fn fence_before_thread_sync() {
    op("tcgen05.fence::before_thread_sync", 0, |e, t| {
        tensor::before(e, t);
        Ok(())
    });
}

/// `tcgen05.fence::after_thread_sync`
#[track_caller]
pub fn fence_after_thread_sync() {
    op("tcgen05.fence::after_thread_sync", 0, |e, t| {
        tensor::after(e, t);
        Ok(())
    });
}

/// No instruction: the registers of a `tcgen05.ld` have their values, if the thread has waited for it.
#[track_caller]
pub fn ready(regs: &mut [u32]) {
    aside("tcgen05.ld", |e, t| e.hw.umma.ready(t, regs));
}

#[track_caller]
fn load<const N: usize>(taddr: u32, form: Form) -> [u32; N] {
    let mut regs = [0; N];
    op("tcgen05.ld", 0, |e, t| tensor::load(e, t, taddr, form, &mut regs));
    regs
}

macro_rules! moves {
    ($($ld:ident $st:ident $(<$split:ident>)? $n:literal $form:expr;)*) => {$(
        #[doc = concat!("`tcgen05.", stringify!($ld), "`")]
        #[track_caller]
        #[must_use]
        pub fn $ld $(<const $split: u32>)? (taddr: u32) -> [u32; $n] {
            load(taddr, $form)
        }
        #[doc = concat!("`tcgen05.", stringify!($st), "`")]
        #[track_caller]
        pub fn $st $(<const $split: u32>)? (taddr: u32, v: [u32; $n]) {
            op("tcgen05.st", 0, |e, t| tensor::store(e, t, taddr, $form, &v));
        }
    )*};
}

moves! {
    ld_32x32b_x1 st_32x32b_x1 1 Form::Lanes;
    ld_32x32b_x2 st_32x32b_x2 2 Form::Lanes;
    ld_32x32b_x4 st_32x32b_x4 4 Form::Lanes;
    ld_32x32b_x8 st_32x32b_x8 8 Form::Lanes;
    ld_32x32b_x16 st_32x32b_x16 16 Form::Lanes;
    ld_32x32b_x32 st_32x32b_x32 32 Form::Lanes;
    ld_32x32b_x64 st_32x32b_x64 64 Form::Lanes;
    ld_32x32b_x128 st_32x32b_x128 128 Form::Lanes;
    ld_16x64b_x1 st_16x64b_x1 1 Form::Quarters;
    ld_16x64b_x2 st_16x64b_x2 2 Form::Quarters;
    ld_16x64b_x4 st_16x64b_x4 4 Form::Quarters;
    ld_16x64b_x8 st_16x64b_x8 8 Form::Quarters;
    ld_16x64b_x16 st_16x64b_x16 16 Form::Quarters;
    ld_16x64b_x32 st_16x64b_x32 32 Form::Quarters;
    ld_16x64b_x64 st_16x64b_x64 64 Form::Quarters;
    ld_16x64b_x128 st_16x64b_x128 128 Form::Quarters;
    ld_16x128b_x1 st_16x128b_x1 2 Form::Rows;
    ld_16x128b_x2 st_16x128b_x2 4 Form::Rows;
    ld_16x128b_x4 st_16x128b_x4 8 Form::Rows;
    ld_16x128b_x8 st_16x128b_x8 16 Form::Rows;
    ld_16x128b_x16 st_16x128b_x16 32 Form::Rows;
    ld_16x128b_x32 st_16x128b_x32 64 Form::Rows;
    ld_16x128b_x64 st_16x128b_x64 128 Form::Rows;
    ld_16x256b_x1 st_16x256b_x1 4 Form::Fragments;
    ld_16x256b_x2 st_16x256b_x2 8 Form::Fragments;
    ld_16x256b_x4 st_16x256b_x4 16 Form::Fragments;
    ld_16x256b_x8 st_16x256b_x8 32 Form::Fragments;
    ld_16x256b_x16 st_16x256b_x16 64 Form::Fragments;
    ld_16x256b_x32 st_16x256b_x32 128 Form::Fragments;
    ld_16x32bx2_x1 st_16x32bx2_x1 <SPLIT> 1 Form::Halves(SPLIT);
    ld_16x32bx2_x2 st_16x32bx2_x2 <SPLIT> 2 Form::Halves(SPLIT);
    ld_16x32bx2_x4 st_16x32bx2_x4 <SPLIT> 4 Form::Halves(SPLIT);
    ld_16x32bx2_x8 st_16x32bx2_x8 <SPLIT> 8 Form::Halves(SPLIT);
    ld_16x32bx2_x16 st_16x32bx2_x16 <SPLIT> 16 Form::Halves(SPLIT);
    ld_16x32bx2_x32 st_16x32bx2_x32 <SPLIT> 32 Form::Halves(SPLIT);
    ld_16x32bx2_x64 st_16x32bx2_x64 <SPLIT> 64 Form::Halves(SPLIT);
    ld_16x32bx2_x128 st_16x32bx2_x128 <SPLIT> 128 Form::Halves(SPLIT);
}
