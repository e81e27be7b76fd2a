//! Global memory: a registry of allocations at made-up device addresses.
//!
//! Addresses are never reused and lie outside what a host process can map, so a kernel's stray
//! pointer is found, not followed. Between two allocations lies a gap that belongs to nobody.

use super::written::Written;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// First device address: above the 47 bits that user space has.
const FIRST: u64 = 1 << 52;
/// Bytes between allocations, at least.
const GAP: u64 = 64 * 1024;
/// Alignment of allocations.
const ALIGN: u64 = 256;

/// An access that no allocation answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GlobalError {
    /// Outside every allocation.
    #[error("{bytes} bytes at {addr:#x} lie in no allocation")]
    Unmapped {
        /// Address.
        addr: u64,
        /// Length of the access.
        bytes: u64,
    },
    /// A tensor map whose address lies outside every allocation, when a box outside of its tensor is loaded.
    #[error(
        "a load of a box that lies outside of its tensor reads from the tensor map's address, {addr:#x}, which lies in no allocation; begin the map where the memory begins"
    )]
    MapAddress {
        /// Address.
        addr: u64,
    },
    /// Starts in an allocation and ends outside.
    #[error(
        "{bytes} bytes at {addr:#x} leave the allocation of {size} bytes at {base:#x} by {over} bytes"
    )]
    Outside {
        /// Address.
        addr: u64,
        /// Length of the access.
        bytes: u64,
        /// Where the allocation starts.
        base: u64,
        /// Its length.
        size: u64,
        /// How far the access ends behind it.
        over: u64,
    },
    /// A kernel reads what nobody has written.
    #[error(
        "{bytes} bytes at {addr:#x}, and nothing has written byte {at} of the allocation at {base:#x}: the host or a kernel must write it first"
    )]
    Unwritten {
        /// Address.
        addr: u64,
        /// Length of the access.
        bytes: u64,
        /// Where the allocation starts.
        base: u64,
        /// The first byte without a value, from there.
        at: u64,
    },
    /// An allocation for which the host has no room.
    #[error("the host has no room for an allocation of {bytes} bytes")]
    NoRoom {
        /// Length of the allocation.
        bytes: u64,
    },
    /// `free` of something that is not an allocation's start.
    #[error("{addr:#x} is not the start of an allocation")]
    NotAllocated {
        /// Address.
        addr: u64,
    },
}

impl From<GlobalError> for Fault {
    fn from(e: GlobalError) -> Self {
        let rule = match e {
            GlobalError::Unwritten { .. } => Rule::GlobalUnwritten,
            _ => Rule::GlobalBounds,
        };
        Self::new(rule, e.to_string())
    }
}

/// One allocation.
pub(crate) struct Allocation {
    base: u64,
    /// A lock, not a cell: clusters run on several OS threads, and a kernel with a data race must
    /// not become one of the host.
    contents: RwLock<Contents>,
    size: u64,
}

#[derive(Clone)]
struct Contents {
    bytes: Box<[u8]>,
    written: Written,
}

impl Allocation {
    fn range(&self, addr: u64, bytes: u64) -> Result<Range<usize>, GlobalError> {
        let start = addr.wrapping_sub(self.base);
        if start > self.size || bytes > self.size - start {
            return Err(GlobalError::Outside {
                addr,
                bytes,
                base: self.base,
                size: self.size,
                over: start.saturating_add(bytes) - self.size,
            });
        }
        Ok(start as usize..(start + bytes) as usize)
    }

    /// Its first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Runs `f` on all bytes and the offset function for reading.
    pub fn with<R>(&self, f: impl FnOnce(&View<'_>) -> R) -> R {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        f(&View { allocation: self, contents: &contents })
    }

    /// Runs `f` on all bytes for writing.
    pub fn with_mut<R>(&self, f: impl FnOnce(&mut ViewMut<'_>) -> R) -> R {
        let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
        f(&mut ViewMut { allocation: self, contents: &mut contents })
    }
}

/// The range, if somebody has written all of it.
fn known(
    allocation: &Allocation,
    written: &Written,
    addr: u64,
    bytes: u64,
) -> Result<(), GlobalError> {
    let missing = written.first_missing(allocation.range(addr, bytes)?);
    missing.map_or(Ok(()), |at| {
        let (base, at) = (allocation.base, at as u64);
        Err(GlobalError::Unwritten { addr, bytes, base, at })
    })
}

/// An allocation, locked for reading.
pub(crate) struct View<'a> {
    allocation: &'a Allocation,
    contents: &'a Contents,
}

impl View<'_> {
    /// The bytes at a device address, written or not.
    pub fn get(&self, addr: u64, bytes: u64) -> Result<&[u8], GlobalError> {
        Ok(&self.contents.bytes[self.allocation.range(addr, bytes)?])
    }

    /// An error if nobody has written one of these bytes.
    pub fn known(&self, addr: u64, bytes: u64) -> Result<(), GlobalError> {
        known(self.allocation, &self.contents.written, addr, bytes)
    }
}

/// An allocation, locked for writing.
pub(crate) struct ViewMut<'a> {
    allocation: &'a Allocation,
    contents: &'a mut Contents,
}

impl ViewMut<'_> {
    /// The bytes at a device address, which are now written.
    pub fn get(&mut self, addr: u64, bytes: u64) -> Result<&mut [u8], GlobalError> {
        let range = self.allocation.range(addr, bytes)?;
        self.contents.written.write(range.clone());
        Ok(&mut self.contents.bytes[range])
    }

    /// An error if nobody has written one of these bytes.
    pub fn known(&self, addr: u64, bytes: u64) -> Result<(), GlobalError> {
        known(self.allocation, &self.contents.written, addr, bytes)
    }
}

struct Registry {
    next: u64,
    allocations: BTreeMap<u64, Arc<Allocation>>,
}

/// The device's global memory. All methods take `&self`; a clone is another handle on the same
/// memory.
#[derive(Clone)]
pub struct GlobalMemory {
    registry: Arc<RwLock<Registry>>,
    /// Counts writes by kernels: a thread that polls memory sleeps until it moves.
    writes: Arc<AtomicU64>,
    /// Addresses of the tensor maps that kernels have changed, and the host has not written since.
    maps: Arc<RwLock<BTreeSet<u64>>>,
}

impl Default for GlobalMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl GlobalMemory {
    /// Empty memory.
    pub fn new() -> Self {
        Self {
            registry: Arc::new(RwLock::new(Registry { next: FIRST, allocations: BTreeMap::new() })),
            writes: Arc::default(),
            maps: Arc::default(),
        }
    }

    /// Allocates zeroed bytes, aligned to 256, at an address that was never used before.
    pub fn alloc(&self, bytes: usize) -> u64 {
        self.add(bytes, Written::default())
    }

    /// The same, but a load or an atomic update of what nobody has written is reported
    /// ([`Rule::GlobalUnwritten`]). Copies to shared memory read zeros there: a box may have rows that
    /// no result depends on.
    ///
    /// # Errors
    /// [`GlobalError::NoRoom`] if the host can't allocate so many bytes.
    pub fn alloc_uninitialised(&self, bytes: usize) -> Result<u64, GlobalError> {
        // To ask first: the allocation itself would end the process.
        Vec::<u8>::new()
            .try_reserve_exact(bytes)
            .map_err(|_| GlobalError::NoRoom { bytes: bytes as u64 })?;
        Ok(self.add(bytes, Written::none_of(bytes)))
    }

    fn add(&self, bytes: usize, written: Written) -> u64 {
        let mut r = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let base = r.next;
        let size = bytes as u64;
        r.next = (base + size + GAP).next_multiple_of(ALIGN);
        let contents = RwLock::new(Contents { bytes: vec![0; bytes].into_boxed_slice(), written });
        r.allocations.insert(base, Arc::new(Allocation { base, contents, size }));
        base
    }

    /// Frees an allocation, given its start.
    pub fn free(&self, addr: u64) -> Result<(), GlobalError> {
        let mut r = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        r.allocations.remove(&addr).map(|_| ()).ok_or(GlobalError::NotAllocated { addr })
    }

    /// A copy of this memory, with the same allocations at the same addresses.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let copy = |a: &Arc<Allocation>| {
            let contents = a.contents.read().unwrap_or_else(PoisonError::into_inner).clone();
            Arc::new(Allocation { base: a.base, contents: RwLock::new(contents), size: a.size })
        };
        let r = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let allocations = r.allocations.iter().map(|(&base, a)| (base, copy(a))).collect();
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            registry: Arc::new(RwLock::new(Registry { next: r.next, allocations })),
            writes: Arc::default(),
            maps: Arc::new(RwLock::new(maps)),
        }
    }

    /// Gives allocations the contents that they have in a snapshot of this memory. Those that were made or
    /// freed after it stay as they are.
    pub fn restore(&self, snapshot: &Self) {
        let r = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let then = snapshot.registry.read().unwrap_or_else(PoisonError::into_inner);
        for (base, now) in &r.allocations {
            let Some(then) = then.allocations.get(base) else { continue };
            let then = then.contents.read().unwrap_or_else(PoisonError::into_inner);
            now.with_mut(|v| v.contents.clone_from(&then));
        }
        let maps = snapshot.maps.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.maps.write().unwrap_or_else(PoisonError::into_inner) = maps;
        self.wrote();
    }

    /// Copies device bytes to the host.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), GlobalError> {
        let bytes = out.len() as u64;
        self.find(addr, bytes)?.with(|v| {
            out.copy_from_slice(v.get(addr, bytes)?);
            Ok(())
        })
    }

    /// Copies host bytes to the device.
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), GlobalError> {
        let bytes = data.len() as u64;
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| !(addr..addr + bytes).contains(map));
        self.find(addr, bytes)?.with_mut(|v| {
            v.get(addr, bytes)?.copy_from_slice(data);
            Ok(())
        })
    }

    /// A kernel changes the tensor map at an address.
    pub(crate) fn changes_map(&self, addr: u64) {
        self.maps.write().unwrap_or_else(PoisonError::into_inner).insert(addr);
    }

    /// Whether a kernel has changed the tensor map at an address since the host wrote it.
    pub(crate) fn map_changed(&self, addr: u64) -> bool {
        self.maps.read().unwrap_or_else(PoisonError::into_inner).contains(&addr)
    }

    /// Whether an address could be one of the device's.
    pub(crate) fn is_device(addr: u64) -> bool {
        addr >= FIRST
    }

    /// The allocation that `addr` lies in; the range is checked when it is used.
    pub(crate) fn find(&self, addr: u64, bytes: u64) -> Result<Arc<Allocation>, GlobalError> {
        let r = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        match r.allocations.range(..=addr).next_back() {
            Some((_, a)) if addr - a.base < a.size || (bytes == 0 && addr - a.base == a.size) => {
                Ok(Arc::clone(a))
            }
            Some((_, a)) if addr - a.base < a.size + GAP => Err(GlobalError::Outside {
                addr,
                bytes,
                base: a.base,
                size: a.size,
                over: (addr - a.base).saturating_add(bytes) - a.size,
            }),
            _ => Err(GlobalError::Unmapped { addr, bytes }),
        }
    }

    /// Notes a write by a kernel.
    pub(crate) fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Release);
    }
    /// Writes by kernels so far.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_strays_are_named() {
        let m = GlobalMemory::new();
        let (a, b) = (m.alloc(100), m.alloc(16));
        assert_eq!((a % 256, b % 256), (0, 0));
        m.write(a + 96, &[1, 2, 3, 4]).unwrap();
        let mut out = [0; 4];
        m.read(a + 96, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
        assert_eq!(
            m.read(a + 97, &mut out),
            Err(GlobalError::Outside { addr: a + 97, bytes: 4, base: a, size: 100, over: 1 })
        );
        assert!(matches!(m.read(a + 100, &mut out), Err(GlobalError::Outside { over: 4, .. })));
        assert!(matches!(m.read(8, &mut out), Err(GlobalError::Unmapped { .. })));
        m.free(a).unwrap();
        assert!(m.read(a, &mut out).is_err());
        assert!(m.free(a).is_err());
        assert_ne!(m.alloc(100), a, "addresses are not reused");
        m.read(b, &mut out).unwrap();
    }

    #[test]
    fn a_snapshot_is_restored() {
        let m = GlobalMemory::new();
        let (a, freed) = (m.alloc(4), m.alloc(4));
        m.write(a, &[1, 2, 3, 4]).unwrap();
        m.changes_map(a);
        let then = m.snapshot();
        m.write(a, &[5; 4]).unwrap();
        m.free(freed).unwrap();
        let later = m.alloc(4);
        m.write(later, &[7; 4]).unwrap();
        assert!(!m.map_changed(a));
        m.restore(&then);
        let mut out = [0; 4];
        m.read(a, &mut out).unwrap();
        assert_eq!((out, m.map_changed(a)), ([1, 2, 3, 4], true));
        m.read(later, &mut out).unwrap();
        assert_eq!(out, [7; 4], "made after the snapshot");
        assert!(m.read(freed, &mut out).is_err());
    }
}
