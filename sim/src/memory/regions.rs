//! The regions of shared memory that a kernel declares, and addresses that know their region.
//!
//! A CTA's shared memory needs 18 bits of an address, and the rank of a CTA is in the bits from 24 on. On
//! the model, the bits between hold the number of a region: an address that was computed from a region's
//! base still names that region, wherever it points. 0 stands for no region, as in every address that no
//! declaration gave out. The CTAs of a cluster have one table, for a peer's region lies at the same offset.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::grid::SMEM_BASE;

/// The first bit of a region's number.
const SHIFT: u32 = 18;
/// The bits of an address in a CTA.
const PLAIN: u32 = (1 << SHIFT) - 1;
/// Most regions that addresses can name.
const MOST: usize = 63;

struct Region {
    name: &'static str,
    start: u32,
    bytes: u32,
}

impl Region {
    fn holds(&self, addr: u32, len: u32) -> bool {
        let at = addr.wrapping_sub(self.start);
        at <= self.bytes && len <= self.bytes - at
    }

    /// What a report calls it.
    fn says(&self) -> String {
        let (first, end) = (self.start - SMEM_BASE, self.start - SMEM_BASE + self.bytes);
        let name = if self.name.is_empty() { String::new() } else { format!(" `{}`", self.name) };
        format!("region{name} (base + {first} to base + {end})")
    }
}

/// The regions that were declared, by their number less one.
#[derive(Default)]
pub(crate) struct Regions(Vec<Region>);

/// The address without the number of a region, and without a rank.
pub(crate) fn plain(addr: u32) -> u32 {
    addr & PLAIN
}

impl Regions {
    /// Declares the bytes from an address on, and gives the address that knows them. What has no room in
    /// the table is not checked.
    pub fn declare(&mut self, name: &'static str, addr: u32, bytes: u32) -> u32 {
        let start = plain(addr);
        if bytes == 0 || start < SMEM_BASE {
            return addr;
        }
        let same = |r: &Region| r.start == start && r.bytes == bytes && r.name == name;
        let number = match self.0.iter().position(same) {
            Some(i) => i + 1,
            None if self.0.len() < MOST => {
                self.0.push(Region { name, start, bytes });
                self.0.len()
            }
            None => return addr,
        };
        addr >> 24 << 24 | (number as u32) << SHIFT | start
    }

    fn of(&self, addr: u32) -> Option<&Region> {
        let number = (addr >> SHIFT) as usize & MOST;
        self.0.get(number.wrapping_sub(1))
    }

    /// The plain address of an access of `len` bytes, which must stay in the region that the address
    /// names. `len` 0: it is no access.
    #[inline]
    pub fn check(&self, (cta, addr): (usize, u32), len: u32) -> Result<u32, Fault> {
        if addr <= PLAIN {
            return Ok(addr);
        }
        // An address far beyond shared memory names no region: it is out of bounds, and stays so.
        let Some(region) = self.of(addr) else { return Ok(addr) };
        let at = plain(addr);
        if len == 0 || region.holds(at, len) {
            return Ok(at);
        }
        Err(self.leaves(region, (cta, at, len)))
    }

    /// An operand of wgmma, of which a descriptor gives no region: it must stay in the smallest one in
    /// which it begins.
    pub fn operand(&self, cta: usize, start: u32, (first, end): (u32, u32)) -> Result<(), Fault> {
        let around = self.0.iter().filter(|r| r.holds(start, 1)).min_by_key(|r| r.bytes);
        match around {
            Some(r) if !r.holds(first, end - first) => {
                Err(self.leaves(r, (cta, first, end - first)))
            }
            _ => Ok(()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn leaves(&self, region: &Region, (cta, at, len): (usize, u32, u32)) -> Fault {
        let inside = at >= region.start && at - region.start < region.bytes;
        let there = if inside { region.start + region.bytes } else { at };
        let found = self.0.iter().filter(|r| r.holds(there, 1)).min_by_key(|r| r.bytes);
        let lands = match found {
            Some(r) => r.says(),
            None => "bytes of no region".to_owned(),
        };
        let does = if inside { "and goes on into" } else { "and lands in" };
        let base = i64::from(at) - i64::from(SMEM_BASE);
        Fault::new(
            Rule::LeavesRegion,
            format!(
                "{len} bytes at shared address {at:#x} (base + {base}) of CTA {cta}: the address was \
                 computed from {}, {does} {lands}",
                region.says()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = SMEM_BASE + 64;

    fn two() -> (Regions, u32, u32) {
        let mut regions = Regions::default();
        let a = regions.declare("a", A, 64);
        let b = regions.declare("b", A + 64, 32);
        (regions, a, b)
    }

    #[test]
    fn an_address_knows_its_region_wherever_it_points() {
        let (mut regions, a, b) = two();
        assert_eq!((plain(a), plain(b)), (A, A + 64));
        assert_eq!(regions.check((0, a + 48), 16).unwrap(), A + 48);
        assert_eq!(regions.declare("a", A, 64), a, "the same number");
        let over = regions.check((0, a + 64), 4).unwrap_err();
        assert_eq!(over.rule, Rule::LeavesRegion);
        assert!(over.message.contains("lands in region `b`"), "{}", over.message);
        let across = regions.check((0, a + 56), 16).unwrap_err();
        assert!(across.message.contains("goes on into region `b`"), "{}", across.message);
        assert!(regions.check((0, a - 4), 4).is_err(), "before it");
        assert!(regions.check((0, b + 32), 4).unwrap_err().message.contains("of no region"));
    }

    #[test]
    fn a_part_of_a_region_is_a_region() {
        let (mut regions, a, _) = two();
        let part = regions.declare("part", a + 16, 16);
        assert_eq!(regions.check((0, part), 16).unwrap(), A + 16);
        assert!(regions.check((0, part + 16), 4).is_err());
        assert!(regions.operand(0, A + 16, (A + 16, A + 48)).is_err(), "the smallest region");
        regions.operand(0, A, (A, A + 64)).unwrap();
        regions.operand(0, A + 200, (A + 200, A + 900)).unwrap();
    }

    #[test]
    fn addresses_without_a_region_are_left_alone() {
        let (mut regions, ..) = two();
        assert_eq!(regions.check((0, A + 60), 16).unwrap(), A + 60);
        assert_eq!(regions.check((0, 40 << SHIFT | A), 4).unwrap(), 40 << SHIFT | A);
        for i in 0..MOST as u32 {
            regions.declare("more", A + 16 * i, 16);
        }
        assert_eq!(regions.declare("too many", A, 8), A);
    }
}
