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

/// What each thread of the cluster holds.
pub(crate) struct Tokens(Vec<Vec<Token>>);

impl Tokens {
    pub fn new(threads: u32) -> Self {
        Self(vec![Vec::new(); threads as usize])
    }

    /// A thread takes one; which it holds already is the same.
    pub fn take(&mut self, t: u32, token: Token) {
        let held = &mut self.0[t as usize];
        if !held.iter().any(|h| h.at == token.at) {
            held.push(token);
        }
    }

    /// A thread gives one back.
    pub fn give(&mut self, t: u32, at: u32) {
        self.0[t as usize].retain(|h| h.at != at);
    }

    /// What a thread holds.
    pub fn of(&self, t: u32) -> &[Token] {
        &self.0[t as usize]
    }

    /// What is left when these threads have returned.
    pub fn left_over<'a>(
        &self,
        mut threads: impl Iterator<Item = (u32, Option<&'a str>)>,
    ) -> Option<(Fault, Option<Loc>)> {
        threads.find_map(|(t, role)| {
            let token = self.0[t as usize].first()?;
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
        assert_eq!(tokens.of(1), [slot(1040, 2)]);
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
