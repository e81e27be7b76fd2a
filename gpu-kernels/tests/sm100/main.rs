//! The GEMM for Blackwell on the SM model: the only place where it has ever run.

mod harness;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use harness::{ALPHA, Factor, Kernel, Matrix, Result, Value, run, seeds};
use isa::kernel::KernelArg;
use isa::tcgen05::{Ue4m3, Ue8m0};
use isa::{E2m1x2, Tf32};
use pipeline::cta::{ClusterShape, OneSm, TwoSm};
use pipeline::prelude::{Cluster, Cta, Tile};
use pipeline::tensor::{FACTOR_COLUMNS, UmmaTiles};
use pipeline::tile::{ScaleBlocks, TileShape};
use warpipe_gpu_kernels::sm100::block_scaled::{self, ScaledCta, block_scaled_gemm};
use warpipe_gpu_kernels::sm100::launch_control::{ClcCta, clc_gemm};
use warpipe_gpu_kernels::sm100::pair::{HALF_BN, PairCta, pair_gemm};
use warpipe_gpu_kernels::sm100::pair_block_scaled::{self, ScaledPairCta, block_scaled_pair_gemm};
use warpipe_gpu_kernels::sm100::pair_launch_control::{PairClcCta, pair_clc_gemm};
use warpipe_gpu_kernels::sm100::{self, BM, BN, Scale, TensorCta};

/// Runs the GEMM of single CTAs, in clusters of shape `Cl`. `A` and `B` are the tiles of the operands.
fn check<A, B, O, Cl>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN>,
    O: Result,
    sm100::TileD<O>: Sync,
    Cl: ClusterShape<SharesA: Sync, SharesB: Sync>,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: TensorCta<A, B, O, Cl> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        sm100::tensor_gemm::<A, B, O, Scale, Cl>(
            cta,
            &a,
            &b,
            &d,
            Scale { alpha: ALPHA },
            scheduler,
        );
    };
    let kernel = Kernel {
        cluster_tile: [BM * Cl::M, BN * Cl::N],
        k_tile: A::COLS,
        facts: <TensorCta<A, B, O, Cl> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM with launch control, on a machine with room for `clusters` clusters.
fn check_clc<A, B, O, Cl>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN>,
    O: Result,
    sm100::TileD<O>: Sync,
    Cl: ClusterShape<SharesA: Sync, SharesB: Sync>,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ClcCta<A, B, O, Cl> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        clc_gemm::<A, B, O, Scale, Cl>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [BM * Cl::M, BN * Cl::N],
        k_tile: A::COLS,
        facts: <ClcCta<A, B, O, Cl> as KernelArg>::LAUNCH,
        room: Some(clusters * Cl::SIZE as u32),
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM with block scales of type `F`.
fn check_scaled<A, B, F, const BLOCKS: usize, O>(
    shape: [usize; 3],
    clusters: u32,
    whole: bool,
    seeds: u64,
) where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    F: Factor + Sync,
    (A, B, ScaleBlocks<F, BLOCKS>, ScaleBlocks<F, BLOCKS>):
        UmmaTiles<{ block_scaled::BN }, OneSm, FACTOR_COLUMNS>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, scales: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ScaledCta<A, B, ScaleBlocks<F, BLOCKS>, O> = unsafe { Cta::enter() };
        let (a, b, d, scales) = (a.map(), b.map(), d.map(), [scales[0].map(), scales[1].map()]);
        let scale = Scale { alpha: ALPHA };
        block_scaled_gemm(cta, (&a, &b), (&scales[0], &scales[1]), &d, scale, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [BM, block_scaled::BN],
        k_tile: A::COLS * A::Element::NUMBERS,
        facts: <ScaledCta<A, B, ScaleBlocks<F, BLOCKS>, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: Some((F::ELEMENTS, F::of)),
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM of pairs.
fn check_pair<A, B, O>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN, TwoSm>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: PairCta<A, B, O> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        pair_gemm::<A, B, O, Scale>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, BN],
        k_tile: A::COLS,
        facts: <PairCta<A, B, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM of pairs with block scales of type `F`.
fn check_scaled_pair<A, B, F, const BLOCKS: usize, O>(
    shape: [usize; 3],
    clusters: u32,
    whole: bool,
    seeds: u64,
) where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    F: Factor + Sync,
    (A, B, ScaleBlocks<F, BLOCKS>, ScaleBlocks<F, BLOCKS>):
        UmmaTiles<{ pair_block_scaled::BN }, TwoSm, FACTOR_COLUMNS>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, scales: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ScaledPairCta<A, B, ScaleBlocks<F, BLOCKS>, O> = unsafe { Cta::enter() };
        let (a, b, d, scales) = (a.map(), b.map(), d.map(), [scales[0].map(), scales[1].map()]);
        let scale = Scale { alpha: ALPHA };
        block_scaled_pair_gemm(cta, (&a, &b), (&scales[0], &scales[1]), &d, scale, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, pair_block_scaled::BN],
        k_tile: A::COLS * A::Element::NUMBERS,
        facts: <ScaledPairCta<A, B, ScaleBlocks<F, BLOCKS>, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: Some((F::ELEMENTS, F::of)),
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// The same with launch control, on a machine with room for `clusters` pairs.
fn check_pair_clc<A, B, O>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN, TwoSm>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: PairClcCta<A, B, O> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        pair_clc_gemm::<A, B, O, Scale>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, BN],
        k_tile: A::COLS,
        facts: <PairClcCta<A, B, O> as KernelArg>::LAUNCH,
        room: Some(2 * clusters),
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// [`check`] with tiles of operands of two types, in clusters.
macro_rules! check {
    (clc $a:ty [$k:literal], $b:ty => $o:ty, cluster $m:literal x $n:literal, $($rest:tt)*) => {
        check_clc::<Tile<$a, BM, $k>, Tile<$b, BN, $k>, $o, Cluster<$m, $n>>($($rest)*)
    };
    (mx $a:ty, $b:ty => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<$a, BM, 128>, Tile<$b, BM, 128>, Ue8m0, 1, $o>($($rest)*)
    };
    (mxf4 => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, BM, 128>, Ue8m0, 2, $o>($($rest)*)
    };
    (nvf4 => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, BM, 128>, Ue4m3, 4, $o>($($rest)*)
    };
    (pair mx $a:ty, $b:ty => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<$a, BM, 128>, Tile<$b, 64, 128>, Ue8m0, 1, $o>($($rest)*)
    };
    (pair mxf4 => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, 64, 128>, Ue8m0, 2, $o>($($rest)*)
    };
    (pair nvf4 => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, 64, 128>, Ue4m3, 4, $o>($($rest)*)
    };
    (pair clc $a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check_pair_clc::<Tile<$a, BM, $k>, Tile<$b, HALF_BN, $k>, $o>($($rest)*)
    };
    (pair $a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check_pair::<Tile<$a, BM, $k>, Tile<$b, HALF_BN, $k>, $o>($($rest)*)
    };
    ($a:ty [$k:literal], $b:ty => $o:ty, cluster $m:literal x $n:literal, $($rest:tt)*) => {
        check::<Tile<$a, BM, $k>, Tile<$b, BN, $k>, $o, Cluster<$m, $n>>($($rest)*)
    };
    ($a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check!($a [$k], $b => $o, cluster 1 x 1, $($rest)*)
    };
}

#[test]
fn one_tile_of_whole_numbers_is_exact() {
    check!(bf16 [64], bf16 => f32, [BM, BN, 192], 1, true, seeds(4));
    check!(F8E4M3 [128], F8E4M3 => f32, [BM, BN, 384], 1, true, seeds(2));
    check!(Tf32 [32], Tf32 => f32, [BM, BN, 96], 1, true, seeds(2));
}

/// More k tiles than stages, and tiles with rows, columns and K that are no multiples.
#[test]
fn residues_of_every_dimension() {
    check!(bf16 [64], bf16 => bf16, [200, 312, 5 * 64 + 24], 2, false, seeds(2));
    check!(f16 [64], f16 => f16, [72, 264, 40], 1, false, seeds(2));
    check!(F8E4M3 [128], F8E4M3 => bf16, [140, 264, 5 * 128 + 48], 2, false, seeds(1));
    check!(Tf32 [32], Tf32 => f32, [72, 264, 5 * 32 + 12], 1, false, seeds(1));
}

/// One CTA computes five tiles: the accumulators come round twice.
#[test]
fn the_accumulators_are_used_in_turn() {
    check!(f16 [64], f16 => f32, [5 * BM - 56, BN - 8, 64], 1, true, seeds(3));
}

#[test]
fn operands_and_results_of_other_types() {
    check!(bf16 [64], bf16 => f16, [BM, 64, 72], 1, false, seeds(1));
    check!(f16 [64], f16 => bf16, [16, BN, 136], 1, false, seeds(1));
}

/// A and B have types of one kind, in any mix.
#[test]
fn operands_of_two_types() {
    check!(bf16 [64], f16 => f32, [BM, 64, 72], 1, false, seeds(1));
    check!(F8E5M2 [128], F8E4M3 => f32, [BM, 64, 144], 1, false, seeds(1));
}

/// The CTAs of a cluster share tiles. One CTA of the last cluster has no row of D.
#[test]
fn clusters_share_operands() {
    check!(bf16 [64], bf16 => f32, cluster 2 x 1, [5 * BM - 56, BN, 5 * 64 + 8], 1, true, seeds(3));
    check!(F8E4M3 [128], F8E4M3 => bf16, cluster 2 x 1, [3 * BM, 2 * BN - 8, 144], 2, false, seeds(2));
    check!(f16 [64], f16 => f16, cluster 1 x 2, [BM, 3 * BN, 6 * 64], 1, false, seeds(2));
    check!(bf16 [64], bf16 => bf16, cluster 2 x 2, [2 * BM, 2 * BN, 5 * 64], 1, false, seeds(1));
}

#[test]
fn a_pair_multiplies_whole_numbers_exactly() {
    check!(pair bf16 [64], bf16 => f32, [2 * BM, BN, 192], 1, true, seeds(4));
    check!(pair F8E4M3 [128], F8E4M3 => f32, [2 * BM, BN, 384], 1, true, seeds(2));
    check!(pair Tf32 [32], Tf32 => f32, [2 * BM, BN, 96], 1, true, seeds(1));
}

/// More k tiles than stages, and tiles with rows, columns and K that are no multiples. One CTA of the last pair has no row.
#[test]
fn residues_of_a_pair() {
    check!(pair bf16 [64], bf16 => bf16, [300, 312, 7 * 64 + 24], 2, false, seeds(2));
    check!(pair f16 [64], f16 => f16, [72, 264, 40], 1, false, seeds(2));
    check!(pair F8E4M3 [128], F8E5M2 => bf16, [260, 120, 7 * 128 + 48], 1, false, seeds(1));
}

/// One pair computes five tiles: the accumulators come round twice.
#[test]
fn the_accumulators_of_a_pair_are_used_in_turn() {
    check!(pair f16 [64], f16 => f32, [5 * 2 * BM - 56, BN - 8, 64], 1, true, seeds(3));
}

/// Seven tiles, and room for two or three clusters: the others are cancelled, or start when there is room.
#[test]
fn launch_control_hands_out_every_tile_once() {
    check!(clc bf16 [64], bf16 => f32, cluster 1 x 1, [7 * BM - 56, BN - 8, 72], 2, true, seeds(6));
    check!(clc f16 [64], f16 => f16, cluster 1 x 1, [3 * BM, 2 * BN, 136], 3, false, seeds(2));
}

/// The CTAs of a cluster get the same answers.
#[test]
fn launch_control_in_clusters() {
    check!(clc bf16 [64], bf16 => f32, cluster 2 x 1, [9 * BM, BN, 64], 2, true, seeds(4));
}

/// Both CTAs of a pair get the same answers, and the thread that multiplies for both; the accumulators come round.
#[test]
fn launch_control_of_pairs() {
    check!(pair clc bf16 [64], bf16 => f32, [9 * 2 * BM - 136, BN - 8, 72], 2, true, seeds(4));
    check!(pair clc F8E4M3 [128], F8E4M3 => bf16, [2 * BM + 8, BN + 40, 7 * 128 + 16], 1, false, seeds(1));
}

#[test]
fn block_scales_of_whole_numbers_are_exact() {
    check!(mx F8E4M3, F8E4M3 => f32, [BM, 128, 384], 1, true, seeds(4));
    check!(mx F8E5M2, F8E4M3 => f32, [BM, 128, 256], 1, true, seeds(1));
}

/// More k tiles than stages, residues, and accumulators that come round.
#[test]
fn block_scales_with_residues() {
    check!(mx F8E4M3, F8E4M3 => bf16, [200, 312, 7 * 128 + 48], 2, false, seeds(2));
    check!(mx F8E4M3, F8E4M3 => f32, [5 * BM - 56, 120, 144], 1, true, seeds(2));
}

#[test]
fn mxf4_of_whole_numbers_is_exact() {
    check!(mxf4 => f32, [BM, 128, 512], 1, true, seeds(2));
    check!(mxf4 => f32, [5 * BM - 56, 120, 288], 1, true, seeds(1));
}

#[test]
fn nvf4_of_whole_numbers_is_exact() {
    check!(nvf4 => f32, [BM, 128, 768], 1, true, seeds(4));
}

/// More k tiles than stages, residues, and accumulators that come round.
#[test]
fn nvf4_with_residues() {
    check!(nvf4 => bf16, [200, 312, 6 * 256 + 96], 2, false, seeds(2));
    check!(nvf4 => f32, [5 * BM - 56, 120, 288], 1, true, seeds(2));
}

#[test]
fn block_scales_of_a_pair_of_whole_numbers_are_exact() {
    check!(pair mx F8E4M3, F8E4M3 => f32, [2 * BM, 128, 384], 1, true, seeds(4));
    check!(pair mx F8E5M2, F8E4M3 => f32, [2 * BM, 128, 256], 1, true, seeds(1));
    check!(pair mxf4 => f32, [2 * BM, 128, 512], 1, true, seeds(1));
    check!(pair nvf4 => f32, [2 * BM, 128, 768], 1, true, seeds(2));
}

/// More k tiles than stages, and residues. One CTA of the last pair has no row.
#[test]
fn block_scales_of_a_pair_with_residues() {
    check!(pair mx F8E4M3, F8E4M3 => bf16, [300, 312, 7 * 128 + 48], 2, false, seeds(2));
    check!(pair nvf4 => bf16, [260, 200, 7 * 256 + 96], 1, false, seeds(1));
}

/// One pair computes five tiles: the accumulators come round twice.
#[test]
fn block_scales_of_a_pair_in_accumulators_used_in_turn() {
    check!(pair mx F8E4M3, F8E4M3 => f32, [5 * 2 * BM - 56, 120, 144], 1, true, seeds(2));
    check!(pair nvf4 => f32, [3 * 2 * BM - 136, 120, 288], 1, true, seeds(2));
}

/// For each type of operands: K with a residue; more k tiles than stages, and residues of all three; accumulators that come
/// round; two clusters.
macro_rules! four_shapes {
    ($($name:ident: $k:literal, [$($operands:tt)*];)*) => {$(
        #[test]
        fn $name() {
            for (shape, clusters) in [
                ([BM, 128, $k + $k / 2], 1),
                ([72, 40, 6 * $k + $k / 4], 1),
                ([3 * BM - 56, 120, $k], 1),
                ([200, 280, $k], 2),
            ] {
                check!($($operands)* => f32, shape, clusters, true, seeds(1));
            }
        }
    )*};
}
four_shapes! {
    four_shapes_of_bf16: 64, [bf16 [64], bf16];
    four_shapes_of_f16: 64, [f16 [64], f16];
    four_shapes_of_e4m3: 128, [F8E4M3 [128], F8E4M3];
    four_shapes_of_mxf8: 128, [mx F8E4M3, F8E4M3];
    four_shapes_of_nvf4: 256, [nvf4];
    four_shapes_of_mxf8_by_pairs: 128, [pair mx F8E4M3, F8E4M3];
    four_shapes_of_nvf4_by_pairs: 256, [pair nvf4];
}
