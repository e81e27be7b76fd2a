//! The period of a family of words: of the records of one kernel with 1, 2, 3, … steps.
//!
//! A family has the period `p` if each word, from some number of steps on, is the one for `p` fewer
//! steps with one body more at the cut: `prefix body^k suffix`. The marks tell whether the machine is in
//! the same state wherever a body ends.

use super::record::Mark;

/// The period of a cluster's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// Events before the first body: the same in all words.
    pub cut: usize,
    /// Events of a body; 0 if all words are the same.
    pub body: usize,
    /// Bodies of every word among the last `p`, at least.
    pub bodies: usize,
    /// The shortest word that has the period, by its place in the family.
    pub first: usize,
}

impl Period {
    /// The end of the `n`th body.
    pub fn end(&self, n: usize) -> usize {
        self.cut + n * self.body
    }
}

/// Looks for the period `p` in a family of words; `marks` are those of the last word. At least `2 p`
/// pairs of words must have it, and as many as there are shorter words without it.
pub(crate) fn find(words: &[&[u64]], marks: &[Mark], p: usize) -> Option<Period> {
    let last = words.len().checked_sub(1)?;
    if p == 0 || last < 3 * p {
        return None;
    }
    let longest = words[last];
    let body = longest.len().checked_sub(words[last - p].len())?;
    // What came before the first is no longer than what followed it without an exception.
    let accepted = |first: &usize| first + (3 * p).max(*first) <= last;
    if body == 0 {
        let first = first_of(last - p, |n| words[n] == words[n + p]);
        let all_same = words[last - p..].iter().all(|word| *word == longest);
        let constant = |first| Period { cut: 0, body: 0, bodies: 0, first };
        return Some(first).filter(accepted).filter(|_| all_same).map(constant);
    }
    marks.iter().find_map(|mark| {
        let cut = mark.at;
        let one = longest.get(cut..cut + body)?;
        let bodies = |word: &[u64]| {
            word.get(cut..)
                .map_or(0, |rest| rest.chunks_exact(body).take_while(|b| *b == one).count())
        };
        let inserted = |n: usize| {
            let (short, long) = (words[n], words[n + p]);
            long.len() == short.len() + body
                && short.get(..cut).is_some_and(|prefix| *prefix == long[..cut])
                && long[cut..cut + body] == *one
                && long[cut + body..] == short[cut..]
        };
        // The state recurs at the end of every body.
        let same = |n: &usize| {
            let at = cut + n * body;
            marks.binary_search_by_key(&at, |m| m.at).is_ok_and(|i| marks[i].state == mark.state)
        };
        let recurs = (0..=bodies(longest)).take_while(same).count();
        let least = words[last + 1 - p..].iter().map(|word| bodies(word)).min()?;
        let bodies = least.min(recurs.saturating_sub(1));
        if bodies < 2 {
            return None;
        }
        let first = first_of(last - p, inserted);
        Some(Period { cut, body, bodies, first }).filter(|period| accepted(&period.first))
    })
}

/// The first of the numbers up to `last` from which on all are good; `last + 1` if that one is not.
fn first_of(last: usize, good: impl Fn(usize) -> bool) -> usize {
    (0..=last).rev().take_while(|&n| good(n)).last().unwrap_or(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words for 1 to `n` steps, from the letters of each step; step `s` of `n` is `step(s, n)`. A mark
    /// stands after every step, with the state `state(s)`.
    fn family(
        n: usize,
        step: impl Fn(usize, usize) -> String,
        state: impl Fn(usize) -> u64,
    ) -> (Vec<Vec<u64>>, Vec<Mark>) {
        let mut marks = Vec::new();
        let words = (1..=n).map(|steps| {
            let mut word: Vec<u64> = vec![u64::from(b'<')];
            marks.clear();
            for s in 0..steps {
                marks.push(Mark { at: word.len(), state: vec![state(s)] });
                word.extend(step(s, steps).bytes().map(u64::from));
            }
            word.push(u64::from(b'>'));
            word
        });
        (words.collect(), marks)
    }

    fn smallest((words, marks): &(Vec<Vec<u64>>, Vec<Mark>)) -> Option<(usize, Period)> {
        let words: Vec<&[u64]> = words.iter().map(Vec::as_slice).collect();
        (1..=words.len()).find_map(|p| Some((p, find(&words, marks, p)?)))
    }

    #[test]
    fn a_ring_has_the_period_of_its_parity() {
        // Three stages, and the parity that each wrap changes.
        let step = |s: usize, _| format!("a{}{}", s % 3, s / 3 % 2);
        let (p, period) = smallest(&family(30, step, |s| (s % 6) as u64)).unwrap();
        assert_eq!((p, period.cut, period.body, period.first), (6, 1, 18, 0));
        assert_eq!(period.bodies, 4, "25 steps, the fewest of the last six words, are four bodies");
    }

    #[test]
    fn the_state_must_recur_too() {
        let step = |s: usize, _| format!("a{}", s % 2);
        assert_eq!(smallest(&family(40, step, |s| (s % 4) as u64)).unwrap().0, 4);
        assert_eq!(smallest(&family(40, step, |s| s as u64)), None, "something grows");
    }

    #[test]
    fn a_prologue_and_an_epilogue_of_some_steps_are_no_obstacle() {
        let step = |s: usize, n: usize| match (s, n - s) {
            (0..=2, _) => "p".to_owned(),
            (_, 1..=2) => "eee".to_owned(),
            _ => "b".to_owned(),
        };
        let (p, period) = smallest(&family(30, step, |s| s.min(3) as u64)).unwrap();
        assert_eq!((p, period.body), (1, 1));
        assert_eq!(
            period.first, 4,
            "five steps: the three of the prologue and the two of the epilogue"
        );
    }

    #[test]
    fn what_happens_once_moves_the_start() {
        let step = |s: usize, _| if s == 7 { "x".to_owned() } else { "a".to_owned() };
        let (p, period) = smallest(&family(20, step, |_| 0)).unwrap();
        assert_eq!((p, period.cut), (1, 9), "behind the eighth step");
        // With too few words behind it, nothing can be said.
        assert_eq!(smallest(&family(10, step, |_| 0)), None);
    }

    #[test]
    fn a_word_that_differs_at_its_end_breaks_the_period() {
        // Every eleventh number of steps ends in another way.
        let step = |s: usize, n: usize| {
            format!("a{}", if s + 1 == n && n.is_multiple_of(11) { "!" } else { "" })
        };
        assert_eq!(smallest(&family(32, step, |_| 0)), None);
        let (p, _) = smallest(&family(60, step, |_| 0)).unwrap();
        assert_eq!(p, 11);
    }

    #[test]
    fn a_cluster_without_work_has_any_period() {
        let (p, period) = smallest(&family(16, |_, _| String::new(), |_| 0)).unwrap();
        assert_eq!((p, period.body), (1, 0));
    }
}
