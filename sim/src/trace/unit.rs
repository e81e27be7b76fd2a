//! A unit of the SM that does one thing at a time.

/// When it is busy: spans that neither touch nor overlap, ascending.
#[derive(Default)]
pub(crate) struct Unit {
    busy: Vec<(u64, u64)>,
}

impl Unit {
    /// Takes the first gap of `len` from `at` on; gives its begin.
    pub fn take(&mut self, at: u64, len: u64) -> u64 {
        let mut i = self.busy.partition_point(|&(_, until)| until <= at);
        let mut from = at;
        while let Some(&(next, until)) = self.busy.get(i) {
            if from + len <= next {
                break;
            }
            from = from.max(until);
            i += 1;
        }
        self.insert(i, from, from + len);
        from
    }

    /// Puts a span before the `i`th, as one with those that it touches.
    fn insert(&mut self, i: usize, from: u64, until: u64) {
        let after = self.busy.get(i).is_some_and(|&(next, _)| next == until);
        let before = i > 0 && self.busy[i - 1].1 == from;
        match (before, after) {
            (true, true) => {
                self.busy[i - 1].1 = self.busy[i].1;
                self.busy.remove(i);
            }
            (true, false) => self.busy[i - 1].1 = until,
            (false, true) => self.busy[i].0 = from,
            (false, false) => self.busy.insert(i, (from, until)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_first_gap_that_it_fits_into() {
        let mut unit = Unit::default();
        assert_eq!(unit.take(100, 50), 100);
        assert_eq!(unit.take(120, 50), 150, "after the one before it");
        assert_eq!(unit.take(0, 60), 0, "who comes earlier does not wait for the later");
        assert_eq!(unit.take(0, 60), 200, "the gap from 60 to 100 is too short");
        assert_eq!(unit.take(10, 40), 60);
        assert_eq!(unit.busy, [(0, 260)]);
    }
}
