//! A CTA's shared memory, and what the model knows about each part of it.
//!
//! The shadow works in chunks of 16 bytes, the unit of every asynchronous copy and of a wgmma's reads. It
//! knows how many of them read the chunk at this moment, how many write it, which of its bytes were ever
//! written, and where an mbarrier lies.

use crate::finding::rule::Rule;
use crate::types::grid::SMEM_BASE;
use std::ops::Range;

/// Bytes of a chunk.
pub(crate) const CHUNK: u32 = 16;

/// Why an access is not allowed: the rule, and the address where it is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conflict {
    pub rule: Rule,
    pub addr: u32,
}

/// Shared memory with its shadow. Addresses are of the `shared::cta` window.
pub(crate) struct Shared {
    size: u32,
    bytes: Vec<u8>,
    /// A bit per byte: written since the launch.
    written: Vec<u16>,
    /// Asynchronous reads in flight, per chunk.
    readers: Vec<u16>,
    /// Asynchronous writes in flight, per chunk.
    writers: Vec<u16>,
    /// Index + 1 of the live mbarrier at each 8 bytes.
    barriers: Vec<u16>,
    check_written: bool,
}

impl Shared {
    pub fn new(size: u32, check_written: bool) -> Self {
        let chunks = size.div_ceil(CHUNK) as usize;
        Self {
            size,
            bytes: vec![0; chunks * CHUNK as usize],
            written: vec![0; chunks],
            readers: vec![0; chunks],
            writers: vec![0; chunks],
            barriers: vec![0; chunks * 2],
            check_written,
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    fn range(&self, addr: u32, len: u32) -> Result<Range<usize>, Conflict> {
        let start = addr.wrapping_sub(SMEM_BASE);
        if addr < SMEM_BASE || start > self.size || len > self.size - start {
            return Err(Conflict { rule: Rule::SharedBounds, addr });
        }
        Ok(start as usize..(start + len) as usize)
    }

    fn chunks(range: &Range<usize>) -> Range<usize> {
        range.start / CHUNK as usize..range.end.div_ceil(CHUNK as usize)
    }

    /// The chunk that a range lies in, if it lies in one: the short way of loads and stores.
    #[inline]
    fn one_chunk(range: &Range<usize>) -> Option<usize> {
        let chunk = range.start / CHUNK as usize;
        (range.start < range.end && range.end <= (chunk + 1) * CHUNK as usize).then_some(chunk)
    }

    /// Whether nobody writes a chunk, and no mbarrier is there.
    #[inline]
    fn settled(&self, chunk: usize) -> bool {
        self.writers[chunk] == 0 && self.barriers[2 * chunk] | self.barriers[2 * chunk + 1] == 0
    }

    fn first_held(counts: &[u16], range: &Range<usize>) -> Option<u32> {
        let chunks = Self::chunks(range);
        let start = chunks.start;
        // Without an early exit, for it is nearly always none.
        if counts[chunks.clone()].iter().fold(0, |any, &c| any | c) == 0 {
            return None;
        }
        counts[chunks].iter().position(|&c| c != 0).map(|i| (start + i) as u32 * CHUNK + SMEM_BASE)
    }

    fn check(range: &Range<usize>, counts: &[u16], rule: Rule) -> Result<(), Conflict> {
        Self::first_held(counts, range).map_or(Ok(()), |addr| Err(Conflict { rule, addr }))
    }

    fn check_barriers(&self, range: &Range<usize>) -> Result<(), Conflict> {
        let words = range.start / 8..range.end.div_ceil(8);
        let start = words.start;
        if self.barriers[words.clone()].iter().fold(0, |any, &b| any | b) == 0 {
            return Ok(());
        }
        match self.barriers[words].iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(i) => Err(Conflict {
                rule: Rule::BarrierMemory,
                addr: (start + i) as u32 * 8 + SMEM_BASE,
            }),
        }
    }

    fn check_written(&self, range: &Range<usize>) -> Result<(), Conflict> {
        if !self.check_written {
            return Ok(());
        }
        for chunk in Self::chunks(range) {
            let want = mask(range, chunk);
            let missing = want & !self.written[chunk];
            if missing != 0 {
                let addr = chunk as u32 * CHUNK + missing.trailing_zeros() + SMEM_BASE;
                return Err(Conflict { rule: Rule::Uninitialised, addr });
            }
        }
        Ok(())
    }

    fn mark_written(&mut self, range: &Range<usize>) {
        if [range.start, range.end].iter().all(|at| at.is_multiple_of(CHUNK as usize)) {
            return self.written[Self::chunks(range)].fill(u16::MAX);
        }
        for chunk in Self::chunks(range) {
            self.written[chunk] |= mask(range, chunk);
        }
    }

    /// Reads, by a thread or by an engine: the bytes are there, settled, and written once.
    #[inline]
    pub fn read(&self, addr: u32, len: u32) -> Result<&[u8], Conflict> {
        let range = self.range(addr, len)?;
        let plain = Self::one_chunk(&range).is_some_and(|chunk| {
            self.settled(chunk)
                && (!self.check_written || mask(&range, chunk) & !self.written[chunk] == 0)
        });
        if !plain {
            Self::check(&range, &self.writers, Rule::CopyInFlight)?;
            self.check_barriers(&range)?;
            self.check_written(&range)?;
        }
        Ok(&self.bytes[range])
    }

    /// Gives bytes to write to: nobody reads them or writes them asynchronously.
    #[inline]
    pub fn write(&mut self, addr: u32, len: u32) -> Result<&mut [u8], Conflict> {
        let range = self.range(addr, len)?;
        if let Some(chunk) = Self::one_chunk(&range)
            && self.settled(chunk)
            && self.readers[chunk] == 0
        {
            self.written[chunk] |= mask(&range, chunk);
            return Ok(&mut self.bytes[range]);
        }
        Self::check(&range, &self.writers, Rule::CopyInFlight)?;
        // Who reads is told apart by the caller, which knows the operations in flight.
        Self::check(&range, &self.readers, Rule::WgmmaReads)?;
        self.check_barriers(&range)?;
        self.mark_written(&range);
        Ok(&mut self.bytes[range])
    }

    /// A copy into these bytes starts: until [`Self::end_write`] nobody may use them.
    pub fn begin_write(&mut self, addr: u32, len: u32) -> Result<(), Conflict> {
        let range = self.range(addr, len)?;
        Self::check(&range, &self.writers, Rule::CopyInFlight)?;
        Self::check(&range, &self.readers, Rule::WgmmaReads)?;
        self.check_barriers(&range)?;
        for c in &mut self.writers[Self::chunks(&range)] {
            *c += 1;
        }
        Ok(())
    }

    /// The copy lands: gives its bytes.
    pub fn end_write(&mut self, addr: u32, len: u32) -> Result<&mut [u8], Conflict> {
        let range = self.range(addr, len)?;
        for c in &mut self.writers[Self::chunks(&range)] {
            *c -= 1;
        }
        self.mark_written(&range);
        Ok(&mut self.bytes[range])
    }

    /// An asynchronous read starts: until [`Self::end_read`] nobody may write these bytes.
    pub fn begin_read(&mut self, addr: u32, len: u32) -> Result<(), Conflict> {
        self.read(addr, len)?;
        let range = self.range(addr, len)?;
        for c in &mut self.readers[Self::chunks(&range)] {
            *c += 1;
        }
        Ok(())
    }

    /// As [`Self::begin_read`] of one chunk, whose bytes it gives: the short way that wgmma takes.
    pub fn hold_chunk(&mut self, addr: u32) -> Result<&[u8], Conflict> {
        let chunk = (addr.wrapping_sub(SMEM_BASE) / CHUNK) as usize;
        let plain = addr >= SMEM_BASE
            && addr.is_multiple_of(CHUNK)
            && (chunk as u32 + 1) * CHUNK <= self.size
            && self.settled(chunk)
            && (self.written[chunk] == u16::MAX || !self.check_written);
        if plain {
            self.readers[chunk] += 1;
        } else {
            self.begin_read(addr, CHUNK)?;
        }
        let at = chunk * CHUNK as usize;
        Ok(&self.bytes[at..at + CHUNK as usize])
    }

    /// The asynchronous read is over.
    pub fn end_read(&mut self, addr: u32, len: u32) {
        if len == CHUNK && addr.is_multiple_of(CHUNK) {
            let chunk = addr.wrapping_sub(SMEM_BASE) / CHUNK;
            if let Some(readers) = self.readers.get_mut(chunk as usize) {
                *readers -= 1;
            }
            return;
        }
        if let Ok(range) = self.range(addr, len) {
            for c in &mut self.readers[Self::chunks(&range)] {
                *c -= 1;
            }
        }
    }

    /// Index of the live mbarrier at an aligned address.
    pub fn barrier_at(&self, addr: u32) -> Option<usize> {
        let range = self.range(addr, 8).ok()?;
        (self.barriers[range.start / 8] as usize).checked_sub(1)
    }

    /// Places an mbarrier.
    pub fn set_barrier(&mut self, addr: u32, index: usize) -> Result<(), Conflict> {
        let range = self.range(addr, 8)?;
        Self::check(&range, &self.writers, Rule::CopyInFlight)?;
        Self::check(&range, &self.readers, Rule::WgmmaReads)?;
        self.barriers[range.start / 8] = index as u16 + 1;
        Ok(())
    }

    /// Takes it away: its bytes are memory again, and hold nothing.
    pub fn clear_barrier(&mut self, addr: u32) {
        if let Ok(range) = self.range(addr, 8) {
            self.barriers[range.start / 8] = 0;
            let chunk = range.start / CHUNK as usize;
            self.written[chunk] &= !mask(&range, chunk);
        }
    }
}

/// The bits of a chunk that lie in the range.
#[inline]
fn mask(range: &Range<usize>, chunk: usize) -> u16 {
    let first = chunk * CHUNK as usize;
    let from = range.start.max(first) - first;
    let to = range.end.min(first + CHUNK as usize) - first;
    (((1u32 << (to - from)) - 1) << from) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_uninitialised_reads() {
        let mut s = Shared::new(64, true);
        let rule = |r: Result<&[u8], Conflict>| r.unwrap_err().rule;
        assert_eq!(rule(s.read(SMEM_BASE - 4, 4)), Rule::SharedBounds);
        assert_eq!(rule(s.read(SMEM_BASE + 62, 4)), Rule::SharedBounds);
        s.write(SMEM_BASE + 14, 4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(s.read(SMEM_BASE + 14, 4).unwrap(), [1, 2, 3, 4]);
        assert_eq!(
            s.read(SMEM_BASE + 14, 5).unwrap_err(),
            Conflict { rule: Rule::Uninitialised, addr: SMEM_BASE + 18 }
        );
    }

    #[test]
    fn a_read_in_flight_holds_off_writers() {
        let mut s = Shared::new(64, false);
        s.begin_read(SMEM_BASE + 16, 16).unwrap();
        assert_eq!(s.write(SMEM_BASE + 28, 4).unwrap_err().rule, Rule::WgmmaReads);
        s.write(SMEM_BASE + 32, 4).unwrap();
        s.read(SMEM_BASE + 16, 16).unwrap();
        s.end_read(SMEM_BASE + 16, 16);
        s.write(SMEM_BASE + 28, 4).unwrap();
    }

    #[test]
    fn a_copy_in_flight_holds_off_everybody() {
        let mut s = Shared::new(64, false);
        s.begin_write(SMEM_BASE, 32).unwrap();
        assert_eq!(s.read(SMEM_BASE + 31, 1).unwrap_err().rule, Rule::CopyInFlight);
        assert_eq!(s.begin_write(SMEM_BASE + 16, 16).unwrap_err().rule, Rule::CopyInFlight);
        s.end_write(SMEM_BASE, 32).unwrap().fill(7);
        assert_eq!(s.read(SMEM_BASE + 31, 1).unwrap(), [7]);
    }
}
