//! Modules and checked launches.
//!
//! A launch that passes these checks matches its kernel. The driver would report some of these mistakes
//! as a bare number and accept others. This module reports each with one line: an image that was not
//! built with this program, a grid that its clusters do not divide, more shared memory than the device
//! has, parameters that do not match the kernel's.

use crate::arch;
use crate::assemble::Kernels;
use crate::cuda::DeviceInfo;
use crate::device::{Backend, Device};
use crate::driver::{
    self, CuDevicePtr, CuFunction, CuLaunchAttribute, CuLaunchConfig, CuStream, value,
};
use crate::error::Error;
use crate::param::{Param, pack};
use crate::stream::Stream;
use isa::kernel::{Image, KernelDesc, KernelMeta};
use std::ffi::c_void;
use std::sync::Arc;

/// Most CTAs in a cluster.
const LARGEST_CLUSTER: u32 = 16;

/// An image loaded on a device. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    device: Device,
    image: &'static Image,
    /// The part of the image for the device; `None` on the model, which runs the kernels of all parts.
    part: Option<&'static Image>,
    cuda: Option<Arc<Kernels>>,
}

impl Device {
    /// Loads an image.
    ///
    /// On a GPU, the driver assembles a kernel's PTX at its first use or in [`Module::preload`], and
    /// caches the result on disk. Of an image for several architectures it takes the part for the GPU. On the model,
    /// kernels are functions of this program, and those of all architectures run.
    ///
    /// # Errors
    /// [`Error::ImageArch`] if the image has no code for the GPU.
    pub fn load(&self, image: &'static Image) -> Result<Module, Error> {
        let (part, cuda) = match &self.backend {
            Backend::Cuda(context) => {
                let part = arch::part(image, context.arch, || {
                    let DeviceInfo { index, name, compute: (major, minor), .. } = &context.info;
                    format!("device {index} ({name}), of compute capability {major}.{minor},")
                })?;
                (Some(part), Some(Arc::new(Kernels::new(context, part))))
            }
            Backend::Sim(_) => (None, None),
        };
        Ok(Module { device: self.clone(), image, part, cuda })
    }

    /// Checks and launches a kernel of `module` on `stream`.
    ///
    /// On the model, the launch is complete when the call returns. A kernel with `dependent = true` may
    /// overlap there, too: the model runs it together with the launches ahead, which it repeats from the
    /// memory that they found. These are the latest two since the last call that waits (a copy to or from
    /// the host, a synchronisation). So a finding that the call returns may be about a kernel ahead; it names the
    /// kernel. All streams of the model are one.
    ///
    /// # Errors
    /// An error for each kind of mistake in module, grid or parameters; [`Error::ImageAssembly`] with the
    /// assembler's message; [`Error::Model`] with the model's report.
    pub fn launch(
        &self,
        module: &Module,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[Param<'_>],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.owns(|| "the module of a launch".into(), &module.device.backend)?;
        self.owns(|| "the stream of a launch".into(), stream.backend())?;
        let prepared = module.prepare(desc, grid)?;
        self.launch_prepared(module, desc, prepared, grid, params, stream)
    }

    /// Launches a kernel of `module` that was prepared for this grid, on a stream of this device.
    pub(crate) fn launch_prepared(
        &self,
        module: &Module,
        desc: &KernelDesc,
        Prepared { index }: Prepared,
        grid: [u32; 3],
        params: &[Param<'_>],
        stream: &Stream,
    ) -> Result<(), Error> {
        let packed = pack(self, desc, params)?;
        match &self.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                let function = module.function(index)?;
                launch_cuda(function, &desc.meta, grid, &packed.pointers, stream)
            }
            // SAFETY: `pack` checked kinds, sizes and alignments against `desc.meta`. The bytes that it
            // points to stay borrowed until after the call.
            Backend::Sim(model) => unsafe { model.launch(desc, grid, &packed.pointers) },
        }
    }
}

/// A kernel that a module has, with a grid that it can be launched with.
#[derive(Clone, Copy)]
pub(crate) struct Prepared {
    /// Its index among the kernels of the module.
    index: usize,
}

impl Device {
    /// Checks and launches a kernel of this program on the model, without an image. It is meant for unit
    /// tests beside a kernel's source. Dependent kernels overlap as with [`Device::launch`].
    ///
    /// # Errors
    /// The errors of [`Device::launch`]; [`Error::NotOnGpu`] on a GPU.
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
        let packed = pack(self, desc, params)?;
        // SAFETY: `pack` checked kinds, sizes and alignments against `desc.meta`. The bytes that it
        // points to stay borrowed until after the call.
        unsafe { model.launch(desc, grid, &packed.pointers) }
    }
}

impl Module {
    /// The image that this module was loaded from, with the parts for all architectures.
    pub fn image(&self) -> &'static Image {
        self.image
    }

    /// Checks that the image has this kernel, built from the same source.
    ///
    /// # Errors
    /// [`Error::NoSuchKernel`]; [`Error::KernelArch`] if the image has the kernel for other architectures than the
    /// device's; [`Error::ImageMismatch`] if image and program were built from different source.
    pub fn check(&self, desc: &KernelDesc) -> Result<(), Error> {
        self.index(desc).map(drop)
    }

    /// The kernels that the device has: those of the part for it, and on the model those of all parts.
    fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> {
        let one = self.part.into_iter();
        let all = self.part.is_none().then(|| self.image.parts()).into_iter().flatten();
        one.chain(all).flat_map(|part| part.kernels)
    }

    /// The kernel's index among [`Module::kernels`], after the check of [`Module::check`].
    fn index(&self, desc: &KernelDesc) -> Result<usize, Error> {
        let meta = &desc.meta;
        let Some((index, found)) = self.kernels().enumerate().find(|(_, k)| k.name == meta.name)
        else {
            return Err(self.lacks(meta));
        };
        match difference(found, meta) {
            None => Ok(index),
            Some((field, image, program)) => {
                Err(Error::ImageMismatch { kernel: meta.name().into(), field, image, program })
            }
        }
    }

    /// The error for a kernel that the device does not have.
    fn lacks(&self, meta: &KernelMeta) -> Error {
        let (image, kernel) = (self.image.name, meta.name().to_owned());
        let has = |part: &&Image| part.kernels.iter().any(|k| k.name == meta.name);
        let archs: Vec<_> = self.image.parts().filter(has).map(|part| part.arch).collect();
        if let (Some(part), false) = (self.part, archs.is_empty()) {
            return Error::KernelArch { image, kernel, archs: archs.join(", "), arch: part.arch };
        }
        let have: Vec<_> = self.kernels().map(KernelMeta::name).collect();
        let have = if have.is_empty() { "none".into() } else { have.join(", ") };
        Error::NoSuchKernel { image: image.into(), kernel, have }
    }

    /// Checks that the image has this kernel and that it can be launched with this grid.
    pub(crate) fn prepare(&self, desc: &KernelDesc, grid: [u32; 3]) -> Result<Prepared, Error> {
        let index = self.index(desc)?;
        check_shape(&desc.meta, grid, self.device.smem_bytes())?;
        Ok(Prepared { index })
    }

    /// Assembles kernels now, so that their first launches do not wait for it.
    ///
    /// # Errors
    /// The errors of [`Module::check`]; [`Error::ImageAssembly`] with the assembler's message.
    pub fn preload(&self, kernels: &[&KernelDesc]) -> Result<(), Error> {
        for desc in kernels {
            let index = self.index(desc)?;
            if let (Some(_), Backend::Cuda(context)) = (&self.cuda, &self.device.backend) {
                let _bound = context.bind()?;
                self.function(index)?;
            }
        }
        Ok(())
    }

    /// Reads a variable of the kernel's module. Launches that write it must be complete
    /// ([`Device::synchronize`]).
    ///
    /// # Errors
    /// The errors of [`Module::check`]; [`Error::Driver`] if there is no such variable;
    /// [`Error::NotOnModel`] on the model.
    pub fn read_variable(&self, desc: &KernelDesc, name: &str) -> Result<Vec<u8>, Error> {
        self.with_variable(desc, name, |at, len| {
            let mut bytes = vec![0; len];
            // SAFETY: `at` is `len` bytes of the module, which `self` keeps loaded.
            unsafe { driver::cuMemcpyDtoH(bytes.as_mut_ptr().cast(), at, len) }?;
            Ok(bytes)
        })
    }

    /// Writes `bytes` to a variable of the kernel's module, and zeros to the rest of it.
    ///
    /// # Errors
    /// The errors of [`Module::read_variable`]; [`Error::OutOfBuffer`] if `bytes` is longer than the
    /// variable.
    pub fn write_variable(&self, desc: &KernelDesc, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.with_variable(desc, name, |at, len| {
            if bytes.len() > len {
                return Err(Error::OutOfBuffer {
                    what: format!("writing variable {name}"),
                    offset: 0,
                    end: bytes.len() as u64,
                    len: len as u64,
                });
            }
            // SAFETY: `at` is `len` bytes of the module, which `self` keeps loaded; `bytes` is not longer.
            unsafe {
                driver::cuMemsetD8(at, 0, len)?;
                driver::cuMemcpyHtoD(at, bytes.as_ptr().cast(), bytes.len())
            }
        })
    }

    /// Calls `f` with address and size of a variable, while the context is current.
    fn with_variable<R>(
        &self,
        desc: &KernelDesc,
        name: &str,
        f: impl FnOnce(CuDevicePtr, usize) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let index = self.index(desc)?;
        let (Some(kernels), Backend::Cuda(context)) = (&self.cuda, &self.device.backend) else {
            return Err(Error::NotOnModel { what: "a variable of a kernel's module" });
        };
        let _bound = context.bind()?;
        let (at, len) = kernels.variable(index, name)?;
        f(at, len)
    }

    /// The handle of kernel `index` of the module.
    fn function(&self, index: usize) -> Result<CuFunction, Error> {
        match &self.cuda {
            Some(kernels) => kernels.function(index),
            None => Err(Error::NotOnModel { what: "a function of the driver" }),
        }
    }

    /// Number of clusters of the kernel that the device can hold at one time.
    ///
    /// A cluster does not span GPCs, so a GPC may leave some SMs idle. The model has no GPCs; there, the
    /// kernel's shared memory, registers and threads limit the CTAs of an SM.
    /// (`cuOccupancyMaxActiveClusters`.)
    pub fn max_active_clusters(&self, desc: &KernelDesc) -> Result<u32, Error> {
        let index = self.index(desc)?;
        let (meta, size) = (&desc.meta, desc.meta.cluster_size());
        check_shape(meta, meta.cluster, self.device.smem_bytes())?;
        let context = match &self.device.backend {
            Backend::Cuda(context) => context,
            Backend::Sim(model) => return Ok(model.max_active_clusters(meta)),
        };
        let _bound = context.bind()?;
        let function = self.function(index)?;
        if size <= 1 {
            // The driver counts clusters only for launches that have them.
            let mut ctas = 0;
            // SAFETY: the function is of the bound context.
            unsafe {
                driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut ctas,
                    function,
                    meta.threads as i32,
                    meta.smem_bytes as usize,
                )
            }?;
            return Ok(ctas as u32 * self.device.sms());
        }
        let mut clusters = 0;
        with_config(meta, meta.cluster, CuStream::NULL, |config| {
            // SAFETY: the function is of the bound context; `config` is complete.
            unsafe { driver::cuOccupancyMaxActiveClusters(&raw mut clusters, function, config) }
        })?;
        Ok(clusters as u32)
    }
}

/// The first property in which two descriptions of a kernel differ: its name and both values.
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

/// Checks block, grid, cluster and shared memory.
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

/// Builds the launch configuration of `meta` and passes it to `then`.
///
/// A kernel with `dependent = true` is a dependent grid: it may start before the primary grid is
/// complete, and it waits for that itself (`isa::kernel::AfterWait`).
fn with_config<R>(
    meta: &KernelMeta,
    grid: [u32; 3],
    stream: CuStream,
    then: impl FnOnce(*const CuLaunchConfig) -> R,
) -> R {
    let attribute = |id, value: &[u32]| {
        let mut all = CuLaunchAttribute { id, pad: 0, value: [0; 16] };
        all.value[..value.len()].copy_from_slice(value);
        all
    };
    let mut attributes = Vec::with_capacity(2);
    if meta.cluster_size() > 1 {
        attributes.push(attribute(value::LAUNCH_CLUSTER_DIMENSION, &meta.cluster));
    }
    if meta.dependent != 0 {
        attributes.push(attribute(value::LAUNCH_PROGRAMMATIC_SERIALIZATION, &[1]));
    }
    let config = CuLaunchConfig {
        grid,
        block: [meta.threads, 1, 1],
        smem_bytes: meta.smem_bytes,
        stream,
        attributes: attributes.as_mut_ptr(),
        count: attributes.len() as u32,
    };
    then(&raw const config)
}

fn launch_cuda(
    function: CuFunction,
    meta: &KernelMeta,
    grid: [u32; 3],
    params: &[*const u8],
    stream: &Stream,
) -> Result<(), Error> {
    let mut params: Vec<*mut c_void> = params.iter().map(|p| p.cast_mut().cast()).collect();
    with_config(meta, grid, stream.cu(), |config| {
        // SAFETY: function and stream belong to the bound context. `params` has a pointer for each
        // parameter; the driver copies the bytes (and does not write them) before it returns.
        unsafe {
            driver::cuLaunchKernelEx(config, function, params.as_mut_ptr(), std::ptr::null_mut())
        }
    })
}
