//! A dependent kernel's slices, alone and in a struct with `#[derive(KernelArg)]`, launched through the host.
#![allow(missing_docs)]

use host::{Device, Param, SimConfig};
use isa::kernel;
use isa::kernel::{ByValue, Kernel, KernelArg, ParamKind};
use pipeline::grid::{DependentSlice, DependentSliceMut};
use pipeline::prelude::*;

roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
type ThisCta = Cta<(Load, Math), Cluster<1, 1>>;

/// `y = scale * x + offset`.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct Affine<'a, E: ByValue> {
    scale: f32,
    x: DependentSlice<'a, f32>,
    y: DependentSliceMut<'a, f32>,
    offset: E,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct Offset {
    parts: [f32; 2],
}

#[kernel(dependent = true)]
fn affine(cta: ThisCta, args: Affine<'_, Offset>) {
    let (early, ()) = cta.prologue();
    early.specialize(
        |_load| {},
        |math| {
            let math = math.wait();
            let (x, y) = (args.x.by(&math), args.y.by(&math));
            let i = math.thread() as usize;
            if let Some(x) = x.get(i) {
                y.set(i, args.scale * x + args.offset.parts[0] + args.offset.parts[1]);
            }
        },
    );
}

#[kernel(dependent = true)]
fn doubled(cta: ThisCta, x: DependentSlice<'_, f32>, y: DependentSliceMut<'_, f32>) {
    let (cta, ()) = cta.init();
    let (x, y) = (x.by(&cta), y.by(&cta));
    cta.specialize(
        |_load| {},
        |math| {
            let i = math.thread() as usize;
            if let Some(value) = x.get(i) {
                y.set(i, 2.0 * value);
            }
        },
    );
}

const ELEMENTS: usize = 100;

fn floats(device: &Device, f: impl Fn(usize) -> f32) -> host::Buffer {
    let bytes: Vec<u8> = (0..ELEMENTS).flat_map(|i| f(i).to_le_bytes()).collect();
    device.upload(&bytes).unwrap()
}

fn values(buffer: &host::Buffer) -> Vec<f32> {
    let bytes = buffer.to_vec().unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn args<'a>(x: &'a host::Buffer, y: &'a mut host::Buffer) -> Affine<'a, Offset> {
    let (x, y) = (x.dependent_slice(), y.dependent_slice_mut());
    Affine { scale: 3.0, x, y, offset: Offset { parts: [0.5, 0.25] } }
}

#[test]
fn slices_in_a_struct_arrive() {
    let device = Device::sim(SimConfig::default());
    let (x, mut y) = (floats(&device, |i| i as f32), floats(&device, |_| f32::NAN));
    let params = [Param::value(args(&x, &mut y))];
    device.launch_on_model(&affine::DESC, [1, 1, 1], &params).unwrap();
    drop(params);
    let right: Vec<f32> = (0..ELEMENTS).map(|i| 3.0 * i as f32 + 0.75).collect();
    assert_eq!(values(&y), right);
}

#[test]
fn slices_alone_arrive_from_a_buffer_or_as_values() {
    let device = Device::sim(SimConfig::default());
    let (x, mut y) = (floats(&device, |i| i as f32), floats(&device, |_| f32::NAN));
    let params = [Param::slice::<f32>(&x), Param::slice_mut::<f32>(&mut y)];
    device.launch_on_model(&doubled::DESC, [1, 1, 1], &params).unwrap();
    drop(params);
    let twice: Vec<f32> = (0..ELEMENTS).map(|i| 2.0 * i as f32).collect();
    assert_eq!(values(&y), twice);

    let (y, mut z) = (y, floats(&device, |_| f32::NAN));
    let params =
        [Param::value(y.dependent_slice::<f32>()), Param::value(z.dependent_slice_mut::<f32>())];
    device.launch_on_model(&doubled::DESC, [1, 1, 1], &params).unwrap();
    drop(params);
    assert_eq!(values(&z), twice.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
}

fn refused(device: &Device, desc: &kernel::KernelDesc, params: &[Param<'_>]) -> String {
    let line = device.launch_on_model(desc, [1, 1, 1], params).expect_err("refused").to_string();
    assert!(!line.contains('\n'), "one line, got: {line}");
    line
}

/// As large as [`Affine`], without a slice.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
struct Forged {
    words: [u64; 6],
}

#[test]
fn other_elements_numbers_and_foreign_memory_are_refused() {
    let device = Device::sim(SimConfig::default());
    let (x, mut y) = (floats(&device, |_| 0.0), floats(&device, |_| 0.0));
    let said = refused(
        &device,
        &doubled::DESC,
        &[Param::slice::<u32>(&x), Param::slice_mut::<f32>(&mut y)],
    );
    assert!(said.contains("slice of f32") && said.contains("slice of u32"), "{said}");

    let want = affine::DESC.meta.params()[0];
    assert_eq!(want.kind, ParamKind::Struct as u32);
    assert_eq!(want.size as usize, size_of::<Forged>());
    let said = refused(&device, &affine::DESC, &[Param::value(Forged { words: [16; 6] })]);
    assert!(said.contains("with gaps or slices"), "{said}");

    // Far behind what the launch's device has: models number their memory alike.
    let other = Device::sim(SimConfig::default());
    let _first = other.alloc_zeroed(1 << 20).unwrap();
    let (x, mut y) = (floats(&other, |_| 0.0), floats(&other, |_| 0.0));
    let said = refused(&device, &affine::DESC, &[Param::value(args(&x, &mut y))]);
    assert!(said.contains("a slice in parameter 0 (`args`) of kernel affine"), "{said}");
}
