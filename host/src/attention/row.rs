//! Tiles in a row, cut into equal pieces for CTAs (stream-K).

use std::ops::Range;

/// How a row is cut, in key blocks.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Pieces of the row, one for each CTA.
    pub ctas: u32,
    /// Time of a tile, or of a part of one, beside its key blocks.
    pub start: u64,
    /// Fewest blocks of a part, except where a tile has fewer.
    pub fewest: u32,
}

impl Cut {
    /// The pieces of each CTA: the index of a tile, and some of its blocks.
    pub fn pieces<'t>(
        self,
        tiles: impl Iterator<Item = &'t Range<u32>> + Clone,
    ) -> Vec<Vec<(usize, Range<u32>)>> {
        let Self { ctas, start, fewest } = self;
        let mut lists = vec![Vec::new(); ctas as usize];
        // Each seam between two CTAs may split a tile, which then starts twice.
        let time = |tile: &Range<u32>| tile.len() as u64 + start;
        let all = tiles.clone().map(time).sum::<u64>() + u64::from(ctas.saturating_sub(1)) * start;
        let end_of = |cta: usize| (u128::from(all) * (cta as u128 + 1) / u128::from(ctas)) as u64;
        let (mut cta, mut at) = (0, 0);
        for (index, tile) in tiles.enumerate() {
            let mut blocks = tile.clone();
            loop {
                // The blocks that the CTA has time for. The last CTA takes what is left.
                let room = end_of(cta).saturating_sub(at + start).min(u64::from(u32::MAX)) as u32;
                let rest = blocks.len() as u32;
                let too_few = rest < 2 * fewest && 2 * u64::from(room) >= u64::from(rest);
                if cta + 1 == lists.len() || rest <= room || too_few {
                    lists[cta].push((index, blocks));
                    at += u64::from(rest) + start;
                    break;
                }
                let room = room.min(rest.saturating_sub(fewest));
                if room >= fewest {
                    let end = blocks.start + room;
                    lists[cta].push((index, blocks.start..end));
                    blocks.start = end;
                }
                at = end_of(cta);
                cta += 1;
            }
            while cta + 1 < lists.len() && at >= end_of(cta) {
                cta += 1;
            }
        }
        lists
    }
}
