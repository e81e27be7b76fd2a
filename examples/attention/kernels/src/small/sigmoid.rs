//! Sigmoid attention on the plan of step 4: O = sigmoid(scale · Q·Kᵀ + bias) · V.
//!
//! (Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid Self-Attention": FlashSigmoid.)

use super::turns::{KTile, OTile, QTile, TurnsCta, VTile};
// example: weigh
use warpipe::isa::math::{ex2_approx_ftz, fma, rcp_approx_ftz};
use warpipe::prelude::*;

/// Replaces the scores of a block by their weights, 1 / (1 + 2^-(scale · x + bias)). That of a hidden score, −∞, is 0.
///
/// Returns a value that is known when all weights are, and not negative.
#[inline(always)]
fn weigh(scores: &mut Accumulator<128>, scale: f32, bias: f32) -> f32 {
    scores.map(|x| rcp_approx_ftz(1.0 + ex2_approx_ftz(fma(x, -scale, -bias))));
    let sum = scores.row_sum();
    sum.0[0] + sum.0[1]
}
// end

/// O = sigmoid(scale · Q·Kᵀ + bias) · V. `scale` and `bias` have the factor log2(e) in them. A query sees the keys of
/// `blocks` blocks of 128; if that is 0, the keys up to its own.
#[kernel]
pub fn sigmoid(
    cta: TurnsCta,
    q: &TensorMap<QTile>,
    k: &TensorMap<KTile>,
    v: &TensorMap<VTile>,
    o: &TensorMap<OTile>,
    scale: f32,
    bias: f32,
    blocks: u32,
) {
    let (cta, (queries, keys, values, stores, turns)) = cta.init();
    // example: blocks
    let tile = cta.coord().cluster_id();
    let last = if blocks == 0 { tile } else { blocks - 1 };
    // end
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut queries = queries.producer.by(&one);
                let mut keys = keys.producer.by(&one);
                let mut values = values.producer.by(&one);
                queries.acquire().load((q.tile(128 * tile, 0, Peers::ALONE),));
                for block in (0..=last).rev() {
                    keys.acquire().load((k.tile(128 * block, 0, Peers::ALONE),));
                    values.acquire().load((v.tile(0, 128 * block, Peers::ALONE),));
                }
                queries.tail();
                keys.tail();
                values.tail();
            });
        },
        |group| {
            let mut queries = queries.consumer.by(&group);
            let mut keys = keys.consumer.by(&group);
            let mut values = values.consumer.by(&group);
            let mut turns = turns.by(&group);
            let above = 64 * group.index();

            let operands = (queries.wait(), keys.wait());
            let (mut scores, (mut q, key)) = Accumulator::<128>::start(&group, operands).finish();
            key.release();
            // example: first
            // Keys beyond the last token need no mask: their values are zeros.
            if blocks == 0 {
                scores.mask(&group, group.rows().map(|row| (0, (above + row) as i32 + 1)));
            }
            weigh(&mut scores, scale, bias);
            // end
            let mut p = scores.to_a::<bf16>();
            let mut sum = Accumulator::<64>::zeros();
            for _block in 0..last {
                let key = keys.wait();
                let turn = turns.wait();
                let next = Accumulator::<128>::start(&group, (q.keep(), key));
                let (next, pv) = next.then_add(sum, (p, values.wait()));
                turn.pass_on();
                let (mut scores, (same, key)) = next.finish();
                key.release();
                q = same;
                // example: loop
                let known = weigh(&mut scores, scale, bias);
                let (before, value) = pv.finish_after(known);
                value.release();
                p = scores.to_a();
                sum = before;
                // end
            }
            q.release();
            let (sum, value) = sum.add(&group, (p, values.wait())).finish();
            value.release();

            let mut stores = stores.by(&group);
            let mut out = stores.acquire();
            for fragment in 0..4 {
                out.put(fragment, sum.fragment(fragment));
            }
            out.publish().store(o, 128 * tile + above, 0);
            stores.tail();
        },
    );
}
