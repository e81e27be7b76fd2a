//! The host crate's errors. Each message says in one line what was found and what would be right.

use crate::attention::AttentionError;
use crate::gemm::{ArrayError, GroupedError, StridedError, TuneError};
use crate::tensor_error::TensorError;
use crate::view_error::ViewError;
use std::fmt;

/// An error of the host side.
///
/// Every message is one line that contains the offending numbers; only a report of the SM model is
/// longer. No input makes this crate panic. `Debug` writes the message as well, because `main` and
/// `unwrap` print errors with it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Devices.
    /// libcuda could not be loaded.
    #[error(
        "no CUDA driver: libcuda could not be loaded ({reason}); install the NVIDIA driver, or use the SM model"
    )]
    NoDriver {
        /// The dynamic loader's message.
        reason: String,
    },
    /// The driver lacks entry points that this crate calls.
    #[error(
        "the CUDA driver supports CUDA {major}.{minor}; 12.8 or newer is needed (NVIDIA driver 570 or newer)"
    )]
    DriverTooOld {
        /// Major CUDA version that the driver supports.
        major: i32,
        /// Minor CUDA version that the driver supports.
        minor: i32,
    },
    /// The driver is installed, but it finds no GPU.
    #[error("the CUDA driver is installed, but it finds no GPU; use the SM model")]
    NoGpu,
    /// The ordinal is out of range.
    #[error("there is no CUDA device {index}: this machine has {count}, numbered from 0")]
    NoSuchDevice {
        /// The ordinal asked for.
        index: usize,
        /// Number of CUDA devices.
        count: usize,
    },
    /// There are no images for the GPU.
    #[error(
        "device {index} ({name}) has compute capability {major}.{minor}; images are for {}",
        crate::arch::in_words()
    )]
    WrongArch {
        /// Ordinal.
        index: usize,
        /// Its name.
        name: String,
        /// Major compute capability.
        major: i32,
        /// Minor compute capability.
        minor: i32,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({code}): {text}")]
    Driver {
        /// The function called.
        call: &'static str,
        /// The error's number.
        code: u32,
        /// Its name.
        name: String,
        /// The driver's description of the error.
        text: String,
    },
    /// Device memory is exhausted.
    #[error(
        "out of device memory: the allocation needs {bytes} bytes, and {free} of {total} are free"
    )]
    OutOfMemory {
        /// Bytes requested.
        bytes: u64,
        /// Free bytes on the device.
        free: u64,
        /// Total bytes of the device.
        total: u64,
    },
    /// The SM model stopped the kernel.
    #[error("{0}")]
    Model(Box<sim::Report>),
    /// The SM model's memory refused an access by the host.
    #[error("the SM model's global memory: {0}")]
    ModelMemory(sim::GlobalError),
    /// A tensor map that a GPU supports and the model does not.
    #[error("the SM model does not support this tensor map: {0}")]
    ModelTensor(sim::tensor_map::EncodeError),
    /// Something that only the SM model can do.
    #[error("{what} needs the SM model; this is a GPU")]
    NotOnGpu {
        /// The operation.
        what: &'static str,
    },
    /// Something that only a GPU can do.
    #[error("{what} needs a GPU; this is the SM model")]
    NotOnModel {
        /// The operation.
        what: &'static str,
    },
    /// A handle of one device was used on another one.
    #[error("{what} belongs to {theirs}, and was used on {ours}")]
    ForeignDevice {
        /// The handle.
        what: String,
        /// The handle's device.
        theirs: String,
        /// The device it was used on.
        ours: String,
    },
    /// The calling thread has no current CUDA context, or the handle given for one is null.
    #[error(
        "no CUDA context: the calling thread has none that is current, or the handle is null; Device::cuda(0) retains the primary one"
    )]
    NoCurrentContext,
    /// The current context is one that its owner made and can destroy at any time.
    #[error(
        "the current context {context:#x} of device {device} is not the device's primary context, so it can't be kept alive; Device::from_raw_context takes it"
    )]
    OwnContext {
        /// The context's handle.
        context: u64,
        /// Ordinal of its device.
        device: usize,
    },
    /// A stream belongs to another context.
    #[error(
        "stream {stream:#x} belongs to context {theirs:#x}; this device is context {ours:#x} (device {device})"
    )]
    ForeignStream {
        /// The stream's handle.
        stream: u64,
        /// Its context.
        theirs: u64,
        /// The context that it was used with.
        ours: u64,
        /// The ordinal of that context's device.
        device: usize,
    },
    /// A call of cudarc's failed.
    #[cfg(feature = "cudarc")]
    #[error("cudarc: {reason}")]
    Cudarc {
        /// Its error.
        reason: String,
    },
    /// The handle of an event is null.
    #[error("the handle of an event is null; a CUevent is needed")]
    NullEvent,
    /// An address is no memory of this device's context.
    #[error("address {addr:#x} is {what} and can't be used as memory of device {device}")]
    NotDeviceMemory {
        /// The address.
        addr: u64,
        /// What is there.
        what: String,
        /// Ordinal of the device that should use it.
        device: usize,
    },
    /// A range of addresses exceeds its allocation.
    #[error(
        "{bytes} bytes from {addr:#x} exceed their allocation, which is {len} bytes from {start:#x}"
    )]
    OutOfAllocation {
        /// First address of the range.
        addr: u64,
        /// Its bytes.
        bytes: u64,
        /// First address of the allocation.
        start: u64,
        /// Its bytes.
        len: u64,
    },

    // Buffers.
    /// A byte range exceeds its buffer.
    #[error("{what}: bytes {offset} to {end} exceed the buffer of {len} bytes")]
    OutOfBuffer {
        /// The operation.
        what: String,
        /// First byte.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// The buffer's size.
        len: u64,
    },
    /// A host slice and a buffer differ in size.
    #[error("{what}: {host} bytes on the host and {device} on the device must be equal")]
    LengthMismatch {
        /// The operation.
        what: &'static str,
        /// Bytes of the slice.
        host: u64,
        /// Bytes of the buffer.
        device: u64,
    },
    /// The rows of a 2D copy overlap.
    #[error(
        "copy of rows of {width} bytes: the {side} pitch of {pitch} bytes is smaller than a row"
    )]
    CopyPitch {
        /// "source" or "destination".
        side: &'static str,
        /// Bytes of a row.
        width: u64,
        /// Bytes from one row to the next.
        pitch: u64,
    },
    /// A size exceeds its limit.
    #[error("{what} = {factors} overflows: {limit}")]
    SizeOverflow {
        /// Name of the size.
        what: &'static str,
        /// Its value, or its factors.
        factors: String,
        /// The bound.
        limit: &'static str,
    },

    /// A tensor map that breaks a rule of TMA.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    // Launches.
    /// The image has no code for the device.
    #[error("image {image} has code for {archs}; {device} runs {arch}")]
    ImageArch {
        /// The image's name.
        image: &'static str,
        /// The architectures that it has code for.
        archs: String,
        /// The device, with its compute capability.
        device: String,
        /// The architecture that the device runs.
        arch: &'static str,
    },
    /// The image has a kernel for other architectures than the device's.
    #[error("kernel {kernel} of image {image} is for {archs}; this device runs {arch}")]
    KernelArch {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// The architectures that the image has it for.
        archs: String,
        /// The architecture that the device runs.
        arch: &'static str,
    },
    /// The image lacks the code of a kernel.
    #[error(transparent)]
    Image(#[from] isa::kernel::ImageError),
    /// The driver could not assemble a kernel.
    #[error("the driver cannot assemble kernel {kernel} of image {image}: {log}")]
    ImageAssembly {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// The first line of the log.
        log: String,
    },
    /// The image has no such kernel.
    #[error("image {image} has no kernel {kernel}; it has: {have}")]
    NoSuchKernel {
        /// The image's name.
        image: String,
        /// The kernel asked for.
        kernel: String,
        /// The kernels of the image.
        have: String,
    },
    /// The image was not built from the same source as this program.
    #[error(
        "kernel {kernel}: the image has {field} = {image}, this program has {program}; rebuild the image from the same source"
    )]
    ImageMismatch {
        /// The kernel.
        kernel: String,
        /// The property that differs.
        field: &'static str,
        /// Its value in the image.
        image: String,
        /// Its value in this program.
        program: String,
    },
    /// The number of threads in a CTA is out of range.
    #[error("kernel {kernel}: {threads} threads per CTA; the number must be 1 to 1024")]
    LaunchThreads {
        /// The kernel.
        kernel: String,
        /// Threads of a CTA.
        threads: u32,
    },
    /// A grid dimension is out of range.
    #[error("kernel {kernel}: grid {grid:?}; x must be 1 to 2^31-1, y and z 1 to 65535")]
    LaunchGrid {
        /// The kernel.
        kernel: String,
        /// The grid.
        grid: [u32; 3],
    },
    /// The cluster is too large for the hardware, or it does not divide the grid.
    #[error("kernel {kernel}: grid {grid:?} with clusters of {cluster:?}: {right}")]
    LaunchCluster {
        /// The kernel.
        kernel: String,
        /// The grid.
        grid: [u32; 3],
        /// The cluster.
        cluster: [u32; 3],
        /// The rule.
        right: &'static str,
    },
    /// The kernel needs more shared memory than the device has.
    #[error(
        "kernel {kernel}: {bytes} bytes of shared memory per CTA; this device has {limit}: use fewer stages or smaller tiles"
    )]
    LaunchSmem {
        /// The kernel.
        kernel: String,
        /// Bytes that the kernel needs.
        bytes: u32,
        /// Bytes that a CTA can have.
        limit: u32,
    },
    /// Too few or too many parameters.
    #[error("kernel {kernel} takes {want} parameters ({names}); the launch passes {have}")]
    LaunchParamCount {
        /// The kernel.
        kernel: String,
        /// Parameters that the kernel takes.
        want: usize,
        /// Their names.
        names: String,
        /// Parameters that the launch passes.
        have: usize,
    },
    /// A parameter of the wrong type.
    #[error("kernel {kernel}, {parameter}: the kernel takes {want}, the launch passes {have}")]
    LaunchParam {
        /// The kernel.
        kernel: String,
        /// The parameter's number, from 0, and its name.
        parameter: String,
        /// The type that the kernel takes.
        want: String,
        /// The type that the launch passes.
        have: String,
    },

    /// A tensor that does not fit the kernel argument for which its map is made.
    #[error("a tensor map for a kernel argument of type {argument}: {right}")]
    TensorArgument {
        /// The argument's type.
        argument: &'static str,
        /// What it takes, and what the tensor has.
        right: String,
    },

    // GEMM.
    /// An element type that the GEMM does not support.
    #[error("GEMM {side} of type {dtype}; {right} is supported")]
    GemmDtype {
        /// "operands", "result" or "values".
        side: &'static str,
        /// The type.
        dtype: &'static str,
        /// The supported types.
        right: &'static str,
    },
    /// An operand's scales are not one value, nor one for each row.
    #[error(
        "scales of {operand}: {have}; 1 for the whole tensor or {rows}, one for each row, is right"
    )]
    Scales {
        /// 'A' or 'B'.
        operand: char,
        /// The values that there are, in words.
        have: String,
        /// Rows of the operand.
        rows: u64,
    },
    /// A scale or a maximum of a result that is not one f32.
    #[error("{what}: {have} bytes; one f32 value, 4 bytes, is right")]
    ResultScale {
        /// Which of them.
        what: &'static str,
        /// Its bytes.
        have: usize,
    },
    /// Block scales of an operand that are too short, or whose pitch is wrong.
    #[error("block scales of {operand}: {have}; {right}, for [{rows}, {values}] values, is right")]
    BlockScales {
        /// 'A' or 'B'.
        operand: char,
        /// Blocks of K for A, and of rows for B.
        rows: u64,
        /// Values of one of them.
        values: u64,
        /// What there is.
        have: String,
        /// What would be right.
        right: String,
    },
    /// A run with block scales of a kernel that applies none, or the reverse.
    #[error("{kernel} applies {applies}; {right} is right")]
    ScalesOfKernel {
        /// Name of the kernel.
        kernel: String,
        /// What it applies, in words.
        applies: &'static str,
        /// The function to call.
        right: &'static str,
    },
    /// Rows of operands with several values in a byte that end within a byte.
    #[error(
        "kernel {kernel} has {packing} values in a byte: rows of K = {k} end within one; a multiple of {} is right",
        16 * packing
    )]
    PackedRow {
        /// Name of the kernel.
        kernel: String,
        /// Values of a row.
        k: u32,
        /// Values in a byte.
        packing: u32,
    },
    /// A bias of another length.
    #[error("bias: {have} bytes; {n} of {dtype} ({need} bytes), one for each row of B, is right")]
    Bias {
        /// Bytes of the bias.
        have: u64,
        /// Rows of B.
        n: u64,
        /// The type of the bias.
        dtype: &'static str,
        /// The bytes of so many values.
        need: u64,
    },
    /// A gated product whose B has not as many gates as other rows.
    #[error(
        "N = {n}: a gated product has blocks of 8 gates and 8 other rows of B, so a multiple of 16 is right"
    )]
    GatedRows {
        /// Rows of B.
        n: u64,
    },
    /// Gates and other rows that can't be interleaved.
    #[error(
        "{gate} bytes of gates and {up} bytes of what belongs to them, in rows of {row_bytes}: as many of both, a \
         multiple of 8 rows, is right"
    )]
    Gates {
        /// Bytes of gates.
        gate: usize,
        /// Bytes of the other rows.
        up: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// No kernel computes the product.
    #[error(
        "no GEMM kernel for {ab} operands, {out} result, {c}; the table of {count} has: {have}{cure}"
    )]
    NoInstance {
        /// Operand type.
        ab: &'static str,
        /// Result type.
        out: &'static str,
        /// "with C" or "without C".
        c: &'static str,
        /// Instances in the table.
        count: usize,
        /// The kinds of product that the table computes.
        have: String,
        /// The feature that would add the kernel, or nothing.
        cure: String,
    },
    /// A row of an instance table contradicts its kernel.
    #[error("GEMM instance {kernel}: {what}")]
    BadInstance {
        /// The kernel.
        kernel: String,
        /// The table's value and the kernel's value.
        what: String,
    },
    /// The row asked for is not in the table, or it computes another kind of product.
    #[error("GEMM instance {index} of {count} does not compute this product: {have}")]
    WrongInstance {
        /// The row asked for.
        index: usize,
        /// Rows in the table.
        count: usize,
        /// What the row computes.
        have: String,
    },
    /// The device, the product or the kernel does not allow the schedule.
    #[error("a GEMM schedule of {clusters} clusters and {streamed} split tiles: {right}")]
    BadSchedule {
        /// Clusters asked for.
        clusters: u32,
        /// Split tiles asked for.
        streamed: u32,
        /// The limit.
        right: String,
    },
    /// The size of an operand differs from the plan.
    #[error(
        "GEMM operand {operand}: {rows} x {cols} {dtype} need {need} bytes; the buffer has {have}"
    )]
    OperandSize {
        /// A, B, C or D.
        operand: char,
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
        /// Element type.
        dtype: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes of the buffer.
        have: u64,
    },
    /// A product of strided operands that can't be computed.
    #[error(transparent)]
    Strided(#[from] StridedError),
    /// An operand that the plan can't use.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A plan that shares memory between its runs is captured while another run has not ended.
    #[error(
        "the plan last ran on stream {last:#x}, and that run has not ended; a capture of stream {stream:#x} can't wait for it: call the plan's synchronize first, or capture a plan of its own"
    )]
    PlanBusy {
        /// The stream of the last run.
        last: u64,
        /// The stream of this run.
        stream: u64,
    },
    /// Attention that can't be computed.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A grouped product that can't be computed.
    #[error(transparent)]
    Grouped(#[from] GroupedError),
    /// A grouped product of pointer arrays that can't be computed.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A product that can't be tuned, or a tune cache that can't be used.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The plan has C and the run has not, or the reverse.
    #[error("the GEMM was planned {planned} C and is run {run} C")]
    OperandC {
        /// "with" or "without".
        planned: &'static str,
        /// "with" or "without".
        run: &'static str,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
