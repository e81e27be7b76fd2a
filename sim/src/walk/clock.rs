//! Vector clocks: what of each agent's past an event knows.

/// One count of transitions for each agent, by its number; absent ones are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// The agent's transitions that are in this past.
    pub fn get(&self, agent: u32) -> u32 {
        self.0.get(agent as usize).copied().unwrap_or(0)
    }

    /// Counts one more transition of the agent; gives its number.
    pub fn tick(&mut self, agent: u32) -> u32 {
        let i = agent as usize;
        if self.0.len() <= i {
            self.0.resize(i + 1, 0);
        }
        self.0[i] += 1;
        self.0[i]
    }

    /// Adds another past to this one; says whether that was news.
    pub fn join(&mut self, other: &Self) -> bool {
        let mut news = false;
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            news |= *b > *a;
            *a = (*a).max(*b);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_both_pasts() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.tick(0);
        b.tick(3);
        assert_eq!(b.tick(3), 2);
        assert!(a.join(&b) && !a.join(&b));
        assert_eq!([a.get(0), a.get(1), a.get(3), a.get(9)], [1, 0, 2, 0]);
        b.join(&Clock::default());
        assert_eq!(b.get(0), 0);
    }
}
