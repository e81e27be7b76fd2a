//! Memory that somebody else allocated: what the driver says about an address.

use crate::context::Context;
use crate::driver::{self, CuContext, CuMemHandle, value};
use crate::error::Error;
use std::ffi::c_void;

/// What the driver knows about an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// `CUmemorytype`; 0 where the driver does not know the address.
    pub kind: u32,
    /// The context of the allocation; null for memory of a pool and for mapped memory, which belong to
    /// a device.
    pub context: u64,
    /// The device's ordinal.
    pub device: i32,
    /// The allocation, or the mapping, that contains the address.
    pub start: u64,
    pub bytes: usize,
}

impl Place {
    /// Asks the driver. Unknown addresses are no error: their `kind` is 0.
    fn of(addr: u64) -> Result<Self, Error> {
        let (mut kind, mut context, mut device) = (0u32, CuContext::NULL, -1i32);
        let (mut start, mut bytes) = (0u64, 0usize);
        let mut keys = [
            value::POINTER_MEMORY_TYPE,
            value::POINTER_CONTEXT,
            value::POINTER_DEVICE,
            value::POINTER_RANGE_START,
            value::POINTER_RANGE_BYTES,
        ];
        let mut values: [*mut c_void; 5] = [
            (&raw mut kind).cast(),
            (&raw mut context).cast(),
            (&raw mut device).cast(),
            (&raw mut start).cast(),
            (&raw mut bytes).cast(),
        ];
        // SAFETY: there are as many places as keys, each of its attribute's type.
        unsafe {
            driver::cuPointerGetAttributes(
                keys.len() as u32,
                keys.as_mut_ptr(),
                values.as_mut_ptr(),
                addr,
            )
        }?;
        Ok(Self { kind, context: context.0 as u64, device, start, bytes })
    }

    /// One past the last byte.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes as u64)
    }
}

impl Context {
    /// Checks that `bytes` > 0 bytes at `addr` are memory that kernels of this context can use, all of one
    /// allocation. Memory that was mapped piece by piece into one range of addresses counts as one.
    pub fn check_range(&self, addr: u64, bytes: u64) -> Result<(), Error> {
        let _bound = self.bind()?;
        let end = addr.saturating_add(bytes);
        let first = Place::of(addr)?;
        self.check_place(addr, &first)?;
        let mut reached = first.end();
        while reached < end {
            let next = Place::of(reached)?;
            // Pieces of one range: each is mapped. Two allocations side by side are not one.
            let goes_on = next.start == reached
                && self.check_place(reached, &next).is_ok()
                && is_mapped(first.start)
                && is_mapped(reached);
            if !goes_on {
                return Err(Error::OutOfAllocation {
                    addr,
                    bytes,
                    start: first.start,
                    len: reached - first.start,
                });
            }
            reached = next.end();
        }
        Ok(())
    }

    fn check_place(&self, addr: u64, place: &Place) -> Result<(), Error> {
        let what = match place.kind {
            value::MEMORY_DEVICE => None,
            value::MEMORY_HOST => Some("memory of the host".to_owned()),
            0 => Some("no memory that the CUDA driver knows".to_owned()),
            kind => Some(format!("memory of kind {kind}")),
        };
        if let Some(what) = what {
            return Err(Error::NotDeviceMemory { addr, what, device: self.info.index });
        }
        if place.device != self.info.index as i32 {
            let what = format!("memory of device {}", place.device);
            return Err(Error::NotDeviceMemory { addr, what, device: self.info.index });
        }
        let ours = self.raw().0 as u64;
        if place.context != 0 && place.context != ours {
            let what = format!("memory of context {:#x}, not of {ours:#x},", place.context);
            return Err(Error::NotDeviceMemory { addr, what, device: self.info.index });
        }
        // An address that the driver knows lies in a range. Without one, nothing can be checked.
        if place.bytes == 0 || addr < place.start || addr >= place.end() {
            let what = "memory without a known range".to_owned();
            return Err(Error::NotDeviceMemory { addr, what, device: self.info.index });
        }
        Ok(())
    }
}

/// Whether an address was mapped (`cuMemMap`) and not allocated.
fn is_mapped(addr: u64) -> bool {
    let mut handle: CuMemHandle = 0;
    // SAFETY: the driver looks the address up; `handle` is a valid place for the result.
    let found =
        unsafe { driver::cuMemRetainAllocationHandle(&raw mut handle, addr as *mut c_void) };
    if found.is_ok() {
        // SAFETY: retained once, above.
        let _ = unsafe { driver::cuMemRelease(handle) };
    }
    found.is_ok()
}
