//! Tensor maps that a kernel changes: they load what a map of the host would load.

use super::Litmus;
use super::tensor::{Tensor, named};
use crate::bench::{Bench, words};
use crate::kernels::tensor::{Coords, FILL, GUARD};
use crate::kernels::tensor_maps::{
    Change, changed_map_1, changed_map_2, changed_map_3, changed_map_4, changed_map_5, field,
};
use crate::log::{Allowed, Log};
use host::{Dtype, Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "tensormap.replace: each field, in shared memory",
        says: "The instruction replaces one field. A map that is changed in shared memory and published with \
               tensormap.cp_fenceproxy is the map of the new values, in this CTA and in others.",
        run: |bench, log| fields(bench, log, 0),
        refused: None,
    },
    Litmus {
        name: "tensormap.replace: each field, in global memory",
        says: "The same with fence.proxy.tensormap::generic.release.",
        run: |bench, log| fields(bench, log, 1),
        refused: None,
    },
    Litmus {
        name: "tensormap.replace: all fields, rank 1 to 5",
        says: "All fields make a new map of any other, and on sm_90a of zeros.",
        run: all_fields,
        refused: None,
    },
];

/// A tensor, and where in its buffer it begins.
struct Case<'a> {
    of: Tensor<'a>,
    offset: u64,
}

/// The numbers of `tensormap.replace` (PTX manual, table of values).
fn elemtype(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 => 0,
        Dtype::U32 => 2,
        Dtype::I32 => 3,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::Bf16 => 10,
        Dtype::Tf32 => 11,
    }
}

/// Makes a map of `to` from one of `from`, both in one buffer, by replacing these fields; loads boxes with it
/// in two CTAs.
fn change(
    bench: &Bench,
    log: &mut Log,
    (from, to): (&Tensor<'_>, &Case<'_>),
    (fields, zeros, global): (u32, u32, u32),
    coords: &[[i32; 5]],
) -> Result<(), Error> {
    let kernels: [&KernelDesc; 5] = [
        &changed_map_1::DESC,
        &changed_map_2::DESC,
        &changed_map_3::DESC,
        &changed_map_4::DESC,
        &changed_map_5::DESC,
    ];
    let (of, bytes) = (&to.of, to.of.box_bytes());
    let data: Vec<u8> = (0..from.bytes().max(to.offset + of.bytes())).map(named).collect();
    let buffer = bench.device.upload(&data)?;
    let template = from.map(bench, &buffer)?;
    let pad = |list: &[u64]| std::array::from_fn(|i| list.get(i).copied().unwrap_or(0));
    let dims: [u64; 5] = pad(of.dims).map(|d| d.max(1));
    let [a, b, c, d, _] = pad(&of.strides());
    let change = Change {
        address: buffer.addr() + to.offset,
        strides: [a, b, c, d],
        fields,
        zeros,
        global,
        elemtype: elemtype(of.dtype),
        swizzle: match of.swizzle {
            0 => 0,
            32 => 1,
            64 => 2,
            _ => 3,
        },
        box_dims: std::array::from_fn(|i| of.box_dims.get(i).copied().unwrap_or(1)),
        dims: dims.map(|d| d as u32),
        padding: 0,
    };
    let each = (1 + bytes / 4 + GUARD) as usize;
    for &at in coords {
        let slot = bench.device.alloc(128)?;
        let params = vec![
            Param::map(&template),
            Param::value(slot.addr()),
            Param::value(change),
            Param::value(Coords(at)),
            Param::value(bytes),
        ];
        let have = bench.observe_desc(kernels[of.dims.len() - 1], [2, 1, 1], 2 * each, params)?;
        let want = words(&of.loads(&data[to.offset as usize..], at));
        for (cta, have) in have.chunks_exact(each).enumerate() {
            let what = format!("fields {fields:#x}, {}, CTA {cta}", of.describe(at));
            log.part(format!("{what}: the phase completed"));
            log.push(have[0], Allowed::Is(1));
            log.part(format!("{what}: words of the box"));
            log.exactly(&have[1..=(bytes / 4) as usize], want.clone());
            log.part(format!("{what}: words behind it"));
            log.exactly(&have[1 + (bytes / 4) as usize..], [FILL; GUARD as usize]);
        }
    }
    Ok(())
}

fn fields(bench: &Bench, log: &mut Log, global: u32) -> Result<(), Error> {
    let plain = Tensor::plain;
    let from = plain(Dtype::U32, &[40, 12], &[16, 8]);
    let at = [[0; 5], [16, 3, 0, 0, 0], [32, 8, 0, 0, 0], [-16, -2, 0, 0, 0]];
    let mut case = |of: Tensor<'_>, offset: u64, fields: u32| {
        change(bench, log, (&from, &Case { of, offset }), (fields, 0, global), &at)
    };
    case(from, 48, field::ADDRESS)?;
    case(plain(Dtype::U32, &[40, 12], &[8, 8]), 0, field::BOX_DIM)?;
    case(plain(Dtype::U32, &[40, 12], &[16, 3]), 0, field::BOX_DIM)?;
    // The pitch of a tensor depends on its columns: rows alone, then columns and pitch.
    case(plain(Dtype::U32, &[40, 7], &[16, 8]), 0, field::GLOBAL_DIM)?;
    case(plain(Dtype::U32, &[30, 9], &[16, 8]), 0, field::GLOBAL_DIM | field::GLOBAL_STRIDE)?;
    case(plain(Dtype::F32, &[40, 12], &[16, 8]), 0, field::ELEMTYPE)?;
    // Elements of half the size: twice as many, in rows of the same pitch.
    let half = field::ELEMTYPE | field::GLOBAL_DIM | field::BOX_DIM;
    case(plain(Dtype::Bf16, &[80, 12], &[32, 8]), 0, half)?;
    case(plain(Dtype::F16, &[80, 12], &[32, 8]), 0, half)?;
    case(plain(Dtype::U8, &[160, 12], &[64, 8]), 0, half)?;
    case(Tensor { swizzle: 64, ..from }, 0, field::SWIZZLE)?;
    let narrow = Tensor { box_dims: &[8, 8], swizzle: 32, ..from };
    case(narrow, 0, field::SWIZZLE | field::BOX_DIM)?;
    let wide = Tensor { box_dims: &[32, 8], swizzle: 128, ..from };
    case(wide, 0, field::SWIZZLE | field::BOX_DIM)?;
    // To what they are already.
    case(from, 0, field::ELEMENT_STRIDE | field::INTERLEAVE | field::FILL)?;
    case(from, 0, field::RANK)
}

fn all_fields(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let cases = [
        Tensor::plain(Dtype::U32, &[100], &[16]),
        Tensor { dtype: Dtype::Bf16, dims: &[72, 20], box_dims: &[64, 8], swizzle: 128 },
        Tensor::plain(Dtype::Bf16, &[37, 6, 5], &[16, 4, 3]),
        Tensor { dtype: Dtype::F32, dims: &[24, 3, 4, 3], box_dims: &[8, 2, 3, 2], swizzle: 32 },
        Tensor::plain(Dtype::F16, &[19, 3, 3, 2, 3], &[8, 2, 2, 2, 2]),
    ];
    let other = Tensor { dtype: Dtype::U8, dims: &[333, 9, 4], box_dims: &[64, 2, 2], swizzle: 64 };
    for of in cases {
        for (zeros, global) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let case = Case { of, offset: 32 };
            let at = [[0; 5], [8, 1, 1, 1, 1], [-8, -1, 0, 0, 0]];
            change(bench, log, (&other, &case), (field::ALL, zeros, global), &at)?;
        }
    }
    Ok(())
}
