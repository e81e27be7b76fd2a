//! A device with the litmus kernels loaded.

use crate::IMAGE;
use host::{Buffer, Device, Error, Module, Param};
use isa::kernel::{Kernel, KernelDesc};

/// A device to observe.
pub struct Bench {
    /// The device.
    pub device: Device,
    module: Module,
}

/// What `out` holds where a kernel has not written.
pub const UNWRITTEN: u32 = u32::MAX;

/// The 32-bit words of bytes.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The bytes of 32-bit words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

impl Bench {
    /// Loads the image.
    ///
    /// # Errors
    /// What the driver says of it.
    pub fn new(device: Device) -> Result<Self, Error> {
        let module = device.load(&IMAGE)?;
        Ok(Self { device, module })
    }

    /// Loads the image for Blackwell.
    ///
    /// # Errors
    /// As [`Bench::new`].
    pub fn blackwell(device: Device) -> Result<Self, Error> {
        let module = device.load(crate::blackwell_image())?;
        Ok(Self { device, module })
    }

    /// Runs a kernel whose first parameter is a slice of `count` words to write; gives the words.
    ///
    /// # Errors
    /// As a launch; on the model, its report.
    pub fn observe<K: Kernel>(
        &self,
        ctas: u32,
        count: usize,
        rest: Vec<Param<'_>>,
    ) -> Result<Vec<u32>, Error> {
        self.observe_desc(&K::DESC, [ctas, 1, 1], count, rest)
    }

    /// The same for a kernel known by its description, over any grid.
    ///
    /// # Errors
    /// As [`Bench::observe`].
    pub fn observe_desc(
        &self,
        desc: &KernelDesc,
        grid: [u32; 3],
        count: usize,
        rest: Vec<Param<'_>>,
    ) -> Result<Vec<u32>, Error> {
        let mut out = self.device.alloc(4 * count)?;
        out.fill(0xff)?;
        let mut params = vec![Param::slice_mut::<u32>(&mut out)];
        params.extend(rest);
        self.device.launch(&self.module, desc, grid, &params, &self.device.stream())?;
        drop(params);
        self.device.synchronize()?;
        Ok(words(&out.to_vec()?))
    }

    /// Queues a kernel behind those that were queued before.
    ///
    /// # Errors
    /// As [`Bench::observe`].
    pub fn queue<K: Kernel>(&self, ctas: u32, params: &[Param<'_>]) -> Result<(), Error> {
        let stream = self.device.stream();
        self.device.launch(&self.module, &K::DESC, [ctas, 1, 1], params, &stream)
    }

    /// A buffer of words.
    ///
    /// # Errors
    /// Out of memory.
    pub fn upload(&self, words: &[u32]) -> Result<Buffer, Error> {
        self.device.upload(&bytes(words))
    }
}
