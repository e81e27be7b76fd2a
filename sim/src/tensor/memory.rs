//! A CTA's tensor memory: 128 lanes by 512 columns of 32 bits, allocated by columns.

use crate::finding::fault::Fault;
use crate::finding::report::SourceLine;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use std::ops::Range;

/// Lanes and columns.
pub(crate) const LANES: u32 = 128;
pub(crate) const COLUMNS: u32 = 512;

/// An allocation.
struct Columns {
    columns: Range<u32>,
    loc: Loc,
}

/// Tensor memory. The model has one CTA to an SM here: all columns are the CTA's.
#[derive(Default)]
pub(crate) struct TensorMemory {
    /// By column, then by lane. Empty before the first allocation.
    words: Vec<u32>,
    allocated: Vec<Columns>,
    /// The allocations that were freed, and where.
    freed: Vec<(Range<u32>, Loc)>,
    /// Where the permit was given up.
    relinquished: bool,
}

/// Lane and column of an address.
pub(crate) fn split(address: u32) -> (u32, u32) {
    (address >> 16, address & 0xffff)
}

fn wrong(message: String) -> Fault {
    Fault::new(Rule::TensorAlloc, message)
}

impl TensorMemory {
    /// Allocates; gives the address.
    pub fn alloc(&mut self, columns: u32, loc: Loc) -> Result<u32, Fault> {
        if !columns.is_power_of_two() || !(32..=COLUMNS).contains(&columns) {
            return Err(wrong(format!(
                "tcgen05.alloc of {columns} columns: right is a power of two from 32 to {COLUMNS}"
            )));
        }
        if self.relinquished {
            return Err(wrong(
                "tcgen05.alloc after tcgen05.relinquish_alloc_permit by the CTA".to_owned(),
            ));
        }
        let free = |at: &u32| {
            let new = *at..*at + columns;
            !self.allocated.iter().any(|a| overlap(&a.columns, &new))
        };
        let Some(at) = (0..COLUMNS).step_by(columns as usize).find(free) else {
            let taken: u32 = self.allocated.iter().map(|a| a.columns.len() as u32).sum();
            return Err(wrong(format!(
                "tcgen05.alloc of {columns} columns: the CTA has {taken} of the {COLUMNS} itself, and would wait for itself"
            )));
        };
        self.words.resize((LANES * COLUMNS) as usize, 0);
        self.allocated.push(Columns { columns: at..at + columns, loc });
        Ok(at)
    }

    /// Frees an allocation; gives its columns.
    pub fn free(&mut self, address: u32, columns: u32, loc: Loc) -> Result<Range<u32>, Fault> {
        let (lane, at) = split(address);
        let range = at..at + columns;
        if lane == 0
            && let Some(i) = self.allocated.iter().position(|a| a.columns == range)
        {
            self.allocated.swap_remove(i);
            self.freed.push((range.clone(), loc));
            return Ok(range);
        }
        if let Some((_, other)) = self.freed.iter().rev().find(|f| f.0 == range) {
            let message =
                format!("tcgen05.dealloc of {columns} columns at {address:#x}, freed before");
            return Err(wrong(message).against("the first tcgen05.dealloc", other));
        }
        let all: Vec<String> = self
            .allocated
            .iter()
            .map(|a| format!("{} at {:#x}", a.columns.len(), a.columns.start))
            .collect();
        let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        Err(wrong(format!(
            "tcgen05.dealloc of {columns} columns at {address:#x}: the CTA's allocations are {has}"
        )))
    }

    /// `tcgen05.relinquish_alloc_permit`
    pub fn relinquish(&mut self) {
        self.relinquished = true;
    }

    /// Checks that columns are allocated, all by one allocation.
    pub fn check(&self, columns: &Range<u32>) -> Result<(), Fault> {
        let inside = |a: &Columns| a.columns.start <= columns.start && columns.end <= a.columns.end;
        if self.allocated.iter().any(inside) {
            return Ok(());
        }
        let (first, last) = (columns.start, columns.end - 1);
        let bounds = |message: String| Fault::new(Rule::TensorBounds, message);
        if let Some((_, loc)) = self.freed.iter().rev().find(|f| overlap(&f.0, columns)) {
            let message =
                format!("columns {first} to {last} of tensor memory, which are free again");
            return Err(bounds(message).against("the tcgen05.dealloc", loc));
        }
        let fault = bounds(format!(
            "columns {first} to {last} of tensor memory, which no allocation of the CTA has"
        ));
        Err(match self.allocated.iter().find(|a| overlap(&a.columns, columns)) {
            Some(a) => fault.against("the tcgen05.alloc of a part of them", a.loc),
            None => fault,
        })
    }

    /// A word.
    pub fn word(&mut self, lane: u32, column: u32) -> &mut u32 {
        &mut self.words[(column * LANES + lane) as usize]
    }

    /// The protocol state: the allocations, and whether there may be more.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        f(u64::from(self.relinquished) << 32 | self.allocated.len() as u64);
        for Columns { columns, .. } in &self.allocated {
            f(u64::from(columns.start) << 32 | u64::from(columns.end));
        }
    }

    /// What is allocated when the CTA exits.
    pub fn left_over(&self, cta: usize) -> Option<(Fault, Loc)> {
        let a = self.allocated.first()?;
        let message = format!(
            "{} columns of tensor memory, allocated at {}, are not freed when CTA {cta} returns: the SM has them no more",
            a.columns.len(),
            SourceLine::from(a.loc)
        );
        Some((Fault::new(Rule::TensorLeak, message), a.loc))
    }
}

fn overlap(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn columns_are_allocated_and_freed_once() {
        let here = Location::caller();
        let mut m = TensorMemory::default();
        for wrong in [0, 16, 48, 1024] {
            assert_eq!(m.alloc(wrong, here).unwrap_err().rule, Rule::TensorAlloc);
        }
        assert_eq!((m.alloc(32, here).unwrap(), m.alloc(256, here).unwrap()), (0, 256));
        assert!(m.alloc(512, here).is_err());
        assert!(m.check(&(256..512)).is_ok());
        assert_eq!(m.check(&(16..48)).unwrap_err().rule, Rule::TensorBounds);
        assert!(m.free(256, 128, here).is_err(), "another number of columns");
        m.free(256, 256, here).unwrap();
        assert!(m.free(256, 256, here).unwrap_err().other.is_some());
        assert!(m.check(&(256..257)).unwrap_err().message.contains("free again"));
        assert_eq!(m.left_over(0).unwrap().0.rule, Rule::TensorLeak);
        m.free(0, 32, here).unwrap();
        assert!(m.left_over(0).is_none());
        m.relinquish();
        assert!(m.alloc(32, here).is_err());
    }
}
