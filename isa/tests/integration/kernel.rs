//! `#[kernel]` on the host: the description, and the entry that the model runs.
//!
//! The module forbids unsafe code, as a crate of kernels should be able to.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::cell::RefCell;

use half::bf16;
use isa::kernel;
use isa::kernel::{Dtype, Kernel, KernelArg, META_MAGIC, ParamKind, ParamMeta};
use isa::slice::{DeviceSlice, DeviceSliceMut};

const WARPS: u32 = 3;

struct Plan;
impl Plan {
    const BYTES: u32 = 4 * 1024;
}

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what the kernel below was called with.
#[kernel(threads = 32 * WARPS, cluster = (2, 1, 1), min_ctas = 2, smem = Plan::BYTES)]
fn every_scalar(a: u32, b: i32, mut c: u64, d: i64, e: f32, _: u32) {
    c += 1;
    SEEN.with_borrow_mut(|seen| seen.push(format!("{a} {b} {c} {d} {e}")));
}

#[kernel(threads = 128)]
pub fn slices(x: DeviceSlice<bf16>, y: DeviceSliceMut<'_, f32>, z: DeviceSlice<u64>) {
    let _ = (x.len(), y.len(), z.len());
}

#[kernel(threads = 1024)]
pub(crate) fn no_arguments() {}

#[kernel(threads = 32)]
fn r#match(_: u32) {}

macro_rules! instances {
    ($($name:ident: $t:ty, $threads:expr, $cluster:expr;)*) => {$(
        #[kernel(threads = $threads, cluster = $cluster)]
        pub fn $name(x: DeviceSlice<$t>, scale: f32) {
            let _ = (x.len(), scale);
        }
    )*};
}
instances! {
    from_macro_bf16: bf16, 64 + 64, (1, 2, 1);
    from_macro_f32: f32, 256, (1, 1, 1);
}

#[test]
fn description_has_the_bounds() {
    let meta = every_scalar::DESC.meta;
    assert_eq!(meta.magic, META_MAGIC);
    assert_eq!(meta.name(), "every_scalar");
    assert_eq!(meta.threads, 96);
    assert_eq!(meta.min_ctas, 2);
    assert_eq!(meta.cluster, [2, 1, 1]);
    assert_eq!(meta.smem_bytes, 4096);
    let sizes: Vec<_> = meta.params().iter().map(|p| (p.kind, p.size, p.align)).collect();
    let value = ParamKind::Value as u32;
    let expected = [4, 4, 8, 8, 4, 4].map(|size| (value, size, size));
    assert_eq!(sizes, expected);
}

#[test]
fn bounds_have_defaults() {
    let meta = no_arguments::DESC.meta;
    assert_eq!((meta.threads, meta.min_ctas, meta.smem_bytes), (1024, 1, 0));
    assert_eq!(meta.cluster, [1, 1, 1]);
    assert!(meta.params().is_empty());
}

#[test]
fn slices_say_their_element() {
    // The element's type where `Dtype` has it, whether the kernel may write, the element's bytes.
    let expected = [(Dtype::Bf16 as u32, 0, 2), (Dtype::F32 as u32, 1, 4), (0, 0, 8)].map(
        |(dtype, writes, bytes)| ParamMeta {
            kind: ParamKind::Slice as u32,
            size: 16,
            align: 8,
            dtype,
            box_rows: writes,
            box_cols: bytes,
            swizzle_bytes: 0,
            rank: 0,
        },
    );
    assert_eq!(slices::DESC.meta.params(), expected);
}

#[test]
fn a_raw_identifier_has_a_plain_symbol() {
    assert_eq!(r#match::DESC.meta.name(), "match");
}

#[test]
fn kernels_come_out_of_macros() {
    let (a, b) = (from_macro_bf16::DESC.meta, from_macro_f32::DESC.meta);
    assert_eq!((a.name(), a.threads, a.cluster), ("from_macro_bf16", 128, [1, 2, 1]));
    assert_eq!((b.name(), b.threads, b.cluster), ("from_macro_f32", 256, [1, 1, 1]));
    assert_eq!(a.params()[0].dtype, Dtype::Bf16 as u32);
    assert_eq!(b.params()[0].dtype, Dtype::F32 as u32);
}

#[test]
fn the_function_stays_callable() {
    SEEN.with_borrow_mut(Vec::clear);
    every_scalar(1, -2, 3, -4, 0.5, 6);
    SEEN.with_borrow(|seen| assert_eq!(*seen, ["1 -2 4 -4 0.5"]));
}

#[test]
fn values_are_their_own_abi() {
    fn meta<T: KernelArg>() -> ParamMeta {
        T::META
    }
    let of = |dtype: Dtype| ParamMeta { dtype: dtype as u32, ..ParamMeta::value(4, 4) };
    assert_eq!(meta::<f32>(), of(Dtype::F32));
    assert_eq!(meta::<u32>(), of(Dtype::U32));
    assert_eq!(meta::<i32>(), of(Dtype::I32));
    assert_eq!(meta::<u64>(), ParamMeta::value(8, 8));
}
