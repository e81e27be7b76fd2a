//! Two warp groups that divide a product by columns, in a cluster whose CTAs load the tile of B in turn, on the SM model.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use isa::kernel::KernelArg;
use isa::slice::{DeviceSliceMut, SliceAbi};
use pipeline::cta::{AlongM, Unshared};
use pipeline::mma::TallAccumulator;
use pipeline::prelude::*;
use sim::GlobalMemory;

names! { Main = "main loop" }
roles! { Load = 1 x 40 registers, Math = 2 x 216 registers }

type Four = Cluster<4, 1>;
/// Rows of A in a CTA: two blocks, which both warp groups multiply.
const ROWS: usize = 128;
/// Columns of each warp group, and of both.
const HALF: usize = 24;
const COLS: usize = 2 * HALF;
const STAGES: usize = 3;
const K_TILES: usize = 7;

fn product(seed: u64) {
    type A = Tile<bf16, ROWS, 64>;
    type B = Tile<bf16, COLS, 64>;
    type Plan = SmemPlan<(Ring<STAGES, (A, B), Tma, Mma<Math>, Main, Four>,)>;
    let (rows, cols, memory) = (4 * ROWS, 64 * K_TILES, GlobalMemory::new());
    let value = |i: usize, by: usize| (i * by % 11) as f32 - 5.0;
    let a = Image::new(&memory, rows, cols, |i| value(i, 7));
    let b = Image::new(&memory, COLS, cols, |i| value(i, 5));
    let (map_a, map_b) = (a.map::<A, Unshared>(), b.map::<B, AlongM<4>>());
    let address = memory.alloc(rows * COLS * 4);
    let abi = SliceAbi { address, elements: (rows * COLS) as u64 };
    run(seed, &memory, |cta: Cta<(Load, Math), Four, Plan>| {
        // SAFETY: the memory outlives the run, and no other launch has it.
        let d: DeviceSliceMut<'_, f32> = unsafe { DeviceSliceMut::from_abi(abi) };
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |load| {
                load.elect(|one| {
                    let (mut loads, at) = (ring.producer.by(&one), one.coord());
                    for k in 0..K_TILES {
                        let (row, k) = ((at.m() as usize * ROWS) as u32, 64 * k as u32);
                        let a = map_a.tile(row, k, Peers::ALONE);
                        loads.acquire().load((a, map_b.tile(0, k, at.sharing_b())));
                    }
                    loads.tail();
                });
            },
            |group| {
                let mut full = ring.consumer.by(&group);
                let first = full.wait().by_columns();
                let mut sum = TallAccumulator::<HALF, 2>::start(&group, first);
                for _ in 1..K_TILES {
                    sum.next(full.wait().by_columns()).release();
                }
                let (sum, last) = sum.finish();
                last.release();
                let above = group.coord().m() as usize * ROWS;
                let left = group.index() as usize * HALF;
                for (block, sum) in sum.blocks().into_iter().enumerate() {
                    // The last fragment begins at a multiple of 8, and shares eight columns with the first one.
                    for column in [0, HALF - 16] {
                        for (i, x) in sum.fragment_at(column).into_iter().enumerate() {
                            let (row, right) = group.place(i);
                            let row = above + 64 * block + row as usize;
                            d.set(row * COLS + left + column + right as usize, x);
                        }
                    }
                }
            },
        );
    })
    .unwrap_or_else(|report| panic!("{report}"));
    let mut bytes = vec![0; rows * COLS * 4];
    memory.read(address, &mut bytes).expect("allocated");
    let (a, b) = (a.read(), b.read());
    for (i, word) in bytes.as_chunks().0.iter().enumerate() {
        let (row, col) = (i / COLS, i % COLS);
        let want: f32 = (0..cols).map(|k| a[row * cols + k] * b[col * cols + k]).sum();
        let got = f32::from_le_bytes(*word);
        assert!(
            got.to_bits() == want.to_bits(),
            "({row}, {col}) is {got}, not {want}, seed {seed}"
        );
    }
}

/// 48 rows of B are three boxes, which three of the four CTAs load in each slot.
#[test]
fn warp_groups_divide_the_columns() {
    for seed in 0..20 {
        product(seed);
    }
}
