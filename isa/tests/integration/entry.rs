//! The entry that the model runs: it takes each parameter from the bytes that the launch passes.
#![allow(missing_docs)]

use std::cell::RefCell;

use isa::kernel;
use isa::kernel::{Kernel, KernelArg, KernelMeta, META_SYMBOL_PREFIX, ParamMeta};
use isa::slice::{DeviceSlice, SliceAbi};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
struct Params {
    m: u32,
    alpha: f32,
    big: u64,
}

#[kernel(threads = 32)]
fn shows(a: u32, x: DeviceSlice<f32>, p: Params, b: f32) {
    let line = format!("{a} {} {p:?} {b}", x.len());
    SEEN.with_borrow_mut(|seen| seen.push(line));
}

#[test]
fn entry_reads_each_parameter() {
    let (a, b) = (7u32, 0.25f32);
    let x = SliceAbi { address: 0x1_0000, elements: 11 };
    let p = Params { m: 1, alpha: 2.5, big: 1 << 40 };
    let params: [*const u8; 4] = [
        (&raw const a).cast(),
        (&raw const x).cast(),
        (&raw const p).cast(),
        (&raw const b).cast(),
    ];
    // SAFETY: four parameters of the types that `shows` has.
    unsafe { (shows::DESC.entry)(&params) };
    SEEN.with_borrow(|seen| {
        assert_eq!(*seen, ["7 11 Params { m: 1, alpha: 2.5, big: 1099511627776 } 0.25"]);
    });
}

/// `kernel-build` reads these bytes from the IR without this crate: the layout is an interface.
#[test]
fn metadata_layout() {
    use std::mem::offset_of;
    assert_eq!(META_SYMBOL_PREFIX, "__warpipe_kernel_");
    assert_eq!(size_of::<ParamMeta>(), 32);
    assert_eq!(size_of::<KernelMeta>(), 488);
    assert_eq!(offset_of!(KernelMeta, name), 8);
    assert_eq!(offset_of!(KernelMeta, threads), 72);
    assert_eq!(offset_of!(KernelMeta, min_ctas), 76);
    assert_eq!(offset_of!(KernelMeta, cluster), 80);
    assert_eq!(offset_of!(KernelMeta, smem_bytes), 92);
    assert_eq!(offset_of!(KernelMeta, dependent), 96);
    assert_eq!(offset_of!(KernelMeta, param_count), 100);
    assert_eq!(offset_of!(KernelMeta, params), 104);

    let meta = shows::DESC.meta;
    // SAFETY: `KernelMeta` is repr(C) of u8 and u32 without padding (the sizes above add up).
    let bytes: [u8; 488] = unsafe { std::mem::transmute(meta) };
    assert_eq!(&bytes[..8], b"WPKERN03");
    assert_eq!(&bytes[8..14], b"shows\0");
    assert_eq!(bytes[72..76], 32u32.to_le_bytes());
    assert_eq!(bytes[96..100], 0u32.to_le_bytes());
    assert_eq!(bytes[100..104], 4u32.to_le_bytes());
    // Parameter 1, the slice: kind 2, 16 bytes, alignment 8, element f32 of 4 bytes, read only.
    let words: Vec<u32> =
        bytes[136..168].chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
    assert_eq!(words, [2, 16, 8, 3, 0, 4, 0, 0]);
}
