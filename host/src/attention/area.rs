//! The bytes of a tensor, to see whether two tensors share some.

/// Most rows that are looked at one by one.
const MOST_ROWS: u64 = 1 << 22;

/// Rows of equal width, along up to three dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Area {
    addr: u64,
    /// Bytes of a row.
    width: u64,
    /// Size and stride of each dimension of rows, the smallest stride first.
    dimensions: Vec<(u64, u64)>,
}

impl Area {
    /// Rows of `width` bytes from `addr`, with the size and the stride in bytes of each dimension.
    pub fn new(addr: u64, width: u64, dimensions: &[(u64, u64)]) -> Self {
        let empty = width == 0 || dimensions.iter().any(|&(size, _)| size == 0);
        let mut rest = dimensions.to_vec();
        // Repeated rows are the same bytes.
        rest.retain(|&(size, stride)| size > 1 && stride > 0);
        rest.sort_by_key(|&(_, stride)| stride);
        let (mut width, mut dimensions): (u64, Vec<(u64, u64)>) = (width, Vec::new());
        for (size, stride) in rest {
            match dimensions.last_mut() {
                None if stride == width => width *= size,
                Some((inner, inner_stride)) if stride == *inner * *inner_stride => *inner *= size,
                _ => dimensions.push((size, stride)),
            }
        }
        Self { addr, width: if empty { 0 } else { width }, dimensions }
    }

    /// One past the last byte.
    fn end(&self) -> u64 {
        self.dimensions.iter().map(|(size, stride)| (size - 1) * stride).sum::<u64>()
            + self.addr
            + self.width
    }

    /// Whether some byte is in both. The rows of `self` do not overlap: each stride reaches behind all of the smaller
    /// ones. Of tensors with very many rows, which lie between each other's, that is not looked at row by row.
    pub fn meets(&self, other: &Self) -> bool {
        if self.width == 0 || other.width == 0 {
            return false;
        }
        if self.end() <= other.addr || other.end() <= self.addr {
            return false;
        }
        let rows = other.dimensions.iter().map(|(size, _)| size).product::<u64>();
        rows > MOST_ROWS || (0..rows).any(|row| self.has(other.row(row)))
    }

    /// First byte of a row, by its number.
    fn row(&self, mut number: u64) -> [u64; 2] {
        let mut start = self.addr;
        for &(size, stride) in &self.dimensions {
            start += number % size * stride;
            number /= size;
        }
        [start, start + self.width]
    }

    /// Whether a byte of a range is in it.
    fn has(&self, [from, to]: [u64; 2]) -> bool {
        // The last row that begins before the range's end.
        let Some(mut rest) = (to - 1).checked_sub(self.addr) else { return false };
        let mut start = self.addr;
        for &(size, stride) in self.dimensions.iter().rev() {
            let index = (rest / stride).min(size - 1);
            start += index * stride;
            rest -= index * stride;
        }
        start + self.width > from
    }
}

#[cfg(test)]
mod tests {
    use super::Area;
    use proptest::prelude::*;
    use std::collections::HashSet;

    type Dimensions = Vec<(u64, u64)>;

    fn bytes(addr: u64, width: u64, dimensions: &Dimensions) -> HashSet<u64> {
        let mut starts = vec![addr];
        for &(size, stride) in dimensions {
            starts = (0..size).flat_map(|i| starts.iter().map(move |s| s + i * stride)).collect();
        }
        starts.into_iter().flat_map(|start| start..start + width).collect()
    }

    /// Dimensions whose rows do not overlap, in any order.
    fn nested(width: u64, gaps: [(u64, u64); 3], turn: usize) -> Dimensions {
        let mut within = width;
        let mut dimensions: Dimensions = Vec::new();
        for (size, gap) in gaps {
            let stride = within + gap;
            within += (size - 1) * stride;
            dimensions.push((size, stride));
        }
        dimensions.rotate_left(turn);
        dimensions
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn as_byte_by_byte(
            width in 1u64..4, gaps: [(u8, u8); 3], turn in 0usize..3,
            other in (100u64..260, 0u64..4, any::<[(u8, u8); 3]>()),
        ) {
            let small = |(size, gap): (u8, u8)| (1 + u64::from(size % 3), u64::from(gap % 5));
            let own = nested(width, gaps.map(small), turn);
            let theirs: Dimensions =
                other.2.iter().map(|&(size, s)| (u64::from(size % 4), u64::from(s % 24))).collect();
            let (a, b) = (Area::new(180, width, &own), Area::new(other.0, other.1, &theirs));
            let right = !bytes(180, width, &own).is_disjoint(&bytes(other.0, other.1, &theirs));
            prop_assert_eq!(a.meets(&b), right, "{:?} {:?}", own, theirs);
        }
    }

    #[test]
    fn interleaved_tensors_are_apart() {
        // [B, S, 4, H, D]: the fourth is O.
        let of = |i: u64| Area::new(1000 + i * 512, 256, &[(2, 8192), (2, 256), (4, 2048)]);
        assert!((0..3).all(|i| !of(3).meets(&of(i))));
        assert!(of(3).meets(&of(3)));
        assert_eq!(
            of(0).dimensions,
            [(8, 2048)],
            "heads join their row, and sequences their batch"
        );
    }
}
