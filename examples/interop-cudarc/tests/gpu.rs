//! Products on cudarc's streams and memory, between the program's own kernels, on two streams at a time,
//! captured and not. Every result is compared on the device with what warpipe computes alone.

#[path = "../../../host/tests/common/gpu.rs"]
mod gpu;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use gpu::{gpu, say};
use half::bf16;
use interop_cudarc::OwnKernels;
use std::error::Error;
use std::sync::{Arc, Barrier};
use std::time::Instant;
use warpipe::host::gemm::{Gemm, GemmPlan, GemmProblem};
use warpipe::host::{Buffer, Device, Dtype, Stream, View, ViewMut, data};

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Two sets of A, so that a product that runs before its A is there gives another result.
const SETS: usize = 2;
const ROUNDS: usize = 1000;
const PER_GRAPH: usize = 10;

/// A product whose result is known.
struct Case {
    problem: GemmProblem,
    a: [Vec<bf16>; SETS],
    b: Vec<bf16>,
    d: [Vec<bf16>; SETS],
}

fn values(bytes: &[u8]) -> Vec<bf16> {
    bytes.chunks_exact(2).map(|x| bf16::from_le_bytes([x[0], x[1]])).collect()
}

/// The plan of a product. If tiles can be split among clusters, they are: such a plan has a workspace.
fn plan(device: &Device, problem: &GemmProblem, split: bool) -> Done<GemmPlan> {
    let gemm = Gemm::new(device, &warpipe::GEMM_IMAGE)?;
    let plan = gemm.plan(problem)?;
    let kernel = plan.describe().kernel.clone().expect("a kernel");
    if !split || kernel.streamed > 0 {
        return Ok(plan);
    }
    for index in 0..gemm.instances().len() {
        let Ok(all) = gemm.schedules(problem, index) else { continue };
        if let Some((_, schedule)) = all.into_iter().find(|(_, s)| s.streamed > 0) {
            return Ok(gemm.plan_scheduled(problem, index, schedule)?);
        }
    }
    Err("no kernel splits tiles".into())
}

impl Case {
    /// Computed by warpipe, on a stream and memory of its own.
    fn new(device: &Device, [m, n, k]: [u64; 3], split: bool) -> Done<Self> {
        let ab = Dtype::Bf16;
        let problem = GemmProblem { m, n, k, ab, out: ab, beta_c: false };
        let encoded = |seed, count: u64| data::encode(&data::normal(seed, count as usize), ab);
        let (a, b) = ([encoded(1, m * k)?, encoded(2, m * k)?], encoded(3, n * k)?);
        let plan = plan(device, &problem, split)?;
        let on_b = device.upload(&b)?;
        let mut d = [const { Vec::new() }; SETS];
        for (a, d) in a.iter().zip(&mut d) {
            let mut on_d = device.alloc((2 * m * n) as usize)?;
            plan.run(&device.upload(a)?, &on_b, None, &mut on_d, 1.0, 0.0)?;
            *d = values(&on_d.to_vec()?);
        }
        assert!(d[0] != d[1], "the sets must differ");
        Ok(Self { problem, a: a.map(|a| values(&a)), b: values(&b), d })
    }
}

/// The case's matrices in cudarc's memory.
struct Memory {
    sets: [CudaSlice<bf16>; SETS],
    right: [CudaSlice<bf16>; SETS],
    a: CudaSlice<bf16>,
    b: CudaSlice<bf16>,
    d: CudaSlice<bf16>,
    differences: CudaSlice<u32>,
}

impl Memory {
    fn new(stream: &Arc<CudaStream>, case: &Case) -> Done<Self> {
        let [a0, a1] = &case.a;
        let [d0, d1] = &case.d;
        Ok(Self {
            sets: [stream.clone_htod(a0)?, stream.clone_htod(a1)?],
            right: [stream.clone_htod(d0)?, stream.clone_htod(d1)?],
            a: stream.alloc_zeros(a0.len())?,
            b: stream.clone_htod(&case.b)?,
            d: stream.alloc_zeros(d0.len())?,
            differences: stream.alloc_zeros(1)?,
        })
    }
}

fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}

/// One round: the program's kernel makes A, warpipe multiplies, the program's kernel compares D.
fn round(
    own: &OwnKernels,
    stream: &Arc<CudaStream>,
    memory: &mut Memory,
    set: usize,
    multiply: impl FnOnce(&mut Memory) -> Done,
) -> Done {
    let (to, from) = (address(&memory.a, stream), address(&memory.sets[set], stream));
    let bytes = memory.a.num_bytes();
    // SAFETY: the memory lives longer than the stream's work, which the caller waits for.
    unsafe { own.copy(stream, to, from, bytes) }?;
    multiply(memory)?;
    let (pair, bytes) =
        ([address(&memory.d, stream), address(&memory.right[set], stream)], memory.d.num_bytes());
    let differences = address(&memory.differences, stream);
    // SAFETY: as above.
    unsafe { own.compare(stream, pair, differences, bytes) }?;
    Ok(())
}

/// The shapes: data-parallel tiles, split tiles, and rows that TMA does not take.
const CASES: [([u64; 3], bool); 3] =
    [([512, 512, 512], false), ([256, 256, 4096], true), ([100, 77, 130], false)];

/// Each of two threads has a stream and a plan. Views are borrowed and bound anew in each round.
#[test]
fn a_thousand_rounds_on_two_streams() -> Done {
    let Some(alone) = gpu("a_thousand_rounds_on_two_streams") else { return Ok(()) };
    for (shape, split) in CASES {
        let case = Case::new(&alone, shape, split)?;
        let context = CudaContext::new(0)?;
        let device = Device::from_cudarc(&context)?;
        let start = Barrier::new(2);
        let on_stream = || -> Done {
            let stream = context.new_stream()?;
            let own = OwnKernels::load(&context)?;
            let plan = plan(&device, &case.problem, split)?;
            let mut memory = Memory::new(&stream, &case)?;
            let ours = Stream::from_cudarc(&device, &stream)?;
            start.wait();
            for i in 0..ROUNDS {
                round(&own, &stream, &mut memory, i % SETS, |memory| {
                    let a = View::from_cudarc(&device, &memory.a, &stream)?;
                    let b = View::from_cudarc(&device, &memory.b, &stream)?;
                    let d = ViewMut::from_cudarc(&device, &mut memory.d, &stream)?;
                    Ok(plan.bind(a, b, None, d)?.run(1.0, 0.0, &ours)?)
                })?;
            }
            let differences = stream.clone_dtoh(&memory.differences)?[0];
            assert_eq!(differences, 0, "{shape:?}");
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = [scope.spawn(on_stream), scope.spawn(on_stream)];
            threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
        })?;
    }
    Ok(())
}

/// The same in graphs that cudarc captures. Its event tracking is off, as its documentation asks.
#[test]
fn a_thousand_captured_rounds_on_two_streams() -> Done {
    let Some(alone) = gpu("a_thousand_captured_rounds_on_two_streams") else { return Ok(()) };
    for (shape, split) in CASES {
        let case = Case::new(&alone, shape, split)?;
        let context = CudaContext::new(0)?;
        // SAFETY: each memory is used on one stream only.
        unsafe { context.disable_event_tracking() };
        let device = Device::from_cudarc(&context)?;
        let own = OwnKernels::load(&context)?;
        let mut graphs = Vec::new();
        for _ in 0..2 {
            let stream = context.new_stream()?;
            let plan = plan(&device, &case.problem, split)?;
            let mut memory = Memory::new(&stream, &case)?;
            stream.synchronize()?;
            let ours = Stream::from_cudarc(&device, &stream)?;
            let buffer = |slice: &CudaSlice<bf16>| {
                // SAFETY: the slices live until the graphs have run.
                unsafe { Buffer::from_raw(&device, address(slice, &stream), slice.num_bytes()) }
            };
            let (a, b, mut d) = (buffer(&memory.a)?, buffer(&memory.b)?, buffer(&memory.d)?);
            let product = plan.bind(&a, &b, None, &mut d)?;
            // All other threads' calls stay allowed; this thread's must not wait or allocate.
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
            for i in 0..PER_GRAPH {
                round(&own, &stream, &mut memory, i % SETS, |_| Ok(product.run(1.0, 0.0, &ours)?))?;
            }
            let graph = stream.end_capture(CUgraphInstantiate_flags(0))?.expect("a graph");
            drop(product);
            graphs.push((graph, stream, memory, plan));
        }
        for _ in 0..ROUNDS / PER_GRAPH {
            for (graph, ..) in &graphs {
                graph.launch()?;
            }
        }
        for (_, stream, memory, _) in &graphs {
            assert_eq!(stream.clone_dtoh(&memory.differences)?[0], 0, "{shape:?}");
            let d = stream.clone_dtoh(&memory.d)?;
            assert!(d == case.d[(PER_GRAPH - 1) % SETS], "{shape:?}: the graph did not run");
        }
    }
    Ok(())
}

/// One plan with a workspace, on two streams in turn, without a wait of the program's: the plan orders its
/// runs.
#[test]
fn one_plan_on_two_streams_is_in_order() -> Done {
    let Some(alone) = gpu("one_plan_on_two_streams_is_in_order") else { return Ok(()) };
    for (shape, split) in CASES {
        let case = Case::new(&alone, shape, split)?;
        let context = CudaContext::new(0)?;
        let device = Device::from_cudarc(&context)?;
        let own = OwnKernels::load(&context)?;
        let plan = plan(&device, &case.problem, split)?;
        let streams = [context.new_stream()?, context.new_stream()?, context.per_thread_stream()];
        let mut memories =
            streams.iter().map(|s| Memory::new(s, &case)).collect::<Done<Vec<_>>>()?;
        for i in 0..ROUNDS {
            let of = i % streams.len();
            let stream = &streams[of];
            let ours = Stream::from_cudarc(&device, stream)?;
            round(&own, stream, &mut memories[of], i / 3 % SETS, |memory| {
                let a = View::from_cudarc(&device, &memory.a, stream)?;
                let b = View::from_cudarc(&device, &memory.b, stream)?;
                let d = ViewMut::from_cudarc(&device, &mut memory.d, stream)?;
                Ok(plan.bind(a, b, None, d)?.run(1.0, 0.0, &ours)?)
            })?;
        }
        plan.synchronize()?;
        for (stream, memory) in streams.iter().zip(&memories) {
            assert_eq!(stream.clone_dtoh(&memory.differences)?[0], 0, "{shape:?}");
        }
    }
    Ok(())
}

/// What was borrowed for one stream can't be used on another one.
#[test]
fn a_loan_is_for_one_stream() -> Done {
    let Some(_device) = gpu("a_loan_is_for_one_stream") else { return Ok(()) };
    let context = CudaContext::new(0)?;
    let device = Device::from_cudarc(&context)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let ab = Dtype::Bf16;
    let plan =
        plan(&device, &GemmProblem { m: 64, n: 64, k: 64, ab, out: ab, beta_c: false }, false)?;
    let a = stream.alloc_zeros::<bf16>(64 * 64)?;
    let mut d = stream.alloc_zeros::<bf16>(64 * 64)?;
    let halves = stream.alloc_zeros::<half::f16>(64 * 64)?;
    let view = || View::from_cudarc(&device, &a, &stream);
    let wrong = View::from_cudarc(&device, &halves, &stream)?;
    let on_d = ViewMut::from_cudarc(&device, &mut d, &stream)?;
    let said = plan.bind(view()?, wrong, None, on_d).err().expect("must be refused").to_string();
    assert_eq!(said, "GEMM operand B: the view has elements of f16; the plan has bf16");
    let on_d = ViewMut::from_cudarc(&device, &mut d, &stream)?;
    let product = plan.bind(view()?, view()?, None, on_d)?;
    let said = product.run(1.0, 0.0, &Stream::from_cudarc(&device, &other)?).unwrap_err();
    assert!(said.to_string().starts_with("GEMM operand A was borrowed for stream 0x"), "{said}");
    product.run(1.0, 0.0, &Stream::from_cudarc(&device, &stream)?)?;
    Ok(())
}

/// In somebody else's graph, a plan with a workspace can't wait for a run outside of it.
#[test]
fn a_busy_plan_is_not_captured() -> Done {
    let Some(device) = gpu("a_busy_plan_is_not_captured") else { return Ok(()) };
    let ab = Dtype::Bf16;
    // Long enough to be running still: 2 * 8192^3 operations take more than a millisecond.
    let problem = GemmProblem { m: 8192, n: 8192, k: 8191, ab, out: ab, beta_c: false };
    let plan = plan(&device, &problem, false)?;
    assert!(!plan.describe().staging.is_empty(), "rows of 16382 bytes are copied");
    let a = device.alloc_zeroed(problem.bytes('A') as usize)?;
    let mut d = device.alloc_zeroed(problem.bytes('D') as usize)?;
    let product = plan.bind(&a, &a, None, &mut d)?;
    let (first, second) = (device.new_stream()?, device.new_stream()?);
    product.run(1.0, 0.0, &first)?;
    let captured = second.capture(|| product.run(1.0, 0.0, &second));
    let said = captured.err().expect("must be refused").to_string();
    assert!(said.contains("that run has not ended"), "{said}");
    plan.synchronize()?;
    second.capture(|| product.run(1.0, 0.0, &second))?.launch()?;
    device.synchronize()?;
    Ok(())
}

/// The host's part of one launch of a bound product, and of the calls before it.
#[test]
fn a_bound_launch_costs_the_host_less_than_five_microseconds() -> Done {
    let name = "a_bound_launch_costs_the_host_less_than_five_microseconds";
    let Some(device) = gpu(name) else { return Ok(()) };
    let stream = device.new_stream()?;
    for (shape, split) in [([128, 128, 64], false), ([256, 256, 4096], true)] {
        let [m, n, k] = shape;
        let ab = Dtype::Bf16;
        let plan = plan(&device, &GemmProblem { m, n, k, ab, out: ab, beta_c: false }, split)?;
        let a = device.alloc_zeroed((2 * m * k) as usize)?;
        let mut d = device.alloc_zeroed((2 * m * n) as usize)?;
        // The median over runs of few launches, which the queue of a stream holds without waiting.
        let median = |work: &mut dyn FnMut() -> Done| -> Done<f64> {
            let mut times = Vec::new();
            for _ in 0..101 {
                stream.synchronize()?;
                let start = Instant::now();
                (0..20).try_for_each(|_| work())?;
                times.push(start.elapsed().as_secs_f64() * 1e6 / 20.0);
            }
            times.sort_by(f64::total_cmp);
            Ok(times[times.len() / 2])
        };
        let mut bind = || -> Done { Ok(plan.bind(&a, &a, None, &mut d).map(drop)?) };
        let bind = median(&mut bind)?;
        let product = plan.bind(&a, &a, None, &mut d)?;
        let run = median(&mut || Ok(product.run(1.0, 0.0, &stream)?))?;
        let mut borrow = || -> Done {
            // SAFETY: `a` outlives the buffer, which is dropped at once.
            Ok(unsafe { Buffer::from_raw(&device, a.addr(), a.len()) }.map(drop)?)
        };
        let borrow = median(&mut borrow)?;
        let kernel = plan.describe().kernel.as_ref().map_or("", |kernel| &kernel.name).to_owned();
        say(&format!(
            "{kernel}: run {run:.2} us, bind {bind:.2} us, Buffer::from_raw {borrow:.2} us of the host"
        ));
        assert!(cfg!(debug_assertions) || run < 5.0, "{kernel}: {run:.2} us");
    }
    Ok(())
}
