//! The mask: which keys a query sees.

use std::ops::Range;

/// A band of keys around the diagonal, which is aligned to the bottom right.
///
/// The diagonal of query `i` is key `i + seq_kv - seq_q`, so that the last query and the last key meet. The query
/// sees the keys from `left` before its diagonal to `right` behind it, and itself. `None` is no limit. These are the
/// numbers of flash-attention's `window_size`, where -1 is no limit.
///
/// ```
/// use warpipe_host::attention::Mask;
///
/// assert_eq!(Mask::FULL.keys(0, 4, 6), 0..6);
/// assert_eq!(Mask::CAUSAL.keys(0, 4, 6), 0..3);
/// // A sliding window: the key itself, and two before it.
/// assert_eq!(Mask::CAUSAL.window(2).keys(3, 4, 6), 3..6);
/// // With more queries than keys, the first ones see nothing.
/// assert!(Mask::CAUSAL.keys(1, 4, 2).is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Mask {
    /// Keys that a query sees before its diagonal.
    pub left: Option<u32>,
    /// Keys that a query sees behind its diagonal.
    pub right: Option<u32>,
}

impl Mask {
    /// Every query sees every key.
    pub const FULL: Self = Self { left: None, right: None };
    /// A query sees the keys up to its diagonal.
    pub const CAUSAL: Self = Self { left: None, right: Some(0) };

    /// The same mask with at most `left` keys before the diagonal.
    #[must_use]
    pub const fn window(self, left: u32) -> Self {
        Self { left: Some(left), ..self }
    }

    /// The keys that query `i` of a sequence sees, as one range. It may be empty.
    pub fn keys(&self, i: u32, seq_q: u32, seq_kv: u32) -> Range<u32> {
        self.keys_of_rows(i..i.saturating_add(1), seq_q, seq_kv)
    }

    /// From the first key to the last one that any query of `rows` sees.
    ///
    /// Both ends of a query's range grow with the query, so the ranges of neighbours leave no gap between them.
    pub fn keys_of_rows(&self, rows: Range<u32>, seq_q: u32, seq_kv: u32) -> Range<u32> {
        let (keys, shift) = (i64::from(seq_kv), i64::from(seq_kv) - i64::from(seq_q));
        if rows.is_empty() {
            return 0..0;
        }
        let (first, last) = (i64::from(rows.start) + shift, i64::from(rows.end) - 1 + shift);
        let start = self.left.map_or(0, |left| (first - i64::from(left)).clamp(0, keys));
        let end = self.right.map_or(keys, |right| (last + i64::from(right) + 1).clamp(0, keys));
        if start < end { start as u32..end as u32 } else { 0..0 }
    }

    /// Pairs of a query and a key that it sees.
    pub(crate) fn pairs(&self, seq_q: u32, seq_kv: u32) -> u64 {
        match self {
            Self { left: None, right: None } => u64::from(seq_q) * u64::from(seq_kv),
            _ => (0..seq_q).map(|i| self.keys(i, seq_q, seq_kv).len() as u64).sum(),
        }
    }
}

/// For example `causal, 128 keys before the diagonal`.
impl std::fmt::Display for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.left, self.right) {
            (None, None) => f.write_str("full"),
            (None, Some(0)) => f.write_str("causal"),
            (Some(left), Some(0)) => write!(f, "causal, {left} keys before the diagonal"),
            (left, right) => {
                let keys = |n: Option<u32>| n.map_or_else(|| "all".to_owned(), |n| n.to_string());
                write!(f, "{} keys before the diagonal, {} behind it", keys(left), keys(right))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mask;
    use proptest::prelude::*;

    /// The rule for one pair, as the documentation has it.
    fn sees(mask: Mask, i: i64, j: i64, seq_q: i64, seq_kv: i64) -> bool {
        let diagonal = i + seq_kv - seq_q;
        mask.left.is_none_or(|left| j >= diagonal - i64::from(left))
            && mask.right.is_none_or(|right| j <= diagonal + i64::from(right))
    }

    proptest! {
        #[test]
        fn a_range_is_the_pairs_one_by_one(
            left in proptest::option::of(0u32..12), right in proptest::option::of(0u32..12),
            seq_q in 1u32..14, seq_kv in 0u32..14, first in 0u32..14, rows in 1u32..6,
        ) {
            let mask = Mask { left, right };
            let mut pairs = 0;
            for i in 0..seq_q {
                let right: Vec<u32> = (0..seq_kv)
                    .filter(|&j| sees(mask, i.into(), j.into(), seq_q.into(), seq_kv.into()))
                    .collect();
                pairs += right.len() as u64;
                prop_assert_eq!(mask.keys(i, seq_q, seq_kv).collect::<Vec<_>>(), right);
            }
            prop_assert_eq!(mask.pairs(seq_q, seq_kv), pairs);
            let of_rows = mask.keys_of_rows(first..first + rows, seq_q, seq_kv);
            let all: Vec<u32> =
                (first..first + rows).flat_map(|i| mask.keys(i, seq_q, seq_kv)).collect();
            let ends = all.iter().min().zip(all.iter().max()).map(|(&a, &b)| a..b + 1);
            prop_assert_eq!(of_rows, ends.unwrap_or(0..0));
        }
    }

    #[test]
    fn windows_wider_than_any_sequence() {
        let mask = Mask { left: Some(u32::MAX), right: Some(u32::MAX) };
        assert_eq!(mask.keys(u32::MAX - 1, u32::MAX, u32::MAX), 0..u32::MAX);
        assert_eq!(mask.keys(0, 1, u32::MAX), 0..u32::MAX);
    }

    #[test]
    fn in_words() {
        let words = |left, right| Mask { left, right }.to_string();
        assert_eq!(words(None, None), "full");
        assert_eq!(words(None, Some(0)), "causal");
        assert_eq!(words(Some(128), Some(0)), "causal, 128 keys before the diagonal");
        assert_eq!(words(Some(9), None), "9 keys before the diagonal, all behind it");
    }
}
