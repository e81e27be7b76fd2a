//! Step 2: any number of queries and keys, block by block, causal. A CTA has 64 queries.

use super::one_block::{KTile, OTile, QTile, SmallCta, VTile};
use super::softmax::Softmax;
use warpipe::prelude::*;

/// Causal O = softmax(scale · Q·Kᵀ) · V. `scale` has the factor log2(e) in it.
#[kernel]
pub fn blocks(
    cta: SmallCta<2>,
    q: &TensorMap<QTile>,
    k: &TensorMap<KTile>,
    v: &TensorMap<VTile>,
    o: &TensorMap<OTile>,
    scale: f32,
) {
    let (cta, (queries, keys, values, stores)) = cta.init();
    let tile = cta.coord().cluster_id();
    cta.specialize(
        // example: load
        |load| {
            load.elect(|one| {
                let mut queries = queries.producer.by(&one);
                let mut keys = keys.producer.by(&one);
                let mut values = values.producer.by(&one);
                queries.acquire().load((q.tile(64 * tile, 0, Peers::ALONE),));
                // From the block on the diagonal back to the first.
                for block in (0..=tile).rev() {
                    keys.acquire().load((k.tile(64 * block, 0, Peers::ALONE),));
                    values.acquire().load((v.tile(0, 64 * block, Peers::ALONE),));
                }
                queries.tail();
                keys.tail();
                values.tail();
            });
        },
        // end
        |group| {
            let mut queries = queries.consumer.by(&group);
            let mut keys = keys.consumer.by(&group);
            let mut values = values.consumer.by(&group);
            let mut softmax = Softmax::new(scale);

            // example: first
            let operands = (queries.wait(), keys.wait());
            let (mut scores, (mut q, key)) = Accumulator::<64>::start(&group, operands).finish();
            key.release();
            // On the diagonal, query `row` sees the keys up to its own.
            scores.mask(&group, group.rows().map(|row| (0, row as i32 + 1)));
            softmax.next(&group, &mut scores);
            let p = scores.to_a::<bf16>();
            let (mut sum, value) = Accumulator::<64>::start(&group, (p, values.wait())).finish();
            value.release();
            // end
            // example: loop
            for _block in 0..tile {
                let operands = (q.keep(), keys.wait());
                let (mut scores, (same, key)) = Accumulator::<64>::start(&group, operands).finish();
                key.release();
                q = same;
                let rescale = softmax.next(&group, &mut scores);
                sum.map_rows(rescale, |x, by| x * by);
                let p = scores.to_a::<bf16>();
                let (more, value) = sum.add(&group, (p, values.wait())).finish();
                value.release();
                sum = more;
            }
            q.release();
            sum.map_rows(softmax.inverse(&group), |x, by| x * by);
            // end

            let mut stores = stores.by(&group);
            let mut out = stores.acquire();
            for fragment in 0..4 {
                out.put(fragment, sum.fragment(fragment));
            }
            out.publish().store(o, 64 * tile, 0);
            stores.tail();
        },
    );
}
