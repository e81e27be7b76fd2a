//! Step 4: two warp groups take turns at issuing their products. A CTA has 128 queries.

use super::softmax::Softmax;
use warpipe::pipeline::barrier::NamedSequence;
use warpipe::pipeline::tile::MnMajor;
use warpipe::prelude::*;

// example: types
names! {
    /// The ring of queries.
    Queries = "Q",
    /// The ring of keys.
    Keys = "K",
    /// The ring of values.
    Values = "V",
    /// The order in which the warp groups issue their products.
    Turns = "turns",
}
roles! {
    /// Loads Q, K and V.
    Load = 1 x 24 registers,
    /// Multiply, 64 queries each.
    Math = 2 x 240 registers,
}

/// 128 queries, of which each warp group has 64.
pub type QTile = Tile<bf16, 128, 64>;
/// 128 keys, which both warp groups read.
pub type KTile = Tile<bf16, 128, 64>;
/// 128 values.
pub type VTile = Tile<bf16, 64, 128, MnMajor>;
/// A warp group's 64 rows of O.
pub type OTile = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(
    Ring<1, (QTile,), Tma, Mma<Math>, Queries, Alone>,
    Ring<2, (KTile,), Tma, Mma<Math>, Keys, Alone>,
    Ring<2, (VTile,), Tma, Mma<Math>, Values, Alone>,
    StoreBuffers<bf16, 1, Math>,
    NamedSequence<Math, Turns>,
)>;
/// A CTA with two warp groups that take turns.
pub type TurnsCta = Cta<(Load, Math), Alone, Plan>;
// end

/// Causal O = softmax(scale · Q·Kᵀ) · V. `scale` has the factor log2(e) in it.
#[kernel]
pub fn turns(
    cta: TurnsCta,
    q: &TensorMap<QTile>,
    k: &TensorMap<KTile>,
    v: &TensorMap<VTile>,
    o: &TensorMap<OTile>,
    scale: f32,
) {
    let (cta, (queries, keys, values, stores, turns)) = cta.init();
    let tile = cta.coord().cluster_id();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut queries = queries.producer.by(&one);
                let mut keys = keys.producer.by(&one);
                let mut values = values.producer.by(&one);
                queries.acquire().load((q.tile(128 * tile, 0, Peers::ALONE),));
                for block in (0..=tile).rev() {
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
            let mut softmax = Softmax::new(scale);
            // example: first
            // The rows of the tile above the group's first one.
            let above = 64 * group.index();
            let operands = (queries.wait(), keys.wait());
            let (mut scores, (mut q, key)) = Accumulator::<128>::start(&group, operands).finish();
            key.release();
            scores.mask(&group, group.rows().map(|row| (0, (above + row) as i32 + 1)));
            softmax.next(&group, &mut scores);
            let mut p = scores.to_a::<bf16>();
            let mut sum = Accumulator::<64>::zeros();
            // end
            // example: loop
            for _block in 0..tile {
                let key = keys.wait();
                let turn = turns.wait();
                let next = Accumulator::<128>::start(&group, (q.keep(), key));
                let (next, pv) = next.then_add(sum, (p, values.wait()));
                turn.pass_on();
                let (mut scores, (same, key)) = next.finish();
                key.release();
                q = same;
                let rescale = softmax.next(&group, &mut scores);
                let (before, value) = pv.finish_after(rescale.0[0] + rescale.0[1]);
                value.release();
                p = scores.to_a();
                sum = before;
                sum.map_rows(rescale, |x, by| x * by);
            }
            // end
            // example: store
            q.release();
            let (mut sum, value) = sum.add(&group, (p, values.wait())).finish();
            value.release();
            sum.map_rows(softmax.inverse(&group), |x, by| x * by);

            let mut stores = stores.by(&group);
            let mut out = stores.acquire();
            for fragment in 0..4 {
                out.put(fragment, sum.fragment(fragment));
            }
            out.publish().store(o, 128 * tile + above, 0);
            stores.tail();
            // end
        },
    );
}
