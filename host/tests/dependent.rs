//! A dependent kernel's slices, alone and in a struct with `#[derive(KernelArg)]`, launched through the host.
#![allow(missing_docs)]

extern crate warpipe_host as host;

use host::testing::check;
use host::{Buffer, Device, Error, Param, SimConfig};
use isa::kernel;
use isa::kernel::{ByValue, Kernel, KernelArg, KernelDesc, ParamKind};
use isa::{global, griddepcontrol, thread};
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

/// Memory of `Device::alloc` has no values until somebody writes them: WP057.
#[test]
fn a_slice_of_fresh_memory_is_reported() {
    let device = Device::sim(SimConfig::default());
    let mut x = device.alloc(4 * ELEMENTS).unwrap();
    let mut y = device.alloc(4 * ELEMENTS).unwrap();
    let mut run = |x: &Buffer| {
        let params = [Param::slice::<f32>(x), Param::slice_mut::<f32>(&mut y)];
        device.launch_on_model(&doubled::DESC, [1, 1, 1], &params)
    };
    match run(&x).unwrap_err() {
        Error::Model(report) => {
            assert_eq!(report.rule, host::sim::Rule::GlobalUnwritten, "{report}");
        }
        other => panic!("{other}"),
    }
    x.fill(0).unwrap();
    run(&x).unwrap();
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

/// Word `i` of global memory at an address.
fn word(at: u64, i: u32) -> *mut u32 {
    (at + 4 * u64::from(i)) as *mut u32
}

/// Lets the next kernel start, waits, and writes `value + i` to word i.
#[kernel(threads = 32, dependent = true)]
fn counts(to: u64, value: u32) {
    griddepcontrol::launch_dependents();
    griddepcontrol::wait();
    let i = thread::thread_idx_x();
    // SAFETY: each thread has a word.
    unsafe { global::st(word(to, i), value + i) };
}

/// Adds one to each word. It waits for the kernel ahead only if `waits`.
#[kernel(threads = 32, dependent = true)]
fn increments(from: u64, to: u64, waits: u32) {
    griddepcontrol::launch_dependents();
    if waits != 0 {
        griddepcontrol::wait();
    }
    let i = thread::thread_idx_x();
    // SAFETY: each thread has a word; that the kernel ahead may not have written it is the bug.
    unsafe { global::st(word(to, i), global::ld::<u32>(word(from, i)) + 1) };
}

/// Needs nothing of the kernel ahead, and waits only if `waits`.
#[kernel(threads = 32, dependent = true)]
fn passes_by(waits: u32) {
    griddepcontrol::launch_dependents();
    if waits != 0 {
        griddepcontrol::wait();
    }
}

fn one(model: &Device, desc: &KernelDesc, params: &[Param<'_>]) -> Result<(), Error> {
    model.launch_on_model(desc, [1, 1, 1], params)
}

fn words(buffer: &Buffer) -> Result<Vec<u32>, Error> {
    let bytes = buffer.to_vec()?;
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// `counts`, two `increments` behind it, and their result.
fn three(model: &Device, second: u32, third: u32) -> Result<(), Error> {
    let [a, b, c] = [0; 3].map(|_| model.alloc_zeroed(128));
    let (a, b, c) = (a?, b?, c?);
    one(model, &counts::DESC, &[Param::value(a.addr()), Param::value(5u32)])?;
    let params = [Param::value(a.addr()), Param::value(b.addr()), Param::value(second)];
    one(model, &increments::DESC, &params)?;
    let params = [Param::value(b.addr()), Param::value(c.addr()), Param::value(third)];
    one(model, &increments::DESC, &params)?;
    assert_eq!(words(&c)?, (7..39).collect::<Vec<u32>>());
    Ok(())
}

fn model(seed: u64) -> Device {
    Device::sim(SimConfig { seed, ..SimConfig::default() })
}

fn rule(error: &Error) -> &'static str {
    let Error::Model(report) = error else { panic!("{error}") };
    report.rule.code()
}

#[test]
fn a_chain_in_which_all_wait_is_silent() {
    check(100, |model| Ok(three(model, 1, 1)?));
}

#[test]
#[should_panic = "WP045: an access that a dependent launch does not order"]
fn a_kernel_that_does_not_wait_is_found() {
    check(1, |model| Ok(three(model, 0, 1)?));
}

/// Wherever it stands in the chain, under every seed.
#[test]
fn every_seed_finds_a_kernel_that_does_not_wait() {
    for seed in 0..100 {
        for [second, third] in [[0, 1], [1, 0]] {
            let error = three(&model(seed), second, third).unwrap_err();
            assert_eq!(rule(&error), "WP045", "seed {seed}: {error}");
            let text = error.to_string();
            assert!(text.contains("increments") && text.contains("dependent.rs"), "{text}");
        }
    }
}

/// The wait of the third says nothing of the first, if the second does not wait.
#[test]
fn a_chain_that_the_second_breaks() {
    for seed in 0..100 {
        for waits in [0u32, 1] {
            let model = model(seed);
            let (a, b) = (model.alloc_zeroed(128).unwrap(), model.alloc_zeroed(128).unwrap());
            one(&model, &counts::DESC, &[Param::value(a.addr()), Param::value(0u32)]).unwrap();
            one(&model, &passes_by::DESC, &[Param::value(waits)]).unwrap();
            let params = [Param::value(a.addr()), Param::value(b.addr()), Param::value(1u32)];
            match one(&model, &increments::DESC, &params) {
                Ok(()) => assert_eq!(waits, 1, "seed {seed}"),
                Err(error) => assert_eq!((waits, rule(&error)), (0, "WP045"), "seed {seed}"),
            }
        }
    }
}

/// A finding is reported once, by the call that runs into it; and who waits on the host orders all.
#[test]
fn the_host_that_waits_ends_the_chain() {
    type Waits = fn(&Device, &mut Buffer) -> Result<(), Error>;
    let waits: [Waits; 4] = [
        |model, _| model.synchronize(),
        |model, _| model.stream().synchronize(),
        |_, buffer| buffer.to_vec().map(drop),
        |model, _| model.alloc_zeroed(4).map(drop),
    ];
    for wait in waits {
        let model = model(3);
        let (mut a, b) = (model.alloc_zeroed(128).unwrap(), model.alloc_zeroed(128).unwrap());
        let params = [Param::value(a.addr()), Param::value(b.addr()), Param::value(0u32)];
        for waited in [false, true] {
            one(&model, &counts::DESC, &[Param::value(a.addr()), Param::value(0u32)]).unwrap();
            if waited {
                wait(&model, &mut a).unwrap();
            }
            let launched = one(&model, &increments::DESC, &params);
            assert_eq!(launched.is_ok(), waited);
        }
        assert_eq!(words(&b).unwrap(), (1..33).collect::<Vec<u32>>());
    }
}

/// Looks at a word before and after the wait.
#[kernel(threads = 32, dependent = true)]
fn looks(at: u64, out: u64) {
    if thread::thread_idx_x() == 0 {
        // SAFETY: all accesses to the flag are atomic; the results are the thread's own.
        unsafe {
            let early = global::ld_acquire_gpu_u32(word(at, 0));
            griddepcontrol::wait();
            global::st(word(out, 0), early);
            global::st(word(out, 1), global::ld_acquire_gpu_u32(word(at, 0)));
        }
    }
}

/// Lets the next kernel start, and then sets a word.
#[kernel(threads = 32)]
fn sets(at: u64) {
    griddepcontrol::launch_dependents();
    if thread::thread_idx_x() == 0 {
        // SAFETY: all accesses to the flag are atomic.
        unsafe { global::st_release_gpu_u32(word(at, 0), 1) };
    }
}

/// The launches overlap under some seeds and not under others, and count once.
#[test]
fn a_dependent_kernel_may_come_early() {
    let mut seen = [0; 2];
    for seed in 0..40 {
        let model = model(seed);
        let (flag, out) = (model.alloc_zeroed(4).unwrap(), model.alloc_zeroed(8).unwrap());
        one(&model, &sets::DESC, &[Param::value(flag.addr())]).unwrap();
        let params = [Param::value(flag.addr()), Param::value(out.addr())];
        one(&model, &looks::DESC, &params).unwrap();
        let [early, late] = words(&out).unwrap()[..] else { panic!("two words") };
        assert_eq!(late, 1, "seed {seed}");
        seen[early as usize] += 1;
        assert_eq!(model.model_stats().unwrap().clusters, 2);
    }
    assert!(seen.iter().all(|&n| n > 4), "{seen:?}");
}
