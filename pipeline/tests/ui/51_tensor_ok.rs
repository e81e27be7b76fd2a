//! A slot is multiplied once, and the accumulator is given on, read and released once.
use crate::common::{Image, run};
use crate::support::*;
use pipeline::ring::Umma;
use pipeline::tensor::*;
use sim::GlobalMemory;

names! { Sums = "sums" }
type A = Tile<bf16, 128, 64>;
type B = Tile<bf16, 64, 64>;
type TensorPlan = SmemPlan<(
    TensorStores<bf16, Work>,
    Ring<2, (A, B), Tma, Umma<Load>, Main, Alone>,
    TensorAccumulators<2, 64, Work, Sums>,
)>;

/// D = A·Aᵀ of the first 64 rows, K is 64 `k_tiles`.
fn kernel(
    cta: Cta<(Load, Work), Alone, TensorPlan>,
    (a, b): (&TensorMap<A>, &TensorMap<B>),
    d: &TensorMap<Tile<bf16, 128, 64>>,
    k_tiles: u32,
) {
    let (cta, (mut stores, ring, sums)) = cta.init();
    cta.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut loads = ring.producer.by(&one);
                    for k in (0..k_tiles).map(|k| 64 * k) {
                        loads.acquire().load((a.tile(0, k, Peers::ALONE), b.tile(0, k, Peers::ALONE)));
                    }
                    loads.tail();
                },
                |warp| {
                    sums.producer.by(warp, |one, sums| {
                        let mut operands = ring.consumer.by_one(one);
                        let mut sum = sums.acquire().start(operands.wait());
                        for _ in 1..k_tiles {
                            sum.add(operands.wait());
                        }
                        sum.commit();
                    });
                },
            );
        },
        |group| {
            let mut sums = sums.reader.by(&group);
            let full = sums.wait();
            let strip = full.strip(0);
            full.release();
            stores.store(&group, d, 0, 0, |half, index| strip.fragment(half, index));
            stores.tail(&group);
        },
    );
}

#[test]
fn a_product_through_tensor_memory() {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let a = Image::new(&memory, 128, 192, |i| (i % 5) as f32 - 2.0);
        let d = Image::new(&memory, 128, 64, |_| f32::NAN);
        let (a_map, b_map, d_map) = (a.map(), a.map(), d.map());
        run(seed, &memory, |cta| kernel(cta, (&a_map, &b_map), &d_map, 3))
            .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        let (a, d) = (a.read(), d.read());
        for (i, &got) in d.iter().enumerate() {
            let (row, col) = (i / 64, i % 64);
            let sum: f32 = (0..192).map(|k| a[192 * row + k] * a[192 * col + k]).sum();
            assert_eq!(bf16::from_f32(got), bf16::from_f32(sum), "({row}, {col})");
        }
    }
}
