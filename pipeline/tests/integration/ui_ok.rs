//! The correct programs beside the cases of tests/compile_fail.rs, run on the SM model: each does
//! right what its row's cases do wrong, and what comes out is checked.
#![allow(missing_docs)]

use crate::common::{Image, run};
use crate::support::*;
use pipeline::cta::Regions;
use sim::GlobalMemory;

/// Runs a kernel that copies [`PANELS`] panels, under several schedules, and checks the copy.
fn copies<P: Regions>(
    kernel: impl Fn(ThisCta<SmemPlan<P>>, &TensorMap<Panel>, &TensorMap<Panel>) + Sync,
) {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let rows = 64 * PANELS as usize;
        let from = Image::new(&memory, rows, 64, |i| (i % 251) as f32);
        let to = Image::new(&memory, rows, 64, |_| f32::NAN);
        let (source, target) = (from.map(), to.map());
        run(seed, &memory, |cta| kernel(cta, &source, &target))
            .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        assert_eq!(from.read(), to.read(), "seed {seed}");
    }
}

/// Runs a kernel that multiplies a 64 x 64·`k_tiles` matrix with its own transpose, in slots of 64
/// columns, and checks the product.
fn squares<P: Regions>(
    k_tiles: usize,
    kernel: impl Fn(ThisCta<SmemPlan<P>>, &TensorMap<Panel>, &TensorMap<Panel>) + Sync,
) {
    let memory = GlobalMemory::new();
    let cols = 64 * k_tiles;
    let a = Image::new(&memory, 64, cols, |i| (i % 5) as f32 - 2.0);
    let d = Image::new(&memory, 64, 64, |_| f32::NAN);
    let (a_map, d_map) = (a.map(), d.map());
    run(1, &memory, |cta| kernel(cta, &a_map, &d_map)).unwrap_or_else(|report| panic!("{report}"));
    let (a, d) = (a.read(), d.read());
    for row in 0..64 {
        for col in 0..64 {
            let sum: f32 = (0..cols).map(|k| a[row * cols + k] * a[col * cols + k]).sum();
            assert_eq!(bf16::from_f32(d[64 * row + col]), bf16::from_f32(sum), "({row}, {col})");
        }
    }
}

macro_rules! programs {
    ($($file:literal as $name:ident;)+) => {$(
        #[path = $file]
        mod $name;
    )+};
}
programs! {
    "../ui/00_stages_ok.rs" as stages;
    "../ui/01_load_ok.rs" as load;
    "../ui/02_once_ok.rs" as once;
    "../ui/03_read_ok.rs" as read;
    "../ui/04_two_rings_ok.rs" as two_rings;
    "../ui/05_ends_ok.rs" as ends;
    "../ui/06_bytes_ok.rs" as bytes;
    "../ui/07_init_ok.rs" as init;
    "../ui/08_in_turn_ok.rs" as in_turn;
    "../ui/09_phases_ok.rs" as phases;
    "../ui/10_load_order_ok.rs" as load_order;
    "../ui/12_named_ok.rs" as named;
    "../ui/14_kinds_ok.rs" as kinds;
    "../ui/15_finish_ok.rs" as finish;
    "../ui/15_halves_ok.rs" as halves;
    "../ui/16_retired_ok.rs" as retired;
    "../ui/17_publish_ok.rs" as publish;
    "../ui/17_cp_async_ok.rs" as cp_async;
    "../ui/18_panels_ok.rs" as panels;
    "../ui/20_plan_ok.rs" as plan;
    "../ui/21_maps_ok.rs" as maps;
    "../ui/24_registers_ok.rs" as registers;
    "../ui/31_epilogue_ok.rs" as epilogue;
    "../ui/33_counts_ok.rs" as counts;
    "../ui/37_cluster_ok.rs" as cluster;
    "../ui/38_tokens_ok.rs" as tokens;
    "../ui/41_masks_ok.rs" as masks;
    "../ui/42_meet_ok.rs" as meet;
    "../ui/43_prologue_ok.rs" as prologue;
    "../ui/44_pieces_ok.rs" as pieces;
    "../ui/48_fragment_ok.rs" as fragment;
    "../ui/49_turns_ok.rs" as turns;
    "../ui/51_tensor_ok.rs" as tensor;
    "../ui/52_pair_ok.rs" as pair;
    "../ui/53_tiles_ok.rs" as tiles;
}
