//! Registers that wgmmas in flight write or read: accumulators, and fragments of A.
//!
//! From the issue of a wgmma until a `wait_group` covers it, no other instruction may touch these
//! registers. So the model keeps what belongs into them, and leaves patterns there: signalling NaNs
//! that name the accumulation and the element. Moving a pattern does not change it, and arithmetic
//! makes it a quiet NaN with the same name, on x86 and on Arm. So a pattern that an instruction is
//! given was used too early, and one that has changed was written too early. The next wgmma on the
//! registers knows its pattern and adds to what is kept. `fence_operand` after the wait puts the
//! values back.
//!
//! An A fragment that was written as a whole has no pattern left. So the model remembers where a wgmma found the
//! fragment, until it is given back. Other values at this address are a suspicion only: the fragment may have been moved
//! before, and another one made in its place. If it has not been given back when the thread returns, it was not moved.
//!
//! What leaves no value behind is not seen: a comparison with a pattern, `max`, integer arithmetic (so also of sums of
//! integers), and an accumulator that is written as a whole.
//!
//! PTX manual, *wgmma.mma_async* and *wgmma.fence*.

use super::pool::{Kept, Look, Name, Pool, named};
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::{Loc, same_line};

/// The type of sums: `f32`, or `i32` for those of 8-bit integers.
pub trait Sum: Copy + sealed::Sealed {}
impl Sum for f32 {}
impl Sum for i32 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
}

/// The bits of sums, which is how the model keeps them.
pub(crate) fn bits<S: Sum>(d: &mut [S]) -> &mut [u32] {
    // SAFETY: `f32` and `i32` have the size and the alignment of `u32`, and no bits that are not a value.
    unsafe { std::slice::from_raw_parts_mut(d.as_mut_ptr().cast(), d.len()) }
}

/// Registers of A that a wgmma reads, until they are given back.
struct Source {
    addr: usize,
    loc: Loc,
    values: [u32; 4],
    group: u64,
    /// What is kept of them.
    kept: Kept,
}

/// Where a source's registers were found with other values.
struct Rewritten {
    kept: Kept,
    /// What is found if they are never given back.
    fault: Fault,
    loc: Loc,
}

/// What a thread has waited for, and what its wgmmas read.
#[derive(Default)]
struct Member {
    /// The last wgmma group that a wait of its own covers.
    retired: u64,
    sources: Vec<Source>,
    rewritten: Vec<Rewritten>,
    /// Addresses of registers that `fence_operand` has seen and no wgmma has taken since, so that the
    /// compiler writes them no later; and whether a `wgmma.fence` has followed.
    pinned: Vec<(usize, bool)>,
}

/// Registers that a thread pins at most, and the most sources of it: the oldest are forgotten.
const PINNED: usize = 64;

impl Member {
    fn pin(&mut self, addr: usize) {
        self.pinned.retain(|p| p.0 != addr);
        if self.pinned.len() == PINNED {
            self.pinned.remove(0);
        }
        self.pinned.push((addr, false));
    }

    /// Where the source at an address is.
    fn source(&self, addr: usize) -> Option<usize> {
        self.sources.iter().position(|s| s.addr == addr)
    }

    /// Remembers a source, in place of the one that is there, which has the same address.
    fn put(&mut self, at: Option<usize>, source: Source) {
        if let Some(at) = at {
            self.sources[at] = source;
            return;
        }
        if self.sources.len() == PINNED {
            self.sources.remove(0);
        }
        self.sources.push(source);
    }

    /// A source has been given back, so its registers were moved and not written.
    fn give_back(&mut self, kept: Kept) {
        if let Some(at) = self.sources.iter().position(|s| s.kept == kept) {
            self.sources.swap_remove(at);
        }
        if !self.rewritten.is_empty() {
            self.rewritten.retain(|r| r.kept != kept);
        }
    }

    /// An instruction at `loc` has found `values` in place of a source's pattern: the registers were written, or moved
    /// before. `waited` says what is wrong if the thread has waited for the wgmma.
    fn suspect(&mut self, source: usize, values: &[u32; 4], loc: Loc, waited: (Rule, &str)) {
        let (source, retired) = (&self.sources[source], self.retired);
        if source.values == *values || self.rewritten.len() == PINNED {
            return;
        }
        let group = source.group;
        let (rule, when) = if group > retired {
            let rule = Rule::RegistersInFlight;
            (rule, format!("its waits cover group {retired} and those before"))
        } else {
            (waited.0, waited.1.to_owned())
        };
        let text = format!(
            "a fragment of A has been written as a whole, and a wgmma of group {group} of the thread reads it: {when}"
        );
        let fault = Fault::new(rule, text).against("the wgmma that reads it", source.loc);
        self.rewritten.push(Rewritten { kept: source.kept, fault, loc });
    }

    /// Whether registers were pinned before a `wgmma.fence`, and none of the thread's own accesses to
    /// them can have followed.
    fn unpin(&mut self, addr: usize) -> bool {
        let at = self.pinned.iter().position(|p| p.0 == addr);
        at.is_some_and(|at| self.pinned.swap_remove(at).1)
    }
}

/// The registers of a warp group that its wgmmas hold.
pub(crate) struct Held {
    members: Vec<Member>,
    /// Threads that have executed `wgmma.fence` since they started, or got registers back.
    fenced: u128,
    accumulators: Pool,
    fragments: Pool,
}

impl Held {
    /// Those of a CTA's warp groups.
    pub fn all(block_threads: u32) -> Vec<Self> {
        let group = |_| Self {
            members: Vec::new(),
            fenced: 0,
            accumulators: Pool::new(false),
            fragments: Pool::new(true),
        };
        (0..block_threads.div_ceil(128)).map(group).collect()
    }

    /// The protocol state: what wgmmas in flight hold, as groups before the open one, and which threads have
    /// waited and fenced how far.
    pub fn protocol(&self, open: u64, f: &mut impl FnMut(u64)) {
        if self.members.is_empty() && self.fenced == 0 {
            return;
        }
        f(self.fenced as u64);
        f((self.fenced >> 64) as u64);
        let retired = self.members.iter().map(|m| m.retired).min().unwrap_or(0);
        for m in &self.members {
            f((open - m.retired) << 32 | m.pinned.iter().filter(|p| p.1).count() as u64);
            f((m.pinned.len() | m.rewritten.len() << 32) as u64);
            let sources = m.sources.iter().filter(|s| s.group > m.retired);
            sources.for_each(|s| f((open - s.group) << 32 | u64::from(s.loc.line())));
        }
        self.accumulators.protocol((open, retired), f);
        self.fragments.protocol((open, retired), f);
    }

    fn member(&mut self, t: usize) -> &mut Member {
        if self.members.is_empty() {
            self.members.resize_with(128, Member::default);
        }
        &mut self.members[t]
    }

    fn retired(&self, t: usize) -> u64 {
        self.members.get(t).map_or(0, |m| m.retired)
    }

    /// `wgmma.fence` by thread `t` of the group.
    pub fn fence(&mut self, t: usize) {
        self.fenced |= 1 << t;
        if let Some(member) = self.members.get_mut(t) {
            member.pinned.iter_mut().for_each(|p| p.1 = true);
        }
    }

    /// A `wait_group` of thread `t` covers its groups up to one.
    pub fn waited(&mut self, t: usize, retired: u64) {
        let member = self.member(t);
        member.retired = member.retired.max(retired);
    }

    fn check_fence(&self, t: usize, what: &str) -> Result<(), Fault> {
        if self.fenced >> t & 1 == 1 {
            return Ok(());
        }
        let since = if self.accumulators.any_taken(t) || self.fragments.any_taken(t) {
            "the last fence_operand gave it registers back"
        } else {
            "it started"
        };
        Err(Fault::new(
            Rule::RegistersUnfenced,
            format!(
                "the wgmma takes {what} that the thread itself has written, and the thread has \
                 executed no wgmma.fence since {since}: put one before the batch"
            ),
        ))
    }

    /// Thread `t` gives four registers of A to a wgmma of a group: what they hold for it. From here on
    /// they hold patterns.
    pub fn read(
        &mut self,
        t: usize,
        a: &mut [u32; 4],
        (loc, group): (Loc, u64),
    ) -> Result<[u32; 4], Fault> {
        let addr = a.as_ptr() as usize;
        match self.fragments.look(t, a) {
            Look::Whole(slot) => {
                let kept = self.fragments.kept(slot);
                let values: &[u32] = self.fragments.again(slot, t, (loc, group));
                let values = values.try_into().expect("four registers");
                let sources = self.member(t).sources.iter_mut();
                sources.filter(|s| s.kept == kept).for_each(|s| s.group = group);
                return Ok(values);
            }
            Look::Part(i) => {
                let name = named(a[i]).expect("it was found");
                return Err(self.changed("a fragment of A", name, t));
            }
            Look::Not => {}
        }
        a.iter().try_for_each(|&bits| self.used(t, bits))?;
        let values = *a;
        let member = self.member(t);
        let known = member.source(addr);
        if let Some(at) = known {
            let s = &member.sources[at];
            if s.group > member.retired && same_line(s.loc, loc) && s.values != values {
                return Err(Fault::new(
                    Rule::RegistersInFlight,
                    format!(
                        "A's registers have been written again, and a wgmma of group {} of the thread may \
                         still read them: its waits cover group {} and those before. Wait first, or \
                         give each wgmma of a batch a fragment of its own",
                        s.group, member.retired
                    ),
                )
                .against("the wgmma that reads them", s.loc));
            }
            let waited = "it has waited, but no fence_fragment followed the wait: the compiler may move the write above it";
            member.suspect(at, &values, loc, (Rule::RegistersUnfenced, waited));
        }
        if !member.unpin(addr) {
            self.check_fence(t, "a fragment of A")?;
        }
        let members = &self.members;
        let over = |g| members.iter().all(|m| m.retired >= g);
        let slot = self.fragments.keep(t, a, (loc, group), over);
        let kept = self.fragments.kept(slot);
        self.member(t).put(known, Source { addr, loc, values, group, kept });
        Ok(values)
    }

    /// All threads have come to a wgmma of a group. `add` adds its product to accumulators, or replaces
    /// them: those of the threads from one on, which it gets with their values.
    pub fn issued(&mut self, at: (Loc, u64), add: impl FnMut(usize, &mut [u32])) {
        self.accumulators.issued(at, add);
        self.fragments.issued(at, |_, _| ());
    }

    /// Thread `t` comes to a wgmma of a group with its accumulator `d`, which the wgmma replaces without
    /// `scale_d`. The accumulator holds patterns from here on.
    pub fn write(
        &mut self,
        t: usize,
        d: &mut [u32],
        scale_d: bool,
        at: (Loc, u64),
    ) -> Result<(), Fault> {
        match self.accumulators.look(t, d) {
            Look::Whole(slot) => {
                self.accumulators.come(slot, t);
                return Ok(());
            }
            Look::Part(i) if scale_d => {
                let name = named(d[i]).expect("it was found");
                return Err(self.changed("an accumulator", name, t));
            }
            Look::Part(_) | Look::Not => {}
        }
        // An accumulator that is as it was given back has not been written.
        let pinned = self.member(t).unpin(d.as_ptr() as usize);
        if self.fenced >> t & 1 == 0 && !pinned && !self.accumulators.unchanged(t, d) {
            self.check_fence(t, "an accumulator")?;
        }
        let members = &self.members;
        let slot = self.accumulators.keep(t, d, at, |g| members.iter().all(|m| m.retired >= g));
        self.accumulators.come(slot, t);
        Ok(())
    }

    /// `fence_operand`: puts values back into an accumulator that no wgmma writes any more.
    pub fn give_back(&mut self, t: usize, d: &mut [u32]) -> Result<(), Fault> {
        let retired = self.retired(t);
        match self.accumulators.look(t, d) {
            Look::Not => self.member(t).pin(d.as_ptr() as usize),
            Look::Part(i) => {
                let name = named(d[i]).expect("it was found");
                return Err(self.changed("an accumulator", name, t));
            }
            Look::Whole(slot) if self.accumulators.group(slot) <= retired => {
                self.accumulators.take(slot, t, d);
                self.fenced &= !(1 << t);
            }
            Look::Whole(_) => {}
        }
        Ok(())
    }

    /// The same of a fragment of A that no wgmma reads any more.
    pub fn give_back_fragment(
        &mut self,
        t: usize,
        a: &mut [u32; 4],
        loc: Loc,
    ) -> Result<(), Fault> {
        let retired = self.retired(t);
        let addr = a.as_ptr() as usize;
        match self.fragments.look(t, a) {
            Look::Part(i) => {
                let name = named(a[i]).expect("it was found");
                return Err(self.changed("a fragment of A", name, t));
            }
            Look::Whole(slot) if self.fragments.group(slot) <= retired => {
                let kept = self.fragments.kept(slot);
                self.fragments.take(slot, t, a);
                self.fenced &= !(1 << t);
                self.member(t).give_back(kept);
            }
            Look::Not => {
                let member = self.member(t);
                if let Some(at) = member.source(addr) {
                    let waited = "the write came before the wait, or between the wait and fence_fragment, and the \
                                  compiler may move it above the wait";
                    member.suspect(at, a, loc, (Rule::RegistersInFlight, waited));
                }
                member.pin(addr);
            }
            Look::Whole(_) => {}
        }
        Ok(())
    }

    /// Thread `t` has returned: what it wrote over an A fragment that it has never got back, and where that was found.
    pub fn left_by(&mut self, t: usize) -> Option<(Fault, Loc)> {
        let member = self.members.get_mut(t)?;
        let first = (!member.rewritten.is_empty()).then(|| member.rewritten.swap_remove(0))?;
        Some((first.fault, first.loc))
    }

    /// Thread `t` gives a value to an instruction that is none of wgmma's.
    pub fn used(&self, t: usize, bits: u32) -> Result<(), Fault> {
        let Some(name) = named(bits) else { return Ok(()) };
        let (what, held, verb) = if name.fragment {
            ("a fragment of A", self.fragments.held(name), "read")
        } else {
            ("an accumulator", self.accumulators.held(name), "write")
        };
        let Some((loc, group)) = held else { return Ok(()) };
        let (i, retired) = (name.index, self.retired(t));
        let fault = if group > retired {
            let text = format!(
                "register {i} of {what} is used, and a wgmma of group {group} of the thread may still \
                 {verb} it: the thread's wait_groups cover group {retired} and those before"
            );
            Fault::new(Rule::RegistersInFlight, text)
        } else {
            let fence = if name.fragment { "fence_fragment" } else { "fence_operand" };
            let text = format!(
                "register {i} of {what} is used after the wait_group, but without {fence} in between: \
                 the compiler may move the use above the wait"
            );
            Fault::new(Rule::RegistersUnfenced, text)
        };
        Err(fault.against("the wgmma", loc))
    }

    /// Some registers that a wgmma holds have been written.
    fn changed(&self, what: &str, name: Name, t: usize) -> Fault {
        let held =
            if name.fragment { self.fragments.held(name) } else { self.accumulators.held(name) };
        let retired = self.retired(t);
        let state = match held {
            Some((_, group)) if group > retired => format!(
                "a wgmma of group {group} of the thread may still use it, for its wait_groups cover \
                 group {retired} and those before"
            ),
            _ => "between its issue and fence_operand: what stands after the wait_group may be moved \
                  above it without fence_operand"
                .into(),
        };
        let text = format!("{what} was changed, or copied and used twice, in flight: {state}");
        let fault = Fault::new(Rule::RegistersInFlight, text);
        match held {
            Some((loc, _)) => fault.against("the wgmma", loc),
            None => fault,
        }
    }
}

#[cfg(test)]
mod tests;
