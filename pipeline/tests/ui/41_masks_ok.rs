//! Each operand goes with the mask of those who share it: A's rows along N, B's rows along M.
use crate::common::{Image, run};
use crate::support::*;
use sim::GlobalMemory;

type Square = Cluster<2, 2>;
type SquareRing = Ring<2, Operands, Tma, Mma<Work>, Main, Square>;
type SquarePlan = SmemPlan<(SquareRing, Buffers)>;
const K_TILES: u32 = 3;

/// D = A·Bᵀ, 128 x 128, each of four CTAs a quarter.
fn multiply(
    cta: Cta<(Load, Work), Square, SquarePlan>,
    a: &TensorMap<Panel, AlongN<2>>,
    b: &TensorMap<Panel, AlongM<2>>,
    d: &TensorMap<Panel>,
) {
    let (cta, (ring, stores)) = cta.init();
    let at = cta.coord();
    let (row, col) = (64 * at.m(), 64 * at.n());
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for k in 0..K_TILES {
                    loads.acquire().load((
                        a.tile(row, 64 * k, at.sharing_a()),
                        b.tile(col, 64 * k, at.sharing_b()),
                    ));
                }
                loads.tail();
            });
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut batch = Accumulator::<64>::start(&group, operands.wait());
            for _ in 1..K_TILES {
                batch.next(operands.wait()).release();
            }
            let (sum, last) = batch.finish();
            last.release();
            let mut stores = stores.by(&group);
            let mut out = stores.acquire();
            for fragment in 0..4 {
                out.put(fragment, sum.fragment(fragment));
            }
            out.publish().store(d, row, col);
            stores.tail();
        },
    );
}

#[test]
fn four_ctas_share_rows_and_columns() {
    let cols = 64 * K_TILES as usize;
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        let a = Image::new(&memory, 128, cols, |i| (i % 5) as f32 - 2.0);
        let b = Image::new(&memory, 128, cols, |i| (i % 7) as f32 - 3.0);
        let d = Image::new(&memory, 128, 128, |_| f32::NAN);
        let (a_map, b_map, d_map) = (a.map(), b.map(), d.map());
        run(seed, &memory, |cta| multiply(cta, &a_map, &b_map, &d_map))
            .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        let (a, b, d) = (a.read(), b.read(), d.read());
        for (row, col) in (0..128).flat_map(|row| (0..128).map(move |col| (row, col))) {
            let sum: f32 = (0..cols).map(|k| a[row * cols + k] * b[col * cols + k]).sum();
            assert_eq!(bf16::from_f32(d[128 * row + col]), bf16::from_f32(sum), "({row}, {col})");
        }
    }
}
