//! Modules and checked launches.
//!
//! Everything that the driver would refuse with a number, or worse accept, is refused here with a
//! line: another image than this program's, a grid that its clusters don't divide, shared memory
//! beyond the device's, parameters that are not the kernel's.

use crate::assemble::Kernels;
use crate::cuda::check;
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::param::{Param, pack};
use crate::stream::Stream;
use cudarc::driver::sys;
use isa::kernel::{Image, KernelDesc, KernelMeta};
use std::ffi::c_void;
use std::sync::Arc;

/// The largest cluster that sm_90 has.
const LARGEST_CLUSTER: u32 = 16;

/// An image loaded on a device. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    device: Device,
    image: &'static Image,
    cuda: Option<Arc<Kernels>>,
}

impl Device {
    /// Loads an image, which by itself assembles nothing: on a GPU the driver assembles a kernel's
    /// PTX when the kernel is first used (and caches the result on disk), or when
    /// [`Module::preload`] says so. On the model, kernels are functions of this program.
    ///
    /// # Errors
    /// [`Error::ImageArch`].
    pub fn load(&self, image: &'static Image) -> Result<Module, Error> {
        if image.arch != "sm_90a" {
            return Err(Error::ImageArch { image: image.name, arch: image.arch });
        }
        let cuda = match &self.backend {
            Backend::Cuda(context) => Some(Arc::new(Kernels::new(context, image))),
            Backend::Sim(_) => None,
        };
        Ok(Module { device: self.clone(), image, cuda })
    }

    /// Launches a kernel of `module` on `stream`, after checking everything that can be.
    ///
    /// # Errors
    /// A line for each thing that is wrong; [`Error::ImageAssembly`] with the assembler's words;
    /// [`Error::Model`] with the model's report.
    pub fn launch(
        &self,
        module: &Module,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[Param<'_>],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.owns("the module of a launch", &module.device.backend)?;
        self.owns("the stream of a launch", stream.backend())?;
        let index = module.index(desc)?;
        check_shape(&desc.meta, grid, self.smem_bytes())?;
        let packed = pack(self, &desc.meta, params)?;
        match &self.backend {
            Backend::Cuda(context) => {
                context.bind()?;
                let function = module.function(index)?;
                launch_cuda(function, &desc.meta, grid, &packed.pointers, stream)
            }
            // SAFETY: `pack` checked kinds, sizes and alignments against `desc.meta`; what it
            // points to is borrowed until after the call.
            Backend::Sim(model) => unsafe {
                model.launch(desc, grid, &packed.pointers).map(|_| ())
            },
        }
    }
}

impl Device {
    /// Launches a kernel of this program on the model, which needs no image: for tests of a kernel
    /// beside its source. Checked as [`Device::launch`] is.
    ///
    /// # Errors
    /// As [`Device::launch`]; [`Error::NotOnGpu`] on a GPU.
    pub fn launch_on_model(
        &self,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[Param<'_>],
    ) -> Result<(), Error> {
        let Backend::Sim(model) = &self.backend else {
            return Err(Error::NotOnGpu { what: "a launch without an image" });
        };
        check_shape(&desc.meta, grid, self.smem_bytes())?;
        let packed = pack(self, &desc.meta, params)?;
        // SAFETY: `pack` checked kinds, sizes and alignments against `desc.meta`; what it points to
        // is borrowed until after the call.
        unsafe { model.launch(desc, grid, &packed.pointers).map(|_| ()) }
    }
}

impl Module {
    /// The image that it was loaded from.
    pub fn image(&self) -> &'static Image {
        self.image
    }

    /// Whether the image has this very kernel.
    ///
    /// # Errors
    /// [`Error::NoSuchKernel`]; [`Error::ImageMismatch`] if image and program were built from
    /// different source.
    pub fn check(&self, desc: &KernelDesc) -> Result<(), Error> {
        self.index(desc).map(drop)
    }

    /// The kernel's place in the image, which has this very kernel.
    fn index(&self, desc: &KernelDesc) -> Result<usize, Error> {
        let (meta, image) = (&desc.meta, self.image);
        let Some(index) = image.kernels.iter().position(|k| k.name == meta.name) else {
            let have: Vec<_> = image.kernels.iter().map(KernelMeta::name).collect();
            return Err(Error::NoSuchKernel {
                image: image.name.into(),
                kernel: meta.name().into(),
                have: if have.is_empty() { "none".into() } else { have.join(", ") },
            });
        };
        match difference(&image.kernels[index], meta) {
            None => Ok(index),
            Some((field, image, program)) => {
                Err(Error::ImageMismatch { kernel: meta.name().into(), field, image, program })
            }
        }
    }

    /// Assembles kernels that will be used, so that their first launches don't wait.
    ///
    /// # Errors
    /// As [`Module::check`]; [`Error::ImageAssembly`] with the assembler's words.
    pub fn preload(&self, kernels: &[&KernelDesc]) -> Result<(), Error> {
        for desc in kernels {
            let index = self.index(desc)?;
            if self.cuda.is_some() {
                self.function(index)?;
            }
        }
        Ok(())
    }

    /// What a variable of the kernel's module holds. Launches that write it must have ended: see
    /// [`Device::synchronize`].
    ///
    /// # Errors
    /// As [`Module::check`]; what the driver says if there is no such variable;
    /// [`Error::NotOnModel`].
    pub fn read_variable(&self, desc: &KernelDesc, name: &str) -> Result<Vec<u8>, Error> {
        let (at, len) = self.variable(desc, name)?;
        let mut bytes = vec![0; len];
        // SAFETY: `at` is `len` bytes of the module, which `self` keeps loaded.
        check("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), at, len) })?;
        Ok(bytes)
    }

    /// Fills a variable of the kernel's module with `bytes`, and zeros behind them.
    ///
    /// # Errors
    /// As [`Module::read_variable`]; [`Error::OutOfBuffer`] for more bytes than it has.
    pub fn write_variable(&self, desc: &KernelDesc, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (at, len) = self.variable(desc, name)?;
        if bytes.len() > len {
            return Err(Error::OutOfBuffer {
                what: format!("writing variable {name}"),
                offset: 0,
                end: bytes.len() as u64,
                len: len as u64,
            });
        }
        // SAFETY: `at` is `len` bytes of the module, which `self` keeps loaded; `bytes` are no more.
        unsafe {
            check("cuMemsetD8", sys::cuMemsetD8_v2(at, 0, len))?;
            check("cuMemcpyHtoD", sys::cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), bytes.len()))
        }
    }

    fn variable(&self, desc: &KernelDesc, name: &str) -> Result<(sys::CUdeviceptr, usize), Error> {
        let index = self.index(desc)?;
        let (Some(kernels), Backend::Cuda(context)) = (&self.cuda, &self.device.backend) else {
            return Err(Error::NotOnModel { what: "a variable of a kernel's module" });
        };
        context.bind()?;
        kernels.variable(index, name)
    }

    /// The handle of kernel `index` of the image.
    fn function(&self, index: usize) -> Result<sys::CUfunction, Error> {
        match &self.cuda {
            Some(kernels) => kernels.function(index),
            None => Err(Error::NotOnModel { what: "a function of the driver" }),
        }
    }

    /// How many clusters of the kernel the device holds at once.
    ///
    /// GPCs with an odd number of SMs leave some of them out when clusters are larger than one CTA.
    /// The model holds `sms / cluster size`.
    pub fn max_active_clusters(&self, desc: &KernelDesc) -> Result<u32, Error> {
        let index = self.index(desc)?;
        let (meta, size) = (&desc.meta, desc.meta.cluster_size());
        let Backend::Cuda(context) = &self.device.backend else {
            return Ok(self.device.sms() / size.max(1));
        };
        check_shape(meta, meta.cluster, self.device.smem_bytes())?;
        context.bind()?;
        let function = self.function(index)?;
        if size <= 1 {
            // The driver counts clusters only for launches that have them.
            let mut ctas = 0;
            // SAFETY: the function is of the bound context.
            check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
                sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut ctas,
                    function,
                    meta.threads as i32,
                    meta.smem_bytes as usize,
                )
            })?;
            return Ok(ctas as u32 * self.device.sms());
        }
        let mut clusters = 0;
        with_config(meta, meta.cluster, std::ptr::null_mut(), |config| {
            // SAFETY: the function is of the bound context; `config` is complete.
            check("cuOccupancyMaxActiveClusters", unsafe {
                sys::cuOccupancyMaxActiveClusters(&raw mut clusters, function, config)
            })
        })?;
        Ok(clusters as u32)
    }
}

/// The first fact in which two descriptions of a kernel differ: its name, and both values.
fn difference(image: &KernelMeta, program: &KernelMeta) -> Option<(&'static str, String, String)> {
    type Fact = (&'static str, fn(&KernelMeta) -> String);
    let facts: [Fact; 7] = [
        ("magic", |m| format!("{:?}", m.magic)),
        ("threads", |m| m.threads.to_string()),
        ("min_ctas", |m| m.min_ctas.to_string()),
        ("cluster", |m| format!("{:?}", m.cluster)),
        ("smem_bytes", |m| m.smem_bytes.to_string()),
        ("dependent", |m| m.dependent.to_string()),
        ("parameters", |m| {
            let all: Vec<_> = m.params().iter().map(crate::param::describe).collect();
            format!("({})", all.join(", "))
        }),
    ];
    if image == program {
        return None;
    }
    facts.iter().find_map(|(name, of)| {
        let (a, b) = (of(image), of(program));
        (a != b).then_some((*name, a, b))
    })
}

/// Block, grid, cluster and shared memory.
pub(crate) fn check_shape(meta: &KernelMeta, grid: [u32; 3], limit: u32) -> Result<(), Error> {
    let kernel = || meta.name().to_owned();
    let (threads, cluster) = (meta.threads, meta.cluster);
    if !(1..=1024).contains(&threads) {
        return Err(Error::LaunchThreads { kernel: kernel(), threads });
    }
    let most = [i32::MAX as u32, 65535, 65535];
    if grid.iter().zip(most).any(|(&g, most)| g == 0 || g > most) {
        return Err(Error::LaunchGrid { kernel: kernel(), grid });
    }
    let bad = |right| Err(Error::LaunchCluster { kernel: kernel(), grid, cluster, right });
    let size = cluster.iter().try_fold(1u32, |product, &c| product.checked_mul(c));
    if !size.is_some_and(|size| (1..=LARGEST_CLUSTER).contains(&size)) {
        return bad("a cluster has 1 to 16 CTAs");
    }
    if grid.iter().zip(cluster).any(|(g, c)| g % c != 0) {
        return bad("each dimension of the grid must be a multiple of the cluster's");
    }
    if meta.smem_bytes > limit {
        let bytes = meta.smem_bytes;
        return Err(Error::LaunchSmem { kernel: kernel(), bytes, limit });
    }
    Ok(())
}

/// Builds the launch configuration of `meta` and lends it.
///
/// A kernel with `dependent = true` may start before the kernel ahead of it in the stream has ended;
/// it waits for that end itself (`isa::kernel::AfterWait`).
fn with_config<R>(
    meta: &KernelMeta,
    grid: [u32; 3],
    stream: sys::CUstream,
    then: impl FnOnce(*const sys::CUlaunchConfig) -> R,
) -> R {
    let [x, y, z] = meta.cluster;
    let attribute = |id| sys::CUlaunchAttribute_st {
        id,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue_union { pad: [0; 64] },
    };
    let mut attributes = Vec::with_capacity(2);
    if meta.cluster_size() > 1 {
        let mut cluster =
            attribute(sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        cluster.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        attributes.push(cluster);
    }
    if meta.dependent != 0 {
        let mut overlap = attribute(
            sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        );
        overlap.value.programmaticStreamSerializationAllowed = 1;
        attributes.push(overlap);
    }
    let config = sys::CUlaunchConfig_st {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: meta.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: meta.smem_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    then(&raw const config)
}

fn launch_cuda(
    function: sys::CUfunction,
    meta: &KernelMeta,
    grid: [u32; 3],
    params: &[*const u8],
    stream: &Stream,
) -> Result<(), Error> {
    let mut params: Vec<*mut c_void> = params.iter().map(|p| p.cast_mut().cast()).collect();
    with_config(meta, grid, stream.raw(), |config| {
        // SAFETY: function and stream are of the bound context; `params` has a pointer for each
        // parameter, whose bytes the driver copies (and does not write) before it returns.
        check("cuLaunchKernelEx", unsafe {
            sys::cuLaunchKernelEx(config, function, params.as_mut_ptr(), std::ptr::null_mut())
        })
    })
}
