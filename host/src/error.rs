//! Everything that can go wrong, one line each: what was found, and what would be right.

use crate::tensor_error::TensorError;

/// An error of the host side.
///
/// Every message is one line (a report of the SM model, which is a page, apart) and names the
/// offending numbers. No input makes this crate panic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Devices.
    /// libcuda is not there.
    #[error(
        "no CUDA driver: libcuda could not be loaded ({reason}); install the NVIDIA driver, or use the SM model"
    )]
    NoDriver {
        /// What the loader said.
        reason: String,
    },
    /// The driver lacks entry points that this crate calls.
    #[error(
        "the CUDA driver supports CUDA {major}.{minor}; 12.8 or newer is needed (NVIDIA driver 570 or newer)"
    )]
    DriverTooOld {
        /// What it supports.
        major: i32,
        /// What it supports.
        minor: i32,
    },
    /// The driver is there, a GPU is not.
    #[error("the CUDA driver is there, but it sees no GPU; use the SM model")]
    NoGpu,
    /// The ordinal is out of range.
    #[error("there is no CUDA device {index}: this machine has {count}, counted from 0")]
    NoSuchDevice {
        /// The ordinal asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Not Hopper.
    #[error(
        "device {index} ({name}) has compute capability {major}.{minor}; sm_90a kernels run on 9.0 alone (H100, H200, H20, GH200)"
    )]
    WrongArch {
        /// Ordinal.
        index: usize,
        /// Its name.
        name: String,
        /// Compute capability.
        major: i32,
        /// Compute capability.
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
        /// What the driver says about it.
        text: String,
    },
    /// Device memory is exhausted.
    #[error("out of device memory: {bytes} bytes asked for, {free} of {total} are free")]
    OutOfMemory {
        /// The request.
        bytes: u64,
        /// Free bytes on the device.
        free: u64,
        /// All bytes of the device.
        total: u64,
    },
    /// The SM model stopped the kernel.
    #[error("{0}")]
    Model(Box<sim::Report>),
    /// The SM model's memory refused an access by the host.
    #[error("the SM model's global memory: {0}")]
    ModelMemory(sim::GlobalError),
    /// A tensor map that a GPU takes and the model does not.
    #[error("the SM model can't use this tensor map: {0}")]
    ModelTensor(sim::tensor_map::EncodeError),
    /// Something that only the SM model can do.
    #[error("{what} needs the SM model; this is a GPU")]
    NotOnGpu {
        /// What was asked.
        what: &'static str,
    },
    /// Something that only a GPU can do.
    #[error("{what} needs a GPU; this is the SM model")]
    NotOnModel {
        /// What was asked.
        what: &'static str,
    },
    /// A handle of one device used on another.
    #[error("{what} belongs to {theirs}, and was used on {ours}")]
    ForeignDevice {
        /// Which handle.
        what: String,
        /// Its device.
        theirs: String,
        /// The device it was used on.
        ours: String,
    },

    // Buffers.
    /// A range that a buffer does not have.
    #[error("{what}: bytes {offset} to {end} are outside of the buffer's {len}")]
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
    /// A host slice and a buffer that differ in size.
    #[error("{what}: {host} bytes on the host and {device} on the device must be equal")]
    LengthMismatch {
        /// The operation.
        what: &'static str,
        /// Bytes of the slice.
        host: u64,
        /// Bytes of the buffer.
        device: u64,
    },
    /// A 2D copy whose rows overlap.
    #[error("copy of rows of {width} bytes: {side} pitch {pitch} is smaller than a row")]
    CopyPitch {
        /// "source" or "destination".
        side: &'static str,
        /// Bytes of a row.
        width: u64,
        /// Its pitch.
        pitch: u64,
    },
    /// A size that does not fit.
    #[error("{what} = {factors} overflows: {limit}")]
    SizeOverflow {
        /// The name of the product.
        what: &'static str,
        /// Its factors, in numbers.
        factors: String,
        /// The bound.
        limit: &'static str,
    },

    /// A tensor map that TMA can't use.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    // Launches.
    /// The image is for another architecture.
    #[error("image {image} is for {arch}; this device runs sm_90a")]
    ImageArch {
        /// The image's name.
        image: &'static str,
        /// Its target.
        arch: &'static str,
    },
    /// The image has not the code of a kernel.
    #[error(transparent)]
    Image(#[from] isa::kernel::ImageError),
    /// A kernel did not assemble.
    #[error("the driver can't assemble kernel {kernel} of image {image}: {log}")]
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
        /// The kernels that there are.
        have: String,
    },
    /// The image was built from other source than this program.
    #[error(
        "kernel {kernel}: the image says {field} = {image}, this program {program}; rebuild the image from the same source"
    )]
    ImageMismatch {
        /// The kernel.
        kernel: String,
        /// The fact that differs.
        field: &'static str,
        /// In the image.
        image: String,
        /// In this program.
        program: String,
    },
    /// A block that no SM can hold.
    #[error("kernel {kernel}: {threads} threads per CTA; 1 to 1024 are possible")]
    LaunchThreads {
        /// The kernel.
        kernel: String,
        /// Its block.
        threads: u32,
    },
    /// A grid dimension out of range.
    #[error("kernel {kernel}: grid {grid:?}; x is 1 to 2^31-1, y and z are 1 to 65535")]
    LaunchGrid {
        /// The kernel.
        kernel: String,
        /// The grid.
        grid: [u32; 3],
    },
    /// A cluster that can't be, or that does not divide the grid.
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
    /// More shared memory than there is.
    #[error(
        "kernel {kernel}: {bytes} bytes of shared memory per CTA; this device has {limit}: take fewer stages or smaller tiles"
    )]
    LaunchSmem {
        /// The kernel.
        kernel: String,
        /// What it needs.
        bytes: u32,
        /// What there is.
        limit: u32,
    },
    /// Too few or too many parameters.
    #[error("kernel {kernel} takes {want} parameters; {have} were given")]
    LaunchParamCount {
        /// The kernel.
        kernel: String,
        /// What it takes.
        want: usize,
        /// What it got.
        have: usize,
    },
    /// A parameter of the wrong type.
    #[error("kernel {kernel}, parameter {index}: the kernel takes {want}, the launch gives {have}")]
    LaunchParam {
        /// The kernel.
        kernel: String,
        /// Which parameter, from 0.
        index: usize,
        /// The kernel's side.
        want: String,
        /// The launch's side.
        have: String,
    },

    // GEMM.
    /// An element type that the GEMM doesn't take.
    #[error("GEMM {side} of type {dtype}; {right}")]
    GemmDtype {
        /// "operands" or "result".
        side: &'static str,
        /// The type.
        dtype: &'static str,
        /// What is supported.
        right: &'static str,
    },
    /// No kernel fits.
    #[error(
        "no GEMM kernel for {ab} operands, {out} result, {c}; the table of {count} has: {have}"
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
        /// What it has.
        have: String,
    },
    /// A row of an instance table that contradicts its kernel.
    #[error("GEMM instance {kernel}: {what}")]
    BadInstance {
        /// The kernel.
        kernel: String,
        /// Both sides.
        what: String,
    },
    /// A row that the table does not have, or that computes another product.
    #[error("GEMM instance {index} of {count} is not for this product: {have}")]
    WrongInstance {
        /// The row asked for.
        index: usize,
        /// Rows in the table.
        count: usize,
        /// What the row computes.
        have: String,
    },
    /// A schedule that the device or the product has no room for.
    #[error("a GEMM schedule of {clusters} clusters that share {streamed} tiles: {right}")]
    BadSchedule {
        /// Clusters asked for.
        clusters: u32,
        /// Shared tiles asked for.
        streamed: u32,
        /// What there is room for.
        right: String,
    },
    /// An operand of another size than the plan's.
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
        /// Bytes there.
        have: u64,
    },
    /// C was planned for and is missing, or the reverse.
    #[error("the GEMM was planned {planned} C and is run {run} C")]
    OperandC {
        /// "with" or "without".
        planned: &'static str,
        /// "with" or "without".
        run: &'static str,
    },
}
