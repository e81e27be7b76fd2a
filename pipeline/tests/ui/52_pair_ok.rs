//! The correct program of row 52 of the catalogue: a ring and accumulators of a pair.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

type Slots = Ring<6, (Half, Half), Tma2Sm, Umma<Work, TwoSm>, Main, Pair>;
type Plan = SmemPlan<(Slots, TensorAccumulators<2, 256, Work, Sums, TwoSm>)>;

fn multiply(
    warp: Warp<Work, Pair>,
    operands: ConsumerEnd<6, (Half, Half), Umma<Work, TwoSm>, Main, Pair>,
    sums: AccumulatorProducerEnd<2, 256, Work, Sums, TwoSm>,
) {
    sums.by(warp, |leader, sums| {
        let mut operands = operands.by_leader(leader);
        let mut sum = sums.acquire().start(operands.wait());
        sum.add(operands.wait());
        sum.commit();
    });
}

fn main() {
    let _ = multiply;
    assert_eq!(<(Half, Half) as UmmaTiles<256, TwoSm>>::INSTRUCTION, 0x1040_0490);
    assert_eq!(Plan::BYTES, 6 * (2 * 128 * 128 + 16) + 16 + 2 * 16 + 8);
}
