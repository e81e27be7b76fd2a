//! The combination of a tile's parts: each part's result is weighed by its share of the sum of exponentials.
#![forbid(unsafe_code)]

use super::args::{DecodeArgs, Entry};
use core::array::from_fn;
use core::f32::consts::{LN_2, LOG2_E};
use isa::math::{ex2_approx_ftz, fma, lg2_approx, rcp_approx_ftz};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role, WARPGROUP_THREADS, Warpgroup};
use pipeline::grid::SplitTile;
use pipeline::mma::{Accumulator, Pack, Rows};

/// Parts whose loads are in flight together. One after the other, sixteen parts would take 4 µs.
const AT_ONCE: usize = 16;
/// Rows of a thread whose loads are in flight together: with [`AT_ONCE`] parts, their sums take 128 registers.
const ROWS_AT_ONCE: usize = 2;

/// A row's parts, weighed and added up so far.
#[derive(Clone, Copy)]
struct Weighed {
    most: f32,
    sum: [f32; 4],
    weights: f32,
}

impl Weighed {
    const NONE: Self = Self { most: f32::NEG_INFINITY, sum: [0.0; 4], weights: 0.0 };

    /// Adds parts, each with its log-sum-exp and four of its sums.
    #[isa::forceinline]
    fn add(&mut self, values: &[f32; AT_ONCE], sums: &[[f32; 4]; AT_ONCE]) {
        let before = self.most;
        let most = values.iter().copied().fold(before, isa::math::max);
        if most > f32::NEG_INFINITY {
            let weight = |value: f32| ex2_approx_ftz((value - most) * LOG2_E);
            let by = weight(before);
            let (mut sum, mut weights) = (self.sum.map(|x| x * by), self.weights * by);
            for part in 0..AT_ONCE {
                let weight = weight(values[part]);
                weights += weight;
                sum = from_fn(|i| fma(sums[part][i], weight, sum[i]));
            }
            *self = Self { most, sum, weights };
        }
    }
}

/// Writes the rows of a tile to O and LSE. Four columns of a row are one thread's.
///
/// (FlashAttention `flash_fwd_combine`.)
#[isa::forceinline]
pub fn combine<E: Pack, Ro: Role, Cl: ClusterShape, const D: usize>(
    group: &Warpgroup<Ro, Cl>,
    tile: &SplitTile<'_, D>,
    args: &DecodeArgs<'_>,
    entry: &Entry,
) {
    let threads = const { D as u32 / 4 };
    let apart = const { WARPGROUP_THREADS / (D as u32 / 4) };
    let (own, quad) = (group.thread() / threads, group.thread() % threads);
    let (o, lse) = (args.o.by(group), args.lse.by(group));
    let rows = entry.rows(args);
    for first_row in (own..rows).step_by(ROWS_AT_ONCE * apart as usize) {
        // In place of a row that does not exist stands the first one, so that the loads need no branch.
        let row: [u32; ROWS_AT_ONCE] = from_fn(|i| {
            let row = first_row + i as u32 * apart;
            if row < rows { row } else { first_row }
        });
        let mut all = [Weighed::NONE; ROWS_AT_ONCE];
        for first in (0..tile.parts()).step_by(AT_ONCE) {
            let values = row.map(|row| tile.values_of_row(first, row));
            let sums = row.map(|row| tile.sums_of_row(first, row, quad));
            for (i, weighed) in all.iter_mut().enumerate() {
                weighed.add(&values[i], &sums[i]);
            }
        }
        for (i, Weighed { most, sum, weights }) in all.into_iter().enumerate() {
            let again = i > 0 && row[i] == first_row;
            let Some((head, query)) = entry.row(args, row[i]).filter(|_| !again) else { continue };
            let inverse = if weights > 0.0 { rcp_approx_ftz(weights) } else { 0.0 };
            let [a, b, c, d] = sum.map(|x| x * inverse);
            let at = entry.o_at(args, head, query) + 2 * quad as usize;
            if 4 * quad < args.head_dim {
                o.try_set(at, E::pack(a, b));
                o.try_set(at + 1, E::pack(c, d));
            }
            if quad == 0 && !lse.is_empty() {
                let value = fma(lg2_approx(weights), LN_2, most);
                lse.try_set(entry.lse_at(args, head, query), value);
            }
        }
    }
    group.sync_warp();
}

/// Writes the rows of a tile that is not split to O and LSE.
#[isa::forceinline]
pub fn write<E: Pack, Ro: Role, Cl: ClusterShape, const D: usize>(
    group: &Warpgroup<Ro, Cl>,
    sum: &Accumulator<D>,
    values: Rows,
    args: &DecodeArgs<'_>,
    entry: &Entry,
) where
    M64<D>: Shape,
{
    let (o, lse) = (args.o.by(group), args.lse.by(group));
    let rows = group.rows();
    for half in 0..2 {
        let Some((head, query)) = entry.row(args, rows.0[half]) else { continue };
        let (at, first) = (entry.o_at(args, head, query), group.place(0).1);
        for fragment in 0..D / 16 {
            let values = sum.fragment(fragment);
            for eight in 0..2 {
                let column = (16 * fragment + 8 * eight) as u32 + first;
                let pair = 4 * eight + 2 * half;
                if column < args.head_dim {
                    let pair = E::pack(values[pair], values[pair + 1]);
                    o.try_set(at + column as usize / 2, pair);
                }
            }
        }
        if first == 0 && !lse.is_empty() {
            lse.try_set(entry.lse_at(args, head, query), values.0[half]);
        }
    }
    group.sync_warp();
}
