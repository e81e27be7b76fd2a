//! Number and lengths of the sequences.

use super::error::AttentionError;
use gpu_kernels::attention::sequences::Extent;

/// Most rows of a tensor in the dimension of its sequences. Kernels add rows and window sizes in `i32`.
const MAX_ROWS: u32 = 1 << 29;
/// Rows of a page are a multiple of this: no block of keys lies in two pages.
const PAGE_UNIT: u32 = 64;

/// Number and lengths of the sequences of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Sequences {
    /// Sequences of equal lengths.
    Equal {
        /// Number of sequences.
        batch: u32,
        /// Queries of each.
        q: u32,
        /// Keys of each.
        kv: u32,
    },
    /// Sequences of any lengths, one behind the other in one tensor. Element `b` of a list is the first row of
    /// sequence `b`, and the last element is the number of all rows (flash-attention's `cu_seqlens`). A sequence may
    /// have no queries, or no keys.
    Packed {
        /// Where the queries of each sequence begin.
        q: Vec<u32>,
        /// Where the keys of each sequence begin.
        kv: Vec<u32>,
    },
    /// Queries with a cache of keys: K and V have room for `capacity` rows of each sequence, and it has its keys in
    /// the first ones (`flash_attn_with_kvcache`'s `cache_seqlens`). What lies behind them is not used.
    Cache {
        /// Queries of each sequence.
        q: u32,
        /// Keys of each sequence.
        keys: Vec<u32>,
        /// Rows of K and V for each sequence.
        capacity: u32,
    },
    /// The same with a cache in pages: K and V are [`pages`, `page_rows`] rows, and key j of sequence b is row j mod
    /// `page_rows` of page `block_table[b][j / page_rows]`.
    Paged {
        /// Queries of each sequence.
        q: u32,
        /// Keys of each sequence.
        keys: Vec<u32>,
        /// Pages of K and V.
        pages: u32,
        /// Rows of a page: a multiple of 64.
        page_rows: u32,
        /// Pages of a sequence in the block table.
        sequence_pages: u32,
    },
}

impl Sequences {
    /// Packed sequences of the given lengths, `[queries, keys]` each.
    ///
    /// A sum beyond 2^32-1 stays there, and [`AttentionProblem::check`](super::AttentionProblem::check) refuses it.
    pub fn packed(lengths: impl IntoIterator<Item = [u32; 2]>) -> Self {
        let (mut q, mut kv) = (vec![0], vec![0]);
        let (mut end_q, mut end_kv) = (0u32, 0u32);
        for [queries, keys] in lengths {
            end_q = end_q.saturating_add(queries);
            end_kv = end_kv.saturating_add(keys);
            q.push(end_q);
            kv.push(end_kv);
        }
        Self::Packed { q, kv }
    }

    /// Number of sequences.
    pub fn batch(&self) -> u32 {
        match self {
            Self::Equal { batch, .. } => *batch,
            Self::Packed { q, .. } => q.len().saturating_sub(1) as u32,
            Self::Cache { keys, .. } | Self::Paged { keys, .. } => keys.len() as u32,
        }
    }

    /// Queries and keys of sequence `b`; none if there is no such sequence.
    pub fn lengths(&self, b: u32) -> [u32; 2] {
        match self {
            Self::Equal { q, kv, .. } => [*q, *kv],
            Self::Packed { q, kv } => [q, kv].map(|starts| match starts.get(b as usize..) {
                Some([start, end, ..]) => end.saturating_sub(*start),
                _ => 0,
            }),
            Self::Cache { q, keys, .. } | Self::Paged { q, keys, .. } => {
                keys.get(b as usize).map_or([0, 0], |&keys| [*q, keys])
            }
        }
    }

    /// Keys of all sequences.
    pub fn keys(&self) -> u64 {
        (0..self.batch()).map(|b| u64::from(self.lengths(b)[1])).sum()
    }

    /// The batch, and the first rows in Q and in K, of sequence `b` in its tensors. The keys of a paged cache are where
    /// the block table says.
    pub fn first_rows(&self, b: u32) -> (u32, [u32; 2]) {
        match self {
            Self::Equal { .. } | Self::Cache { .. } | Self::Paged { .. } => (b, [0, 0]),
            Self::Packed { q, kv } => {
                (0, [q, kv].map(|starts| starts.get(b as usize).copied().unwrap_or(0)))
            }
        }
    }

    /// Rows of Q and of K in their tensors: a sequence's, those of all packed sequences, or those of a page.
    pub fn rows(&self) -> [u32; 2] {
        match self {
            Self::Equal { q, kv, .. } => [*q, *kv],
            Self::Cache { q, capacity, .. } => [*q, *capacity],
            Self::Paged { q, page_rows, .. } => [*q, *page_rows],
            Self::Packed { q, kv } => [q, kv].map(|starts| starts.last().copied().unwrap_or(0)),
        }
    }

    /// Queries and keys of a sequence of equal lengths, or the most that a packed one has.
    pub(super) fn longest(&self) -> [u32; 2] {
        let lengths = (0..self.batch()).map(|b| self.lengths(b));
        lengths.fold([0, 0], |most, own| [0, 1].map(|i| own[i].max(most[i])))
    }

    /// The words of [`gpu_kernels::attention::Packed::table`], for packed sequences.
    pub(super) fn table(&self) -> Option<Vec<u32>> {
        let Self::Packed { q, kv } = self else { return None };
        let of = |(q, kv): (&[u32], &[u32])| Extent {
            q_end: q[1],
            queries: q[1] - q[0],
            kv_end: kv[1],
            keys: kv[1] - kv[0],
        };
        Some(q.windows(2).zip(kv.windows(2)).flat_map(|ends| of(ends).words()).collect())
    }

    /// Batches of Q and of K in their tensors: one for each sequence, one for all packed sequences, and one for each
    /// page.
    pub fn batches(&self) -> [u32; 2] {
        match self {
            Self::Equal { .. } | Self::Cache { .. } => [self.batch(); 2],
            Self::Packed { .. } => [1, 1],
            Self::Paged { pages, .. } => [self.batch(), *pages],
        }
    }

    /// Pages of a sequence in the block table; 0 without pages.
    pub fn sequence_pages(&self) -> u32 {
        match self {
            Self::Paged { sequence_pages, .. } => *sequence_pages,
            _ => 0,
        }
    }

    /// Whether only the decode kernels compute them.
    pub(super) fn cached(&self) -> bool {
        matches!(self, Self::Cache { .. } | Self::Paged { .. })
    }

    /// Most keys that a sequence may have.
    pub(super) fn capacity(&self) -> u64 {
        match self {
            Self::Paged { page_rows, sequence_pages, .. } => {
                u64::from(*page_rows) * u64::from(*sequence_pages)
            }
            _ => u64::from(self.rows()[1]),
        }
    }

    /// Checks number and lengths.
    pub(super) fn check(&self, most: u32) -> Result<(), AttentionError> {
        if let Self::Packed { q, kv } = self {
            let lists = [("cu_seqlens_q", q), ("cu_seqlens_kv", kv)];
            for (what, list) in lists {
                check_starts(what, list)?;
            }
            if q.len() != kv.len() {
                return Err(AttentionError::Lists { q: q.len(), kv: kv.len() });
            }
        }
        let batch = self.batch();
        if batch == 0 || batch > most {
            return Err(AttentionError::Batch { batch, most });
        }
        let [seq_q, seq_kv] = self.rows();
        let pages = if let Self::Paged { pages, .. } = self { *pages } else { 1 };
        for (what, rows) in [("seq_q", seq_q), ("seq_kv", seq_kv), ("pages", pages)] {
            if rows == 0 || rows > MAX_ROWS {
                return Err(AttentionError::Length { what, rows });
            }
        }
        if let Self::Paged { page_rows, .. } = self
            && !page_rows.is_multiple_of(PAGE_UNIT)
        {
            return Err(AttentionError::PageRows { rows: *page_rows, unit: PAGE_UNIT });
        }
        if let Self::Cache { keys, .. } | Self::Paged { keys, .. } = self {
            self.check_keys(keys)?;
        }
        Ok(())
    }

    /// Checks the keys of cached sequences.
    pub(super) fn check_keys(&self, keys: &[u32]) -> Result<(), AttentionError> {
        let most = self.capacity().min(MAX_ROWS.into());
        let beyond = |&(_, &keys): &(usize, &u32)| u64::from(keys) > most;
        if let Some((sequence, &keys)) = keys.iter().enumerate().find(beyond) {
            return Err(AttentionError::Capacity { sequence, keys, most });
        }
        Ok(())
    }
}

/// Checks the starts of packed sequences.
fn check_starts(what: &'static str, starts: &[u32]) -> Result<(), AttentionError> {
    let [first, .., last] = *starts else {
        return Err(AttentionError::Starts { what, count: starts.len() });
    };
    if first != 0 {
        return Err(AttentionError::FirstStart { what, first });
    }
    if let Some(at) = starts.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, start) = (starts[at], starts[at + 1]);
        return Err(AttentionError::Descending { what, at: at + 1, start, before });
    }
    if last == 0 || last > MAX_ROWS {
        return Err(AttentionError::LastStart { what, last });
    }
    Ok(())
}
