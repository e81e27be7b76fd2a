//! What a warp group writes: 64 rows of O, or a part of them.
//!
//! The keys of a tile may be split among CTAs. Each of them stores its part of the result. The warp group that stores the
//! last part adds all parts up, each times its share of the sum of exponentials.
//!
//! (FlashAttention `flash_fwd_combine`.)
#![forbid(unsafe_code)]

use super::Sequences;
use super::args::{AttentionArgs, GROUP_ROWS};
use super::softmax::{Total, finite};
use super::work::{Tiles, Work};
use core::f32::consts::{LN_2, LOG2_E};
use isa::math::{ex2_approx_ftz, fma, lg2_approx, max};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{Cluster, Role, Unshared};
use pipeline::grid::SplitTile;
use pipeline::mma::{Fragments, Rows, row_of};
use pipeline::prelude::*;
use pipeline::store::Stores;
use pipeline::tile::EpilogueElement;

type Alone = Cluster<1, 1>;

/// A row that no sequence has: its Q and O would not fit in the memory of a GPU.
const NOWHERE: u32 = 1 << 30;

/// What a warp group writes: each tile that [`next_with_keys`](Self::next_with_keys) returns, with
/// [`write`](Self::write).
pub struct Out<'a, 'g, Math, E: EpilogueElement, Sq, const D: usize, const OUT: usize> {
    /// The warp group.
    pub group: &'g Warpgroup<Math, Alone>,
    /// Its store buffers.
    pub stores: Stores<'g, E, OUT, Math, Alone>,
    /// The tensor map of O, in boxes of a warp group's 64 queries.
    pub o: &'a TensorMap<E::EpilogueTile<64>, Unshared, 4>,
    /// What the launch tells.
    pub args: &'a AttentionArgs<'a>,
    /// Where the sequences lie.
    pub sequences: Sq,
}

impl<Math, E, Sq, const D: usize, const OUT: usize> Out<'_, '_, Math, E, Sq, D, OUT>
where
    Math: Role,
    Sq: Sequences,
    E: Fragments + EpilogueElement<EpilogueTile<64> = Tile<E, 64, 64>>,
    M64<D>: Shape,
{
    /// Returns the next tile whose queries see a key. Those before it get zeros.
    #[isa::forceinline]
    pub fn next_with_keys(&mut self, tiles: &mut Tiles<'_, Sq>) -> Option<Work<Sq>> {
        let mut work = tiles.next()?;
        while work.blocks.is_empty() {
            let none = Total { inverse: Rows::splat(0.0), lse: Rows::splat(f32::NEG_INFINITY) };
            self.write_rows(&work, &Accumulator::<D>::zeros(), none);
            work = tiles.next()?;
        }
        Some(work)
    }

    /// Writes 64 rows of O, and their log-sum-exps; or their part, if the tile is split.
    #[isa::forceinline]
    pub fn write(&mut self, work: &Work<Sq>, mut sum: Accumulator<D>, total: Total) {
        let part = work.part.of_group(self.group.index(), Math::GROUPS as u32);
        match part.filter(|_| Sq::SPLIT) {
            None => self.write_rows(work, &sum, total),
            Some(part) => {
                sum.map_rows(total.inverse, |x, by| x * by);
                let tile = self.args.tiles.store(self.group, part, GROUP_ROWS, &sum, total.lse);
                if let Some(tile) = tile {
                    let (sum, total) = self.combine(&tile);
                    self.write_rows(work, &sum, total);
                }
                // ptxas may think that not all lanes came here, and keep what follows in registers of each.
                self.group.sync_warp();
            }
        }
    }

    /// Adds up the parts of a tile.
    #[isa::forceinline]
    fn combine(&self, tile: &SplitTile<'_, D>) -> (Accumulator<D>, Total) {
        let none = Rows::splat(f32::NEG_INFINITY);
        let (mut sum, mut most, mut weights) = (Accumulator::zeros(), none, Rows::splat(0.0));
        for part in 0..tile.parts() {
            let value = tile.values(self.group, part);
            let before = most;
            most = most.zip(value, max);
            let weight = |value: Rows| {
                value.zip(most, |value, most| ex2_approx_ftz((value - finite(most)) * LOG2_E))
            };
            let (by, own) = (weight(before), weight(value));
            sum.map_rows(by, |x, by| x * by);
            tile.add(self.group, part, own, &mut sum);
            weights = weights.zip(by, |x, by| x * by).zip(own, |x, own| x + own);
        }
        let total = Total {
            inverse: weights.map(|sum| if sum == 0.0 { 0.0 } else { 1.0 / sum }),
            lse: most.zip(weights, |most, sum| fma(lg2_approx(sum), LN_2, finite(most))),
        };
        (sum, total)
    }

    /// Writes 64 rows of O, and their log-sum-exps, in rounds of 64 · `OUT` columns.
    #[isa::forceinline]
    pub fn write_rows(&mut self, work: &Work<Sq>, sum: &Accumulator<D>, total: Total) {
        // Otherwise the last columns would not be written.
        const {
            assert!(
                OUT > 0 && D.is_multiple_of(64 * OUT),
                "the store buffers of a warp group, 64 columns each, divide the columns of a head"
            );
        }
        // A warp group without queries writes far beyond the sequence, where TMA stores nothing: behind the first tile, which
        // may have few queries, are those of the second.
        let group = self.group.index();
        let row = if group < work.rows.groups() { work.first_row(group) } else { NOWHERE };
        let (line, at) = work.results_at(self.args, row);
        for panels in 0..D / 64 / OUT {
            let mut buffers = self.stores.acquire_all();
            for fragment in 0..4 * OUT {
                let v = sum.fragment(4 * OUT * panels + fragment);
                let scaled = core::array::from_fn(|i| v[i] * total.inverse.0[row_of(i)]);
                buffers.put(fragment, scaled);
            }
            buffers.publish().store_of(self.o, at, line, (64 * OUT * panels) as u32);
        }
        let (lse, args) = (self.args.lse.by(self.group), self.args);
        if !lse.is_empty() && self.group.place(0).1 == 0 {
            let head = self.sequences.lse_at(args, &work.sequence, work.place);
            let queries = Sq::lengths(args, &work.sequence)[0];
            let rows = self.group.rows().map(|own| row + own);
            let put = |i: usize| {
                if rows.0[i] < queries {
                    lse.try_set((head + rows.0[i]) as usize, total.lse.0[i]);
                }
            };
            put(0);
            put(1);
        }
        self.group.sync_warp();
    }
}
