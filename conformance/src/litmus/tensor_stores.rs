//! TMA stores and reductions: what is written, and what is not.

use super::tensor::{ILLEGAL, Tensor};
use super::{Litmus, Refusal};
use crate::bench::{Bench, words};
use crate::kernels::tensor::*;
use crate::log::{Allowed, Log};
use half::{bf16, f16};
use host::{Dtype, Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "TMA: stores of rank 1 to 5, with edges",
        says: "Elements outside of the tensor are not written; on the chip the last element of a \
               clipped row may take the rest of its 16 bytes with it, and both are allowed here.",
        run: stores,
        refused: None,
    },
    Litmus {
        name: "TMA: a store that begins left of the tensor",
        says: "The manual does not forbid it: what lies outside would not be written.",
        run: left,
        refused: Some(Refusal::both("WP033", ILLEGAL)),
    },
    Litmus {
        name: "TMA: a store that begins above the tensor",
        says: "The same for an outer dimension.",
        run: above,
        refused: Some(Refusal::both("WP033", ILLEGAL)),
    },
    Litmus {
        name: "TMA: a reduction that begins left of the tensor",
        says: "The same.",
        run: reduced_left,
        refused: Some(Refusal::both("WP033", ILLEGAL)),
    },
    Litmus {
        name: "TMA: a reduction that begins above the tensor",
        says: "The same.",
        run: reduced_above,
        refused: Some(Refusal::both("WP033", ILLEGAL)),
    },
    Litmus {
        name: "TMA: a store that begins between 16-byte boundaries",
        says: "The manual does not forbid it.",
        run: misaligned,
        refused: Some(Refusal::both("WP015", ILLEGAL)),
    },
    Litmus {
        name: "TMA: stores from swizzled tiles",
        says: "The tile is read through the swizzle with which loads write it.",
        run: swizzled_stores,
        refused: None,
    },
    Litmus {
        name: "TMA: reductions",
        says: "add, min, max, inc, dec, and, or, xor, element by element in the map's type; elements \
               outside are left alone. Behind a clipped row both are allowed, as for stores.",
        run: reductions,
        refused: None,
    },
];

/// How an element of the tensor (first) takes one of the box.
type Combine<'a> = &'a dyn Fn(u32, u32) -> u32;

/// The same on values.
type Of32 = fn(f32, f32) -> f32;

/// An element's bits.
fn get(bytes: &[u8], at: u64, size: u64) -> u32 {
    let mut word = [0; 4];
    word[..size as usize].copy_from_slice(&bytes[at as usize..][..size as usize]);
    u32::from_le_bytes(word)
}

fn put(bytes: &mut [u8], at: u64, size: u64, v: u32) {
    bytes[at as usize..][..size as usize].copy_from_slice(&v.to_le_bytes()[..size as usize]);
}

/// Stores or reduces a box, and looks at every element of the tensor's memory, padding as well.
fn write(
    bench: &Bench,
    log: &mut Log,
    of: Tensor<'_>,
    at: [i32; 5],
    [tensor, tile]: [&dyn Fn(u32) -> u32; 2],
    combine: Combine<'_>,
    op: Option<(&str, u32)>,
) -> Result<(), Error> {
    let kernels: [[&KernelDesc; 2]; 5] = [
        [&tensor_store_1::DESC, &tensor_reduce_1::DESC],
        [&tensor_store_2::DESC, &tensor_reduce_2::DESC],
        [&tensor_store_3::DESC, &tensor_reduce_3::DESC],
        [&tensor_store_4::DESC, &tensor_reduce_4::DESC],
        [&tensor_store_5::DESC, &tensor_reduce_5::DESC],
    ];
    let size = of.size();
    let mut before = vec![0u8; of.bytes() as usize];
    for i in 0..of.bytes() / size {
        put(&mut before, i * size, size, tensor(i as u32));
    }
    let mut image = vec![0u8; of.box_bytes() as usize];
    let mut allowed: Vec<_> =
        (0..of.bytes() / size).map(|i| Allowed::Is(get(&before, i * size, size))).collect();
    for (e, (offset, at)) in of.elements(at).enumerate() {
        let v = tile(e as u32);
        put(&mut image, u64::from(offset), size, v);
        // Behind the end of a row that is inside: an element of the padding.
        let mut clipped = at.clone();
        clipped[0] = clipped[0].min(of.dims[0] as i64 - 1);
        if let Some(address) = of.address(&at) {
            let i = (address / size) as usize;
            allowed[i] = Allowed::Is(combine(
                get(&before, address, size),
                get(&image, u64::from(offset), size),
            ));
        } else if let Some(last) = of.address(&clipped)
            && at[0] > 0
        {
            let beyond = last + (at[0] - clipped[0]) as u64 * size;
            if beyond < (last + size).next_multiple_of(16) {
                let old = get(&before, beyond, size);
                let new = combine(old, get(&image, u64::from(offset), size));
                allowed[(beyond / size) as usize] = Allowed::OneOf([old, new]);
            }
        }
    }
    let buffer = bench.device.upload(&before)?;
    let map = of.map(bench, &buffer)?;
    let from = bench.upload(&words(&image))?;
    let mut params = vec![Param::map(&map), Param::slice::<u32>(&from), Param::value(Coords(at))];
    let [store, reduce] = kernels[of.dims.len() - 1];
    let desc = match op {
        None => store,
        Some((_, number)) => {
            params.push(Param::value(number));
            reduce
        }
    };
    log.part(format!("{}: issued", of.describe(at)));
    let have = bench.observe_desc(desc, [1, 1, 1], 1, params)?;
    log.push(have[0], Allowed::Is(1));
    log.part(format!("{} {}: elements with padding", op.map_or("store", |o| o.0), of.describe(at)));
    let after = buffer.to_vec()?;
    for (i, allowed) in allowed.into_iter().enumerate() {
        log.push(get(&after, i as u64 * size, size), allowed);
    }
    Ok(())
}

fn store(bench: &Bench, log: &mut Log, of: Tensor<'_>, coords: &[[i32; 5]]) -> Result<(), Error> {
    for &at in coords {
        let mask = (u64::MAX >> (64 - 8 * of.size())) as u32;
        let tile = |e: u32| (e + 1) & mask;
        write(bench, log, of, at, [&|_| 0x5a5a_5a5a & mask, &tile], &|_, new| new, None)?;
    }
    Ok(())
}

fn stores(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    use Dtype::{Bf16, F16, F32, U8, U32};
    let t = Tensor::plain;
    store(
        bench,
        log,
        t(U32, &[101], &[16]),
        &[[0; 5], [84, 0, 0, 0, 0], [96, 0, 0, 0, 0], [104, 0, 0, 0, 0]],
    )?;
    let edges =
        [[0, 0, 0, 0, 0], [16, 3, 0, 0, 0], [0, 8, 0, 0, 0], [48, 5, 0, 0, 0], [80, 0, 0, 0, 0]];
    // Rows that end on 16 bytes, and such that don't: by one element, by all but one.
    for cols in [72u64, 57, 33, 64, 71] {
        let dims = [cols, 10];
        store(bench, log, Tensor::plain(Bf16, &dims, &[64, 4]), &edges)?;
        store(bench, log, Tensor::plain(F32, &dims, &[32, 4]), &edges)?;
        store(bench, log, Tensor::plain(U8, &dims, &[64, 4]), &edges)?;
    }
    store(
        bench,
        log,
        t(F16, &[37, 6, 5], &[16, 4, 3]),
        &[[0; 5], [24, 3, 3, 0, 0], [32, 5, 4, 0, 0]],
    )?;
    store(bench, log, t(F32, &[21, 3, 4, 3], &[8, 2, 3, 2]), &[[0; 5], [16, 2, 2, 2, 0]])?;
    store(bench, log, t(Bf16, &[19, 3, 3, 2, 3], &[8, 2, 2, 2, 2]), &[[0; 5], [16, 2, 2, 1, 2]])
}

fn at(bench: &Bench, log: &mut Log, coords: [i32; 5]) -> Result<(), Error> {
    store(bench, log, Tensor::plain(Dtype::F32, &[72, 10], &[32, 4]), &[coords])
}

fn left(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    at(bench, log, [-16, 3, 0, 0, 0])
}

fn above(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    at(bench, log, [16, -2, 0, 0, 0])
}

fn misaligned(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    at(bench, log, [17, 3, 0, 0, 0])
}

fn reduced_at(bench: &Bench, log: &mut Log, at: [i32; 5]) -> Result<(), Error> {
    let data: [&dyn Fn(u32) -> u32; 2] = [&|i| i * 7 % 23, &|e| e * 5 % 13];
    let of = Tensor::plain(Dtype::U32, &[37, 9], &[16, 8]);
    write(bench, log, of, at, data, &|a, b| a.wrapping_add(b), Some(("add", 0)))
}

fn reduced_left(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    reduced_at(bench, log, [-4, 1, 0, 0, 0])
}

fn reduced_above(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    reduced_at(bench, log, [4, -2, 0, 0, 0])
}

fn swizzled_stores(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    for (dtype, span) in [
        (Dtype::Bf16, 128),
        (Dtype::F32, 128),
        (Dtype::Bf16, 64),
        (Dtype::F32, 64),
        (Dtype::F16, 32),
        (Dtype::U8, 32),
    ] {
        let cols = span / dtype.size() as u32;
        let of = Tensor {
            dtype,
            dims: &[u64::from(cols) + 16, 40],
            box_dims: &[cols, 24],
            swizzle: span,
        };
        store(bench, log, of, &[[0; 5], [16, 16, 0, 0, 0], [32, 20, 0, 0, 0]])?;
    }
    Ok(())
}

fn reductions(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let integers: [(&str, Combine<'_>); 8] = [
        ("add", &|a, b| a.wrapping_add(b)),
        ("min", &|a, b| a.min(b)),
        ("max", &|a, b| a.max(b)),
        ("inc", &|a, b| if a >= b { 0 } else { a + 1 }),
        ("dec", &|a, b| if a == 0 || a > b { b } else { a - 1 }),
        ("and", &|a, b| a & b),
        ("or", &|a, b| a | b),
        ("xor", &|a, b| a ^ b),
    ];
    let places = [[0; 5], [24, 4, 0, 0, 0], [28, 7, 0, 0, 0], [32, 0, 0, 0, 0]];
    for (number, (name, combine)) in integers.into_iter().enumerate() {
        for at in places {
            let data: [&dyn Fn(u32) -> u32; 2] = [&|i| i * 7 % 23, &|e| e * 5 % 13];
            let t = Tensor::plain(Dtype::U32, &[37, 9], &[16, 8]);
            write(bench, log, t, at, data, combine, Some((name, number as u32)))?;
        }
    }
    for at in places {
        let data: [&dyn Fn(u32) -> u32; 2] =
            [&|i| (i as f32 * 0.5).to_bits(), &|e| (3.0 - e as f32).to_bits()];
        let add = |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
        let t = Tensor::plain(Dtype::F32, &[37, 9], &[16, 8]);
        write(bench, log, t, at, data, &add, Some(("add", 0)))?;
    }
    let floats: [(&str, u32, Of32); 3] =
        [("add", 0, |a, b| a + b), ("min", 1, f32::min), ("max", 2, f32::max)];
    for (name, number, combine) in floats {
        for at in [[0; 5], [32, 2, 0, 0, 0], [48, 4, 0, 0, 0], [56, 0, 0, 0, 0]] {
            let values: [fn(u32) -> f32; 2] =
                [|i| (i % 31) as f32 - 15.0, |e| 0.25 * (e % 37) as f32 - 4.0];
            let b = |x: f32| u32::from(bf16::from_f32(x).to_bits());
            let h = |x: f32| u32::from(f16::from_f32(x).to_bits());
            let of_b = |u: u32| bf16::from_bits(u as u16).to_f32();
            let of_h = |u: u32| f16::from_bits(u as u16).to_f32();
            let data: [&dyn Fn(u32) -> u32; 2] = [&|i| b(values[0](i)), &|e| b(values[1](e))];
            let t = Tensor::plain(Dtype::Bf16, &[57, 6], &[32, 4]);
            let both = |x, y| b(combine(of_b(x), of_b(y)));
            write(bench, log, t, at, data, &both, Some((name, number)))?;
            let data: [&dyn Fn(u32) -> u32; 2] = [&|i| h(values[0](i)), &|e| h(values[1](e))];
            let t = Tensor::plain(Dtype::F16, &[57, 6], &[32, 4]);
            let both = |x, y| h(combine(of_h(x), of_h(y)));
            write(bench, log, t, at, data, &both, Some((name, number)))?;
        }
    }
    Ok(())
}
