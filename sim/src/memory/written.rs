//! Which bytes of an allocation somebody has written.

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

/// A bit for each byte, until all are written.
#[derive(Clone, Default)]
pub(crate) struct Written(Option<Box<[u64]>>);

impl Written {
    /// None of `bytes` is written.
    pub fn none_of(bytes: usize) -> Self {
        Self((bytes > 0).then(|| {
            let mut bits = vec![0; bytes.div_ceil(BITS)].into_boxed_slice();
            // What lies behind the last byte counts as written.
            if let (Some(last), over @ 1..) = (bits.last_mut(), bytes % BITS) {
                *last = u64::MAX << over;
            }
            bits
        }))
    }

    /// These bytes are written.
    pub fn write(&mut self, range: Range<usize>) {
        let Some(bits) = &mut self.0 else { return };
        for (word, mask) in words(&range) {
            bits[word] |= mask;
        }
        // Most memory is written in one piece, before a kernel reads it.
        if range.start == 0 && bits.iter().all(|&word| word == u64::MAX) {
            self.0 = None;
        }
    }

    /// The first of these bytes that nobody has written.
    #[inline]
    pub fn first_missing(&self, range: Range<usize>) -> Option<usize> {
        let bits = self.0.as_ref()?;
        words(&range).find_map(|(word, mask)| {
            let missing = !bits[word] & mask;
            (missing != 0).then(|| word * BITS + missing.trailing_zeros() as usize)
        })
    }
}

/// The words that have the bits of a range, and those bits of each.
fn words(range: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *range;
    (start / BITS..end.div_ceil(BITS)).map(move |word| {
        let first = start.saturating_sub(word * BITS).min(BITS - 1);
        let behind = (end - word * BITS).min(BITS);
        (word, u64::MAX << first & u64::MAX >> (BITS - behind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bits_are_those_of_a_set(
            bytes in 0usize..300,
            writes in prop::collection::vec((0usize..300, 0usize..100), 0..20),
            reads in prop::collection::vec((0usize..300, 0usize..100), 20),
        ) {
            let within = |(start, len): (usize, usize)| {
                let start = start.min(bytes);
                start..(start + len).min(bytes)
            };
            let (mut written, mut set) = (Written::none_of(bytes), vec![false; bytes]);
            for range in writes.into_iter().map(within) {
                written.write(range.clone());
                set[range].fill(true);
            }
            for mut range in reads.into_iter().map(within) {
                prop_assert_eq!(written.first_missing(range.clone()), range.find(|&i| !set[i]));
            }
            written.write(0..bytes);
            prop_assert!(written.0.is_none());
        }
    }
}
