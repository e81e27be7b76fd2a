//! How the columns of an accumulator are divided into epilogue tiles.
#![forbid(unsafe_code)]

use pipeline::mma::GROUP_ROWS;

/// The step of a tile's width: the N of `wgmma` is a multiple of 8.
const STEP: usize = 8;
/// Columns of a fragment.
pub(super) const FRAGMENT_COLS: usize = 16;

/// Columns of D, divided into epilogue tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    all: usize,
    tile: usize,
}

impl Columns {
    pub(super) const fn new(all: usize, tile: usize) -> Self {
        assert!(
            all >= tile && tile.is_multiple_of(FRAGMENT_COLS) && all.is_multiple_of(STEP),
            "a tile has a multiple of 8 columns, and no fewer than an epilogue tile, which has a multiple of 16"
        );
        Self { all, tile }
    }

    #[isa::forceinline]
    pub(super) const fn count(self) -> usize {
        self.all.div_ceil(self.tile)
    }

    #[isa::forceinline]
    pub(super) const fn is_whole(self) -> bool {
        self.all.is_multiple_of(self.tile)
    }

    #[isa::forceinline]
    pub(super) const fn column(self, index: usize) -> usize {
        match (self.is_whole(), index) {
            (true, _) => index * self.tile,
            (false, 0) => self.all - self.tile,
            (false, _) => (index - 1) * self.tile,
        }
    }
}

/// Columns of the tile that one TMA store of [`SwapAb`](super::output::SwapAb) writes. A store buffer has 64 rows.
#[must_use]
pub const fn swapped_columns(columns: usize) -> usize {
    columns.div_ceil(columns.div_ceil(GROUP_ROWS)).next_multiple_of(FRAGMENT_COLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of a tile of `all`, with the number of epilogue tiles that have each.
    fn stored(columns: Columns, all: usize) -> Vec<usize> {
        let mut stored = vec![0; all];
        for index in 0..columns.count() {
            for times in stored.iter_mut().skip(columns.column(index)).take(columns.tile) {
                *times += 1;
            }
        }
        stored
    }

    #[test]
    fn every_width_of_wgmma_is_covered() {
        for tile in [16, 32, 48, 64] {
            for all in (tile..=256).step_by(STEP) {
                let columns = Columns::new(all, tile);
                let stored = stored(columns, all);
                assert!(
                    stored.iter().all(|times| (1..=2).contains(times)),
                    "{all} by {tile}: {stored:?}"
                );
                // Only the first and the last epilogue tile overlap: the last one waits for the first.
                let last = columns.count() - 1;
                for index in (1..last).filter(|_| !columns.is_whole()) {
                    assert!(columns.column(index) + tile <= columns.column(0), "{all} by {tile}");
                }
                assert_eq!(
                    columns.is_whole(),
                    stored.iter().all(|times| *times == 1),
                    "{all} by {tile}"
                );
                // A fragment begins where a thread's registers do.
                assert!(
                    (0..=last).all(|i| columns.column(i).is_multiple_of(STEP)),
                    "{all} by {tile}"
                );
            }
        }
    }

    #[test]
    fn swapped_tiles_fit_a_store_buffer() {
        for all in (16..=256).step_by(STEP) {
            let tile = swapped_columns(all);
            assert!(tile.is_multiple_of(FRAGMENT_COLS) && tile <= GROUP_ROWS, "{all}: {tile}");
            // No more stores than a full buffer each takes.
            assert_eq!(all.div_ceil(tile), all.div_ceil(GROUP_ROWS), "{all}: {tile}");
        }
    }
}
