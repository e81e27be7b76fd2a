//! The operands of copies: tensor maps, alignment, coordinates.

use super::boxes::Combine;
use super::reduce;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::memory::global::GlobalMemory;
use crate::types::tensor_map::{self, TensorMapDesc};

/// A pointer to a tensor map.
pub(crate) type MapPointer = *const [u64; 16];

fn aligned(what: &str, value: u64, to: u64) -> Result<(), Fault> {
    if value.is_multiple_of(to) {
        return Ok(());
    }
    Err(Fault::new(Rule::Misaligned, format!("{what} {value:#x} is not a multiple of {to}")))
}

/// The address of a tensor map.
pub(crate) fn map_address(map: MapPointer) -> Result<u64, Fault> {
    let addr = map as u64;
    if addr == 0 || !addr.is_multiple_of(64) {
        let message = format!("tensor map at {addr:#x}: a multiple of 64, not null");
        return Err(Fault::new(Rule::TensorMap, message));
    }
    Ok(addr)
}

/// Unpacks the tensor map at a pointer: in global memory, or a kernel parameter.
pub(crate) fn tensor_map(
    memory: &GlobalMemory,
    map: MapPointer,
    rank: usize,
) -> Result<Box<TensorMapDesc>, Fault> {
    let fault = |message: String| Fault::new(Rule::TensorMap, message);
    let addr = map_address(map)?;
    let words = if GlobalMemory::is_device(addr) {
        let mut bytes = [0u8; 128];
        memory.read(addr, &mut bytes)?;
        std::array::from_fn(|i| {
            u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"))
        })
    } else {
        // SAFETY: an address below the device's is one of the host: a kernel parameter, alive
        // for the launch, as the contract of `isa::cp_async_bulk` and `sim::launch` demands.
        unsafe { map.read() }
    };
    let desc = tensor_map::decode(&words)
        .ok_or_else(|| fault(format!("what lies at {addr:#x} is no tensor map of the model")))?;
    if desc.rank as usize != rank {
        return Err(fault(format!(
            "a tensor map of rank {} used with {rank} coordinates",
            desc.rank
        )));
    }
    Ok(Box::new(desc))
}

/// The address of a box in shared memory: its swizzle must start there.
pub(crate) fn box_address(what: &str, addr: u32, map: &TensorMapDesc) -> Result<(), Fault> {
    aligned(what, u64::from(addr), u64::from(map.swizzle.repeat()))
}

/// The manual does not say it; an H200 ends with an illegal instruction (docs/conformance.md).
pub(crate) fn coordinates(map: &TensorMapDesc, coords: &[i32]) -> Result<(), Fault> {
    let size = map.dtype.size() as i64;
    if (i64::from(coords[0]) * size) % 16 == 0 {
        return Ok(());
    }
    let message = format!(
        "a box that begins at element {} of a row, {size} bytes each: not a multiple of 16 bytes",
        coords[0]
    );
    Err(Fault::new(Rule::Misaligned, message))
}

/// A store's coordinates, and its reduction. Loads may begin before the tensor; of stores the manual
/// says nothing, and an H200 ends with an illegal instruction.
pub(crate) fn store(map: &TensorMapDesc, coords: &[i32], combine: Combine) -> Result<(), Fault> {
    coordinates(map, coords)?;
    if let Some(d) = coords.iter().position(|&x| x < 0) {
        let message = format!("a store that begins at {} in dimension {d}: not below 0", coords[d]);
        return Err(Fault::new(Rule::Operand, message));
    }
    if let Combine::Reduce(op) = combine
        && !reduce::has(op, map.dtype)
    {
        let message = format!("reduction {op:?} of {:?}", map.dtype);
        return Err(Fault::new(Rule::TensorMap, message));
    }
    Ok(())
}

/// The operands of a plain bulk copy.
pub(crate) fn run(smem: u32, global: u64, bytes: u32) -> Result<(), Fault> {
    aligned("shared address", u64::from(smem), 16)?;
    aligned("global address", global, 16)?;
    aligned("size", u64::from(bytes), 16)
}

/// The operands of a `cp.async` of which `read` bytes are read.
pub(crate) fn cp_async(smem: u32, global: u64, read: u32) -> Result<(), Fault> {
    aligned("shared address", u64::from(smem), 16)?;
    aligned("global address", global, 16)?;
    if read > 16 {
        let message = format!("{read} bytes to read for a copy of 16");
        return Err(Fault::new(Rule::Misaligned, message));
    }
    Ok(())
}

/// The CTAs of a multicast, in a cluster of `ctas`.
pub(crate) fn multicast(mask: u16, ctas: usize) -> Result<(), Fault> {
    if mask == 0 || u32::from(mask) >> ctas != 0 {
        let message = format!("multicast mask {mask:#06x} in a cluster of {ctas}");
        return Err(Fault::new(Rule::Operand, message));
    }
    Ok(())
}

/// A load's data and its mbarrier lie in one CTA.
pub(crate) fn one_cta(data: usize, bar: usize) -> Result<(), Fault> {
    if data == bar {
        return Ok(());
    }
    let message = format!("data in CTA {data}, mbarrier in CTA {bar}: both in one");
    Err(Fault::new(Rule::RemoteAddress, message))
}

/// Data and mbarrier of a load with `.cta_group::2`.
pub(crate) fn one_pair(data: usize, bar: usize) -> Result<(), Fault> {
    if data / 2 == bar / 2 {
        return Ok(());
    }
    let message = format!(
        "data in CTA {data}, mbarrier in CTA {bar}: with .cta_group::2 both are of one pair, whose ranks differ in the last bit only"
    );
    Err(Fault::new(Rule::RemoteAddress, message))
}
