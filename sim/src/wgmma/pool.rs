//! What belongs into registers that wgmmas hold, and the patterns that stand there instead.
//!
//! A pattern is a NaN: exponent all ones, quiet bit 0, bit 21 set, then whether it is of a fragment
//! of A, and the generation, the slot and the index of its register.

use crate::types::loc::Loc;

const EXPONENT: u32 = 0x7f80_0000;
const MARK: u32 = 1 << 21;
const FRAGMENT: u32 = 1 << 20;
/// Slots of a pool.
const SLOTS: usize = 64;
/// Registers of a thread, twice: no more can be held that somebody still wants.
const REGISTERS: usize = 512;

/// Whether a value may be a pattern.
#[inline]
pub(crate) fn suspicious(bits: u32) -> bool {
    bits & (EXPONENT | MARK) == EXPONENT | MARK
}

/// What a pattern names, quiet or signalling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub fragment: bool,
    generation: u32,
    slot: usize,
    /// The register's index.
    pub index: usize,
}

/// The name in a value's bits.
pub(crate) fn named(bits: u32) -> Option<Name> {
    suspicious(bits).then_some(Name {
        fragment: bits & FRAGMENT != 0,
        generation: bits >> 13 & 0x7f,
        slot: (bits >> 7 & 0x3f) as usize,
        index: (bits & 0x7f) as usize,
    })
}

/// What registers hold.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// No pattern.
    Not,
    /// The patterns of a slot, all of them, as they were put there.
    Whole(usize),
    /// Some pattern, at this register.
    Part(usize),
}

/// A use of a slot, which no other one equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    slot: usize,
    age: u64,
}

/// Registers of 128 threads that one accumulation, or one fragment, has.
struct Slot {
    generation: u32,
    /// Registers per thread; 0: the slot is free.
    regs: usize,
    loc: Loc,
    /// The last wgmma group that holds it.
    group: u64,
    /// Counts up, by age.
    age: u64,
    /// Threads that have got their values back.
    taken: u128,
    /// The same of the slot's use before this one, as far as their values are still here.
    before: u128,
    /// Threads that have come with it to the wgmma in progress.
    come: u128,
    values: Vec<u32>,
}

impl Slot {
    /// Whether thread `t` got the values that are here.
    fn gave(&self, t: usize) -> bool {
        (self.taken | self.before) >> t & 1 == 1
    }
}

/// What wgmmas of a warp group hold, of one kind.
pub(crate) struct Pool {
    fragment: bool,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Registers per thread that the slots in use have.
    live: usize,
    /// The slot of what the wgmma in progress begins.
    fresh: Option<usize>,
    ages: u64,
}

impl Pool {
    pub fn new(fragment: bool) -> Self {
        Self { fragment, slots: Vec::new(), free: Vec::new(), live: 0, fresh: None, ages: 0 }
    }

    /// The protocol state: what groups hold that not all threads have waited for. Slots are told apart by
    /// these groups, and not by their names.
    pub fn protocol(&self, (open, retired): (u64, u64), f: &mut impl FnMut(u64)) {
        for s in self.slots.iter().filter(|s| s.regs > 0 && s.group > retired) {
            f((open - s.group) << 32 | s.regs as u64);
            f(s.taken as u64);
            f((s.taken >> 64) as u64);
            f(u64::from(s.loc.line()));
        }
    }

    /// The pattern of a slot's first register.
    fn base(&self, slot: usize) -> u32 {
        let kind = if self.fragment { FRAGMENT } else { 0 };
        EXPONENT | MARK | kind | self.slots[slot].generation << 13 | (slot as u32) << 7
    }

    fn known(&self, name: Name) -> Option<&Slot> {
        let slot = self.slots.get(name.slot)?;
        let known = name.fragment == self.fragment
            && name.generation == slot.generation
            && name.index < slot.values.len() / 128;
        known.then_some(slot)
    }

    /// Where the last wgmma is that holds what a pattern names, and its group.
    pub fn held(&self, name: Name) -> Option<(Loc, u64)> {
        self.known(name).map(|s| (s.loc, s.group))
    }

    /// What the registers of thread `t` hold.
    pub fn look(&self, t: usize, regs: &[u32]) -> Look {
        if let Some(name) = named(regs[0])
            && let Some(slot) = self.known(name)
            && slot.regs == regs.len()
            && slot.taken >> t & 1 == 0
        {
            let base = self.base(name.slot);
            // No early exit: this is each wgmma's.
            let other = (base..).zip(regs).fold(0, |other, (want, x)| other | (want ^ x));
            if other == 0 {
                return Look::Whole(name.slot);
            }
        }
        let any = regs.iter().position(|x| named(*x).is_some_and(|n| self.known(n).is_some()));
        any.map_or(Look::Not, Look::Part)
    }

    /// Thread `t` has come to the wgmma in progress with a slot's registers.
    pub fn come(&mut self, slot: usize, t: usize) {
        self.slots[slot].come |= 1 << t;
    }

    /// All threads have come to a wgmma, and hold registers for it: `change` changes what is kept of
    /// these, for one or more threads from one on. What the next wgmma begins is another.
    pub fn issued(&mut self, (loc, group): (Loc, u64), mut change: impl FnMut(usize, &mut [u32])) {
        self.fresh = None;
        for slot in self.slots.iter_mut().filter(|s| s.come != 0) {
            (slot.loc, slot.group) = (loc, group);
            let come = std::mem::take(&mut slot.come);
            if come == u128::MAX {
                change(0, &mut slot.values);
                continue;
            }
            for t in (0..128).filter(|t| come >> t & 1 == 1) {
                change(t, &mut slot.values[t * slot.regs..][..slot.regs]);
            }
        }
    }

    /// The wgmma in progress holds a slot's registers as well; gives the values of thread `t`.
    pub fn again(&mut self, slot: usize, t: usize, (loc, group): (Loc, u64)) -> &mut [u32] {
        let slot = &mut self.slots[slot];
        (slot.loc, slot.group) = (loc, group);
        &mut slot.values[t * slot.regs..][..slot.regs]
    }

    /// The wgmma in progress begins to hold registers of thread `t`: patterns take the place of what is
    /// kept in the slot that it gives. `over` says whether all threads have waited for a group.
    pub fn keep(
        &mut self,
        t: usize,
        regs: &mut [u32],
        at: (Loc, u64),
        over: impl Fn(u64) -> bool,
    ) -> usize {
        let n = regs.len();
        let slot = match self.fresh {
            Some(slot) if self.slots[slot].regs == n => slot,
            _ => self.open(n, at, regs[0], over),
        };
        self.fresh = Some(slot);
        let base = self.base(slot);
        self.slots[slot].before &= !(1 << t);
        let values = &mut self.slots[slot].values[t * n..][..n];
        values.copy_from_slice(regs);
        for (r, pattern) in regs.iter_mut().zip(base..) {
            *r = pattern;
        }
        slot
    }

    /// A slot for `n` registers of each thread. What nobody has taken back for long, and no wgmma holds
    /// any more, makes room: its registers have other values by now.
    fn open(
        &mut self,
        n: usize,
        (loc, group): (Loc, u64),
        any: u32,
        over: impl Fn(u64) -> bool,
    ) -> usize {
        while self.live + n > REGISTERS || (self.free.is_empty() && self.slots.len() == SLOTS) {
            let full = self.slots.len() == SLOTS;
            let used = self.slots.iter().enumerate().filter(|(_, s)| s.regs > 0);
            let oldest =
                used.filter(|(_, s)| s.come == 0 && over(s.group)).min_by_key(|(_, s)| s.age);
            match oldest {
                Some((slot, _)) => self.close(slot),
                None if full && self.free.is_empty() => self.close(0),
                None => break,
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            let empty = Slot {
                generation: 0,
                regs: 0,
                loc,
                group,
                age: 0,
                taken: 0,
                before: 0,
                come: 0,
                values: Vec::new(),
            };
            self.slots.push(empty);
            self.slots.len() - 1
        });
        self.ages += 1;
        self.live += n;
        let slot = &mut self.slots[index];
        slot.before = if slot.values.len() == 128 * n { slot.taken } else { 0 };
        slot.generation = (slot.generation + 1) & 0x7f;
        (slot.regs, slot.loc, slot.group, slot.age, slot.taken) = (n, loc, group, self.ages, 0);
        slot.values.resize(128 * n, any);
        index
    }

    fn close(&mut self, slot: usize) {
        self.slots[slot].come = 0;
        self.live -= std::mem::take(&mut self.slots[slot].regs);
        self.free.push(slot);
    }

    /// The use of a slot in which it is now.
    pub fn kept(&self, slot: usize) -> Kept {
        Kept { slot, age: self.slots[slot].age }
    }

    /// The last wgmma group that holds a slot's registers.
    pub fn group(&self, slot: usize) -> u64 {
        self.slots[slot].group
    }

    /// Thread `t` gets the values of its registers back.
    pub fn take(&mut self, slot: usize, t: usize, regs: &mut [u32]) {
        let s = &mut self.slots[slot];
        regs.copy_from_slice(&s.values[t * s.regs..][..s.regs]);
        s.taken |= 1 << t;
        if s.taken == u128::MAX {
            self.close(slot);
        }
    }

    /// Whether registers of thread `t` hold what it got back last.
    pub fn unchanged(&self, t: usize, regs: &[u32]) -> bool {
        let n = regs.len();
        let same = |s: &Slot| {
            let values = s.values[t * n..][..n].iter();
            values.eq(regs)
        };
        self.slots.iter().any(|s| s.gave(t) && s.values.len() == 128 * n && same(s))
    }

    /// Whether thread `t` has got registers back.
    pub fn any_taken(&self, t: usize) -> bool {
        self.slots.iter().any(|s| s.gave(t))
    }
}
