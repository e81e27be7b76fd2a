//! What threads have taken and must give back: slots of rings, buffers, turns.
//!
//! The library that a kernel is written with says when a thread takes one and gives it back. The model
//! itself knows only barriers, and a slot that is kept changes none.

use crate::finding::fault::Fault;
use crate::finding::report::SourceLine;
use crate::finding::rule::Rule;
use crate::types::grid::SMEM_BASE;
use crate::types::loc::Loc;

/// Something that a thread holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// Tells it from the thread's others: the barrier on which it will arrive, or memory.
    pub at: u32,
    /// What it is, of what, and its number there.
    pub what: &'static str,
    pub name: &'static str,
    pub index: u32,
    /// What should be done with it.
    pub done: &'static str,
    /// Where it was taken.
    pub loc: Loc,
}

impl Token {
    /// What a report calls it, with who took it and where.
    pub fn says(&self, role: Option<&str>) -> String {
        let Self { what, name, index, .. } = self;
        let name = if name.is_empty() {
            format!("at base + {}", self.at.wrapping_sub(SMEM_BASE))
        } else {
            format!("`{name}`, stage {index}")
        };
        let by = role.map_or(String::new(), |role| format!(" by {role}"));
        format!("the {what} {name}, taken at {}{by}", SourceLine::from(self.loc))
    }
}

/// A token, and the threads that hold it: mostly whole warp groups take the same one in turn.
struct Holders {
    token: Token,
    /// A bit per thread of the cluster.
    threads: Box<[u64]>,
    /// How many hold it. Nobody: the place is free.
    count: u32,
}

impl Holders {
    fn has(&self, t: u32) -> bool {
        self.threads[t as usize / 64] >> (t % 64) & 1 == 1
    }
}

/// What the threads of the cluster hold.
pub(crate) struct Tokens {
    all: Vec<Holders>,
    threads: u32,
}

impl Tokens {
    pub fn new(threads: u32) -> Self {
        Self { all: Vec::new(), threads }
    }

    /// A thread takes one; which it holds already is the same.
    pub fn take(&mut self, t: u32, token: Token) {
        let mut place = None;
        for (i, h) in self.all.iter().enumerate() {
            if h.count == 0 {
                place = place.or(Some(i));
            } else if h.token.at == token.at {
                if h.has(t) {
                    return;
                }
                if h.token == token {
                    place = Some(i);
                }
            }
        }
        let place = place.unwrap_or_else(|| {
            let threads = vec![0; self.threads.div_ceil(64) as usize].into_boxed_slice();
            self.all.push(Holders { token, threads, count: 0 });
            self.all.len() - 1
        });
        let holders = &mut self.all[place];
        holders.token = token;
        holders.threads[t as usize / 64] |= 1 << (t % 64);
        holders.count += 1;
    }

    /// A thread gives one back.
    pub fn give(&mut self, t: u32, at: u32) {
        for h in self.all.iter_mut().filter(|h| h.count > 0 && h.token.at == at) {
            if h.has(t) {
                h.threads[t as usize / 64] &= !(1 << (t % 64));
                h.count -= 1;
            }
        }
    }

    /// What a thread holds.
    pub fn of(&self, t: u32) -> impl Iterator<Item = &Token> {
        self.all.iter().filter(move |h| h.has(t)).map(|h| &h.token)
    }

    /// What is left when these threads have returned.
    pub fn left_over<'a>(
        &self,
        mut threads: impl Iterator<Item = (u32, Option<&'a str>)>,
    ) -> Option<(Fault, Option<Loc>)> {
        threads.find_map(|(t, role)| {
            let token = self.of(t).next()?;
            let message = format!("{} was never {}", token.says(role), token.done);
            Some((Fault::new(Rule::LostToken, message), Some(token.loc)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn what_is_not_given_back_is_left() {
        let mut tokens = Tokens::new(2);
        let loc = Location::caller();
        let slot =
            |at, index| Token { at, what: "slot", name: "ring", index, done: "released", loc };
        tokens.take(1, slot(1032, 1));
        tokens.take(1, slot(1040, 2));
        tokens.take(1, slot(1032, 1));
        tokens.give(1, 1032);
        assert!(tokens.of(1).eq(&[slot(1040, 2)]));
        let all = || [(0, None), (1, Some("Math"))].into_iter();
        let (fault, at) = tokens.left_over(all()).unwrap();
        assert_eq!(at, Some(loc));
        let says = "the slot `ring`, stage 2, taken at ";
        assert!(fault.message.starts_with(says), "{}", fault.message);
        assert!(fault.message.ends_with(" by Math was never released"), "{}", fault.message);
        tokens.give(1, 1040);
        assert!(tokens.left_over(all()).is_none());
    }
}
