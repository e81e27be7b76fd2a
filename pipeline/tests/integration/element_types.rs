//! Products of every element type that wgmma has, from tensor maps through a ring, on the SM model.
#![allow(missing_docs)]

use crate::common::run;
use float8::{F8E4M3, F8E5M2};
use isa::Tf32;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, KernelArg};
use isa::slice::{DeviceSliceMut, SliceAbi};
use isa::wgmma::{M64, MulBy, Shape};
use pipeline::mma::{IntAccumulator, TallAccumulator};
use pipeline::prelude::*;
use pipeline::tile::{Element, TileShape};
use sim::GlobalMemory;
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};

names! { Main = "main loop" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

type Alone = Cluster<1, 1>;

/// An element, from a small whole number.
trait Of: Element + Sync {
    const MAP: DataType;
    fn bytes(x: i32) -> Vec<u8>;
}
macro_rules! elements {
    ($($t:ty, $map:ident: |$x:ident| $bytes:expr;)+) => {$(
        impl Of for $t {
            const MAP: DataType = DataType::$map;
            fn bytes($x: i32) -> Vec<u8> {
                $bytes.to_vec()
            }
        }
    )+};
}
elements! {
    half::bf16, Bf16: |x| half::bf16::from_f32(x as f32).to_le_bytes();
    F8E4M3, U8: |x| [F8E4M3::from_f32(x as f32).to_bits()];
    F8E5M2, U8: |x| [F8E5M2::from_f32(x as f32).to_bits()];
    i8, U8: |x| (x as i8).to_le_bytes();
    Tf32, Tf32: |x| Tf32::from_f32(x as f32).to_bits().to_le_bytes();
}

/// Element (`row`, `k`) of operand `which`.
fn value(which: usize, row: usize, k: usize) -> i32 {
    ((which * 3 + row * 7 + k * 5 + row * k) % 9) as i32 - 4
}

/// The tensor map of an operand of `rows` rows and `cols` columns, whose values are [`value`]'s.
fn operand<T>(memory: &GlobalMemory, which: usize, rows: usize, cols: usize) -> TensorMap<T>
where
    T: TileShape,
    T::Element: Of,
{
    let size = T::Element::SIZE;
    let bytes: Vec<u8> = (0..rows * cols)
        .flat_map(|i| T::Element::bytes(value(which, i / cols, i % cols)))
        .collect();
    let addr = memory.alloc(bytes.len());
    memory.write(addr, &bytes).expect("just allocated");
    let words = encode(&TensorMapDesc {
        dtype: T::Element::MAP,
        rank: 2,
        addr,
        dims: [cols as u64, rows as u64, 1, 1, 1],
        strides: [(cols * size) as u64, 0, 0, 0],
        box_dims: [T::LINE_ELEMENTS as u32, TensorMap::<T>::BOX_ROWS as u32, 1, 1, 1],
        swizzle: if T::SWIZZLE == 128 { Swizzle::B128 } else { Swizzle::B64 },
    })
    .expect("a valid tensor");
    // SAFETY: the box, the element and the swizzle are the tile's; the memory outlives the run.
    unsafe { TensorMap::from_bytes(TensorMapBytes(words)) }
}

/// D = A·Bᵀ of 64 x N, `K` columns in slots of `BK`.
fn product<EA, EB, const N: usize, const BK: usize, const SWIZZLE: usize>(k_tiles: usize)
where
    EA: Of + MulBy<EB, Sum: Into<f64> + Copy>,
    EB: Of + isa::wgmma::Operand,
    M64<N>: Shape<EA::Sum>,
{
    type Tiles<EA, EB, const N: usize, const BK: usize, const S: usize> =
        (Tile<EA, 64, BK, KMajor, S>, Tile<EB, N, BK, KMajor, S>);
    use pipeline::tile::KMajor;
    let memory = GlobalMemory::new();
    let cols = BK * k_tiles;
    let a = operand::<Tile<EA, 64, BK, KMajor, SWIZZLE>>(&memory, 0, 64, cols);
    let b = operand::<Tile<EB, N, BK, KMajor, SWIZZLE>>(&memory, 1, N, cols);
    let address = memory.alloc(64 * N * 4);
    type Plan<St> = SmemPlan<(Ring<2, St, Tma, Mma<Math>, Main, Alone>,)>;
    for seed in 0..3 {
        let abi = SliceAbi { address, elements: (64 * N) as u64 };
        run(seed, &memory, |cta: Cta<(Load, Math), Alone, Plan<Tiles<EA, EB, N, BK, SWIZZLE>>>| {
            // SAFETY: the memory outlives the run, and no other launch has it.
            let d: DeviceSliceMut<'_, f32> = unsafe { DeviceSliceMut::from_abi(abi) };
            let (cta, (ring,)) = cta.init();
            cta.specialize(
                |load| {
                    load.elect(|one| {
                        let mut loads = ring.producer.by(&one);
                        for k in 0..k_tiles {
                            let k = (k * BK) as u32;
                            let tiles = (a.tile(0, k, Peers::ALONE), b.tile(0, k, Peers::ALONE));
                            loads.acquire().load(tiles);
                        }
                        loads.tail();
                    });
                },
                |group| {
                    let mut full = ring.consumer.by(&group);
                    let mut sum = TallAccumulator::<N, 1, EA::Sum>::start(&group, full.wait());
                    for _ in 1..k_tiles {
                        sum.next(full.wait()).release();
                    }
                    let (sum, last) = sum.finish();
                    last.release();
                    for fragment in 0..N / 16 {
                        for (i, x) in sum.fragment(fragment).into_iter().enumerate() {
                            let (row, column) = group.place(i);
                            let at = row as usize * N + 16 * fragment + column as usize;
                            d.set(at, x.into() as f32);
                        }
                    }
                },
            );
        })
        .unwrap_or_else(|report| panic!("{report}"));
        let mut bytes = vec![0; 64 * N * 4];
        memory.read(address, &mut bytes).expect("allocated");
        for (i, word) in bytes.as_chunks().0.iter().enumerate() {
            let (row, col) = (i / N, i % N);
            let want: i32 = (0..cols).map(|k| value(0, row, k) * value(1, col, k)).sum();
            let want = (want as f32).to_bits();
            assert_eq!(u32::from_le_bytes(*word), want, "({row}, {col}), seed {seed}");
        }
    }
}

#[test]
fn eight_bit_floats_in_any_mix() {
    product::<F8E4M3, F8E4M3, 64, 128, 128>(3);
    product::<F8E4M3, F8E5M2, 32, 256, 128>(2);
    product::<F8E5M2, F8E4M3, 128, 64, 64>(3);
    product::<F8E5M2, F8E5M2, 16, 128, 128>(1);
}

#[test]
fn tf32() {
    product::<Tf32, Tf32, 64, 32, 128>(3);
    product::<Tf32, Tf32, 32, 64, 128>(2);
}

#[test]
fn integers() {
    product::<i8, i8, 48, 128, 128>(3);
    product::<i8, i8, 16, 64, 64>(2);
}

#[test]
fn sums_of_integers_become_floats() {
    assert_eq!(IntAccumulator::<80>::zeros().fragment(4), [0i32; 8]);
    let floats = IntAccumulator::<80>::zeros().to_f32().fragment(4);
    assert_eq!(floats.map(f32::to_bits), [0; 8]);
}

#[test]
fn sixteen_bits_as_before() {
    product::<half::bf16, half::bf16, 64, 64, 128>(3);
}

/// What the metadata of a kernel's parameters says of their elements: the host encodes the map by it.
#[test]
fn tensor_maps_of_every_element() {
    type Meta<E, const COLS: usize> = TensorMap<Tile<E, 64, COLS>>;
    let of_bytes = <&Meta<F8E4M3, 256> as KernelArg>::META;
    assert_eq!((of_bytes.dtype, of_bytes.box_cols), (Dtype::E4m3 as u32, 128));
    let of_bytes = <&Meta<i8, 128> as KernelArg>::META;
    assert_eq!((of_bytes.dtype, of_bytes.box_cols), (Dtype::I8 as u32, 128));
    let of_words = <&Meta<Tf32, 64> as KernelArg>::META;
    assert_eq!((of_words.dtype, of_words.box_cols), (Dtype::Tf32 as u32, 32));
    assert_eq!(<&Meta<i32, 32> as KernelArg>::META.dtype, Dtype::I32 as u32);
}
