//! Every schedule that can come out differently, of small kernels on the pipeline: those that are
//! right, and those with a mistake that only some schedules show.
// Small integers, copied and compared bit for bit.
#![allow(missing_docs, clippy::float_cmp)]

use crate::common::{Image, load_down, run_with};
use half::bf16;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::prelude::*;
use sim::{Config, Explored, GlobalMemory, Rule, Strategy, explore};

names! { Panels = "panels", First = "first", Second = "second", Order = "load order" }
roles! { Load = 1 x 40 registers, Two = 2 x 160 registers, Add = 1 x 232 registers }

type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;

type Tall = Tile<bf16, 128, 64>;
type Shared = SmemPlan<(Ring<2, (Tall,), Tma, Reads<Two>, Panels, Alone>,)>;

/// One producer, two warp groups that read their halves of every panel.
fn shared_ring(cta: Cta<(Load, Two), Alone, Shared>, from: &TensorMap<Tall>, steps: u32) {
    let (cta, (ring,)) = cta.init();
    cta.specialize(
        |load| load_down(load, ring.producer, from, steps),
        |group| {
            let mut panels = ring.consumer.by(&group);
            for step in 0..steps {
                let panel = panels.wait();
                for fragment in 0..4 {
                    let want = step as f32 + 1.0;
                    assert!(
                        panel.fragment(&group, fragment).iter().all(|&x| x == want),
                        "step {step}"
                    );
                }
                panel.release();
            }
        },
    );
}

#[test]
fn a_ring_of_two_stages_and_two_consumers() {
    let steps = 4;
    let explored = explore(&Config::default(), &Strategy::Exhaustive { limit: 1000 }, |config| {
        let memory = GlobalMemory::new();
        let value = |i: usize| (i / (128 * 64)) as f32 + 1.0;
        let from = Image::new(&memory, 128 * steps as usize, 64, value);
        let map = from.map::<Tall, _>();
        run_with(config, &memory, |cta| shared_ring(cta, &map, steps))
    })
    .unwrap_or_else(|finding| panic!("{finding}"));
    // Each of its waits is for all that went before it: nothing that anybody does can come out
    // differently. One schedule stands for all.
    assert_eq!((explored.complete, explored.schedules), (true, 1), "{explored:?}");
}

type Ordered<const STAGES: usize> = SmemPlan<(
    Ring<STAGES, (Panel,), Tma, Reads<Add>, First, Alone>,
    Ring<1, (Panel,), Tma, Reads<Add>, Second, Alone>,
    LoadOrderBarrier<Order>,
)>;

/// The second ring's loads follow the first one's, tile by tile. With more than one stage the first
/// ring's loads, and their arrivals at the order's barrier, can run ahead.
fn ordered<const STAGES: usize>(
    cta: Cta<(Load, Add), Alone, Ordered<STAGES>>,
    x: &TensorMap<Panel>,
    y: &TensorMap<Panel>,
    tiles: u32,
) {
    let (cta, (first, second, order)) = cta.init();
    cta.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = first.producer.by(&one);
                    let mut order = order.main_loop.by(&one);
                    for tile in 0..tiles {
                        loads.acquire().load((x.tile(64 * tile, 0, Peers::ALONE),));
                        order.arrive_and_step();
                    }
                    loads.tail();
                },
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = second.producer.by(&one);
                    let mut order = order.epilogue.by(&one);
                    for tile in 0..tiles {
                        order.wait_and_step();
                        loads.acquire().load((y.tile(64 * tile, 0, Peers::ALONE),));
                    }
                    loads.tail();
                },
            );
        },
        |group| {
            let mut xs = first.consumer.by(&group);
            let mut ys = second.consumer.by(&group);
            for _ in 0..tiles {
                let (x, y) = (xs.wait(), ys.wait());
                let (a, b) = (x.fragment(&group, 0), y.fragment(&group, 0));
                assert!(a.iter().zip(&b).all(|(a, b)| a + 1.0 == *b), "the same tile of both");
                x.release();
                y.release();
            }
        },
    );
}

fn explore_ordered<const STAGES: usize>() -> Result<Explored, sim::Finding<Box<sim::Report>>> {
    let tiles = 3;
    explore(&Config::default(), &Strategy::Exhaustive { limit: 1000 }, |config| {
        let memory = GlobalMemory::new();
        let tile = |i: usize| (i / (64 * 64)) as f32;
        let x = Image::new(&memory, 64 * tiles as usize, 64, tile);
        let y = Image::new(&memory, 64 * tiles as usize, 64, |i| tile(i) + 1.0);
        let (x, y) = (x.map::<Panel, _>(), y.map::<Panel, _>());
        run_with(config, &memory, |cta| {
            ordered::<STAGES>(cta, &x, &y, tiles);
        })
    })
}

#[test]
fn a_load_order_barrier_over_three_tiles() {
    let explored = explore_ordered::<1>().unwrap_or_else(|finding| panic!("{finding}"));
    assert!(explored.complete, "{explored:?}");
}

#[test]
fn an_arriver_that_gets_two_ahead_in_some_schedule() {
    let finding = explore_ordered::<2>().expect_err("a lapped waiter");
    assert_eq!(finding.error.rule, Rule::Lapped, "{finding}");
}
