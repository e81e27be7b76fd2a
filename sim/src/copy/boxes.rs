//! The geometry of TMA: which bytes of a box lie where, in shared and in global memory.

use super::reduce::{ReduceOp, reduce};
use crate::memory::global::{Allocation, GlobalError, GlobalMemory};
use crate::types::tensor_map::{DataType, TensorMapDesc};
use crate::types::tf32;
use std::sync::Arc;

/// One row of a box: `bytes` contiguous in the tensor.
struct Row {
    /// Offset of its first byte in the box, before swizzling.
    offset: u32,
    /// The part of it inside the tensor: offset in the row, global address, length.
    inside: Option<(u32, u64, u32)>,
}

/// Calls `f` for each row of the box at `coords`.
fn rows<E>(
    map: &TensorMapDesc,
    coords: [i32; 5],
    mut f: impl FnMut(Row) -> Result<(), E>,
) -> Result<(), E> {
    let elem = map.dtype.size();
    let rank = map.rank as usize;
    let row_bytes = map.box_dims[0] * elem;
    let first = i64::from(coords[0]).clamp(0, map.dims[0] as i64);
    let last = (i64::from(coords[0]) + i64::from(map.box_dims[0])).clamp(0, map.dims[0] as i64);
    let outer: u32 = map.box_dims[1..rank].iter().product();
    for index in 0..outer {
        let (mut rest, mut addr, mut inside) = (index, map.addr, first < last);
        for (d, &coord) in coords.iter().enumerate().take(rank).skip(1) {
            let at = i64::from(coord) + i64::from(rest % map.box_dims[d]);
            rest /= map.box_dims[d];
            inside &= at >= 0 && (at as u64) < map.dims[d];
            addr = addr.wrapping_add((at as u64).wrapping_mul(map.strides[d - 1]));
        }
        let inside = inside.then(|| {
            let skip = (first - i64::from(coords[0])) as u32 * elem;
            let addr = addr + first as u64 * u64::from(elem);
            (skip, addr, (last - first) as u32 * elem)
        });
        f(Row { offset: index * row_bytes, inside })?;
    }
    Ok(())
}

/// Calls `f` with the runs of global memory that a box covers; `whole` if they are written.
pub(crate) fn spans(
    map: &TensorMapDesc,
    coords: [i32; 5],
    whole: bool,
    mut f: impl FnMut(u64, u64),
) {
    let row_bytes = map.box_dims[0] * map.dtype.size();
    let each = |row: Row| {
        if let Some((skip, addr, len)) = row.inside {
            let to_end = whole_writes(addr, len).min(row_bytes - skip);
            f(addr, u64::from(if whole { to_end } else { len }));
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = rows(map, coords, each);
}

/// The address of the first byte of a box that lies in the tensor, if one does. The map's own address need not be that
/// of memory, if no box that is loaded lies outside of the tensor.
pub(crate) fn first(map: &TensorMapDesc, coords: [i32; 5]) -> Option<u64> {
    let found = rows(map, coords, |row| match row.inside {
        Some((_, addr, _)) => Err(addr),
        None => Ok(()),
    });
    found.err()
}

/// The allocation of a box that is not outside of the tensor.
fn allocation(
    memory: &GlobalMemory,
    map: &TensorMapDesc,
    coords: [i32; 5],
) -> Result<Option<Arc<Allocation>>, GlobalError> {
    first(map, coords).map(|addr| memory.find(addr, 1)).transpose()
}

/// Loads a box into `smem`, the bytes of the box at shared address `dst`; outside the tensor it is
/// zero. A tf32 is rounded.
///
/// Of a box that lies wholly outside, the chip reads from the map's address: without memory there, an H200 reported an illegal
/// access. A prefetch and a store of such a box did not.
pub(crate) fn load(
    memory: &GlobalMemory,
    map: &TensorMapDesc,
    coords: [i32; 5],
    dst: u32,
    smem: &mut [u8],
) -> Result<(), GlobalError> {
    let row_bytes = map.box_dims[0] * map.dtype.size();
    let mut row = vec![0u8; row_bytes as usize];
    let Some(allocation) = allocation(memory, map, coords)? else {
        memory.find(map.addr, 1).map_err(|_| GlobalError::MapAddress { addr: map.addr })?;
        smem.fill(0);
        return Ok(());
    };
    allocation.with(|view| {
        rows(map, coords, |r| {
            match r.inside {
                Some((skip, addr, len)) => {
                    if len < row_bytes {
                        row.fill(0);
                    }
                    row[skip as usize..(skip + len) as usize]
                        .copy_from_slice(view.get(addr, u64::from(len))?);
                    if map.dtype == DataType::Tf32 {
                        for word in row.as_chunks_mut().0 {
                            *word = tf32::round(f32::from_le_bytes(*word)).to_le_bytes();
                        }
                    }
                }
                None => row.fill(0),
            }
            for (i, chunk) in row.chunks_exact(16).enumerate() {
                let at = dst + r.offset + i as u32 * 16;
                let at = (map.swizzle.apply(at) - dst) as usize;
                smem[at..at + 16].copy_from_slice(chunk);
            }
            Ok(())
        })
    })
}

/// What a store does with an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Combine {
    /// Writes it.
    Store,
    /// Combines it with what is there.
    Reduce(ReduceOp),
}

/// TMA writes aligned runs of this many bytes: see [`store`].
const WRITE_BYTES: u64 = 16;

/// Length of the run from `addr` that a write of `len` bytes takes.
fn whole_writes(addr: u64, len: u32) -> u32 {
    ((addr + u64::from(len)).next_multiple_of(WRITE_BYTES) - addr) as u32
}

/// Stores a box that was read from shared address `src`; outside the tensor nothing is written,
/// except that the last element of a row takes the rest of its 16 bytes with it. (Seen on an H200:
/// a box of 64 bf16 stored to a tensor of 57 columns writes all 64, to one of 33 columns 40.) The
/// pitch is a multiple of 16 bytes, so that what is overwritten lies between the row's end and the
/// next row: padding, or a neighbour's columns. Reductions are taken to be exact; nobody has looked.
pub(crate) fn store(
    memory: &GlobalMemory,
    map: &TensorMapDesc,
    coords: [i32; 5],
    src: u32,
    smem: &[u8],
    combine: Combine,
) -> Result<(), GlobalError> {
    let row_bytes = map.box_dims[0] * map.dtype.size();
    let mut row = vec![0u8; row_bytes as usize];
    let Some(allocation) = allocation(memory, map, coords)? else { return Ok(()) };
    allocation.with_mut(|view| {
        rows(map, coords, |r| {
            let Some((skip, addr, len)) = r.inside else { return Ok(()) };
            for (i, chunk) in row.chunks_exact_mut(16).enumerate() {
                let at = src + r.offset + i as u32 * 16;
                let at = (map.swizzle.apply(at) - src) as usize;
                chunk.copy_from_slice(&smem[at..at + 16]);
            }
            let len = match combine {
                Combine::Store => whole_writes(addr, len).min(row_bytes - skip),
                Combine::Reduce(_) => len,
            };
            let part = &row[skip as usize..(skip + len) as usize];
            let out = view.get(addr, u64::from(len))?;
            match combine {
                Combine::Store => out.copy_from_slice(part),
                Combine::Reduce(op) => reduce(op, map.dtype, out, part),
            }
            Ok(())
        })
    })
}

/// Stores a plain run of bytes.
pub(crate) fn store_run(
    memory: &GlobalMemory,
    dst: u64,
    bytes: &[u8],
    combine: Combine,
    dtype: DataType,
) -> Result<(), GlobalError> {
    let len = bytes.len() as u64;
    memory.find(dst, len)?.with_mut(|view| {
        let out = view.get(dst, len)?;
        match combine {
            Combine::Store => out.copy_from_slice(bytes),
            Combine::Reduce(op) => reduce(op, dtype, out, bytes),
        }
        Ok(())
    })
}
