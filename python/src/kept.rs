//! Plans that are kept for the next call of the same kind.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Most plans of a device that are kept, beside those of captures.
pub const PLANS: usize = 256;

/// Plans of a device: the last ones that were used, and all that a capture has used. The graph of a capture reads memory of
/// the plan each time it runs.
pub struct Kept<K, P> {
    entries: HashMap<K, Entry<P>>,
    /// Calls so far.
    clock: u64,
}

struct Entry<P> {
    plan: Arc<P>,
    used: u64,
    captured: bool,
}

impl<K, P> Default for Kept<K, P> {
    fn default() -> Self {
        Self { entries: HashMap::new(), clock: 0 }
    }
}

impl<K: Copy + Eq + Hash, P> Kept<K, P> {
    /// The plan of a product, for a use that is `captured` or not.
    pub fn get(&mut self, key: &K, captured: bool) -> Option<Arc<P>> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        entry.used = self.clock;
        entry.captured |= captured;
        Some(Arc::clone(&entry.plan))
    }

    /// Drops the plans that no capture has used.
    pub fn forget(&mut self) {
        self.entries.retain(|_, entry| entry.captured);
    }

    /// Keeps a plan, and drops the one that was used longest ago if there are [`PLANS`] that no capture has used. To drop one
    /// frees its memory, which a capture forbids: in one, nothing is dropped.
    pub fn insert(&mut self, key: K, plan: P, captured: bool) -> Arc<P> {
        let free = self.entries.iter().filter(|(_, entry)| !entry.captured);
        if !captured && free.clone().count() >= PLANS {
            let oldest = free.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
            oldest.and_then(|key| self.entries.remove(&key));
        }
        self.clock += 1;
        let plan = Arc::new(plan);
        let entry = Entry { plan: Arc::clone(&plan), used: self.clock, captured };
        self.entries.insert(key, entry);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_a_captured_one_never() {
        let mut kept = Kept::default();
        for key in 0..PLANS {
            kept.insert(key, key, false);
        }
        assert_eq!(kept.get(&0, true).as_deref(), Some(&0), "used by a capture");
        assert_eq!(kept.get(&1, false).as_deref(), Some(&1), "used after all others");
        // One place is free, because that of the capture does not count.
        for key in PLANS..2 * PLANS {
            kept.insert(key, key, false);
        }
        assert_eq!(kept.get(&0, false).as_deref(), Some(&0));
        assert!((1..PLANS).all(|key| kept.get(&key, false).is_none()));
        assert!((PLANS..2 * PLANS).all(|key| kept.get(&key, false).is_some()));
        // In a capture nothing is dropped.
        kept.insert(2 * PLANS, 7, true);
        kept.insert(2 * PLANS + 1, 8, true);
        assert_eq!(kept.entries.len(), PLANS + 3);
    }

    #[test]
    fn what_was_used_last_stays() {
        let mut kept = Kept::default();
        for key in 0..PLANS {
            kept.insert(key, (), false);
        }
        assert!(kept.get(&0, false).is_some());
        kept.insert(PLANS, (), false);
        assert!(kept.get(&0, false).is_some());
        assert!(kept.get(&1, false).is_none(), "the oldest");
        assert!(kept.get(&2, false).is_some());
    }
}
