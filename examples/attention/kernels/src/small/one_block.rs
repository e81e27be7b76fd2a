//! Step 1: 64 queries and 64 keys, heads of 64.

// example: types
use warpipe::isa::math::ex2_approx_ftz;
use warpipe::pipeline::tile::MnMajor;
use warpipe::prelude::*;

names! {
    /// The ring of queries.
    Queries = "Q",
    /// The ring of keys.
    Keys = "K",
    /// The ring of values.
    Values = "V",
}
roles! {
    /// Loads Q, K and V.
    Load = 1 x 24 registers,
    /// Multiplies, and computes the softmax.
    Math = 1 x 240 registers,
}

/// 64 queries.
pub type QTile = Tile<bf16, 64, 64>;
/// 64 keys.
pub type KTile = Tile<bf16, 64, 64>;
/// 64 values. The columns of O are this operand's rows, and lie side by side in memory.
pub type VTile = Tile<bf16, 64, 64, MnMajor>;
/// 64 rows of O.
pub type OTile = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;

/// A tile of queries, `STAGES` blocks of keys and of values, and what is stored.
type Plan<const STAGES: usize> = SmemPlan<(
    Ring<1, (QTile,), Tma, Mma<Math>, Queries, Alone>,
    Ring<STAGES, (KTile,), Tma, Mma<Math>, Keys, Alone>,
    Ring<STAGES, (VTile,), Tma, Mma<Math>, Values, Alone>,
    StoreBuffers<bf16, 1, Math>,
)>;
/// A CTA with `STAGES` blocks of keys and of values.
pub type SmallCta<const STAGES: usize> = Cta<(Load, Math), Alone, Plan<STAGES>>;
// end

// example: kernel
/// O = softmax(scale · Q·Kᵀ) · V for 64 queries and 64 keys. `scale` has the factor log2(e) in it.
#[kernel]
pub fn one_block(
    cta: SmallCta<1>,
    q: &TensorMap<QTile>,
    k: &TensorMap<KTile>,
    v: &TensorMap<VTile>,
    o: &TensorMap<OTile>,
    scale: f32,
) {
    let (cta, (queries, keys, values, stores)) = cta.init();
    cta.specialize(
        // example: load
        |load| {
            load.elect(|one| {
                let mut queries = queries.producer.by(&one);
                let mut keys = keys.producer.by(&one);
                let mut values = values.producer.by(&one);
                queries.acquire().load((q.tile(0, 0, Peers::ALONE),));
                keys.acquire().load((k.tile(0, 0, Peers::ALONE),));
                values.acquire().load((v.tile(0, 0, Peers::ALONE),));
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

            // example: scores
            let operands = (queries.wait(), keys.wait());
            let (mut scores, (q, k)) = Accumulator::<64>::start(&group, operands).finish();
            q.release();
            k.release();
            // end
            // example: softmax
            let max = group.row_max(scores.row_max());
            scores.map_rows(max, |x, max| ex2_approx_ftz((x - max) * scale));
            let total = group.row_sum(scores.row_sum());
            // end
            // example: sum
            let p = scores.to_a::<bf16>();
            let (mut sum, v) = Accumulator::<64>::start(&group, (p, values.wait())).finish();
            v.release();
            sum.map_rows(total, |x, total| x / total);
            // end

            // example: store
            let mut stores = stores.by(&group);
            let mut out = stores.acquire();
            for fragment in 0..4 {
                out.put(fragment, sum.fragment(fragment));
            }
            out.publish().store(o, 0, 0);
            stores.tail();
            // end
        },
    );
}
// end
