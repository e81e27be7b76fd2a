//! The combination of a tile's parts: each part's result is weighed by its share of the sum of exponentials.
#![forbid(unsafe_code)]

use super::args::{DecodeArgs, Entry};
use core::f32::consts::{LN_2, LOG2_E};
use isa::math::{ex2_approx_ftz, fma, lg2_approx};
use pipeline::cta::{ClusterShape, Role, WARPGROUP_THREADS, Warpgroup};
use pipeline::grid::SplitTile;
use pipeline::mma::Pack;

/// Writes the rows of a tile to O and LSE. Four columns of a row are one thread's.
///
/// (FlashAttention `flash_fwd_combine`.)
#[inline(always)]
pub fn combine<E: Pack, Ro: Role, Cl: ClusterShape, const D: usize>(
    group: &Warpgroup<Ro, Cl>,
    tile: &SplitTile<'_, D>,
    args: &DecodeArgs<'_>,
    entry: &Entry,
) {
    let threads = const { D as u32 / 4 };
    let (own, quad) = (group.thread() / threads, group.thread() % threads);
    let (o, lse) = (args.o.by(group), args.lse.by(group));
    let [_, sequence] = entry.place.coords();
    for row in (own..entry.rows(args)).step_by((WARPGROUP_THREADS / threads) as usize) {
        let Some((head, query)) = entry.row(args, row) else { continue };
        let most = (0..tile.parts())
            .map(|part| tile.value(part, row))
            .fold(f32::NEG_INFINITY, isa::math::max);
        let (mut sum, mut weights) = ([0.0; 4], 0.0);
        if most > f32::NEG_INFINITY {
            for part in 0..tile.parts() {
                let weight = ex2_approx_ftz((tile.value(part, row) - most) * LOG2_E);
                let own = tile.sums(part, row, quad);
                weights += weight;
                sum = core::array::from_fn(|i| fma(own[i], weight, sum[i]));
            }
        }
        let inverse = if weights > 0.0 { 1.0 / weights } else { 0.0 };
        let [a, b, c, d] = sum.map(|x| x * inverse);
        let [sequences, heads, queries] = args.o_strides;
        let line =
            u64::from(sequence) * sequences + u64::from(head) * heads + u64::from(query) * queries;
        let at = line as usize + 2 * quad as usize;
        if 4 * quad < args.head_dim {
            o.try_set(at, E::pack(a, b));
            o.try_set(at + 1, E::pack(c, d));
        }
        if quad == 0 && !lse.is_empty() {
            let at = (sequence * args.heads + head) * args.seq_q + query;
            lse.try_set(at as usize, fma(lg2_approx(weights), LN_2, most));
        }
    }
    group.sync_warp();
}
