//! What a program with kernels of its own brings along: two kernels in PTX, loaded with cudarc.

use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

/// The program's own kernels.
pub struct OwnKernels {
    copy_words: CudaFunction,
    count_differences: CudaFunction,
}

impl OwnKernels {
    /// Loads them.
    ///
    /// # Errors
    /// The driver's.
    pub fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(include_str!("own.ptx")))?;
        Ok(Self {
            copy_words: module.load_function("copy_words")?,
            count_differences: module.load_function("count_differences")?,
        })
    }

    /// Queues a copy of `bytes` bytes from one address to another.
    ///
    /// # Safety
    /// Both are that many bytes of device memory, which stays alive until the work is complete. What else
    /// uses them is ordered by the stream.
    ///
    /// # Errors
    /// The driver's.
    pub unsafe fn copy(
        &self,
        stream: &CudaStream,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let words = bytes as u32 / 4;
        let mut launch = stream.launch_builder(&self.copy_words);
        launch.arg(&to).arg(&from).arg(&words);
        // SAFETY: the kernel takes these arguments; the caller's contract covers the memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(words)) }?;
        Ok(())
    }

    /// Queues the count of the words in which `bytes` bytes at two addresses differ; adds it to
    /// `differences`.
    ///
    /// # Safety
    /// As for [`OwnKernels::copy`]; `differences` is the address of a u32.
    ///
    /// # Errors
    /// The driver's.
    pub unsafe fn compare(
        &self,
        stream: &CudaStream,
        [a, b]: [u64; 2],
        differences: u64,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let words = bytes as u32 / 4;
        let mut launch = stream.launch_builder(&self.count_differences);
        launch.arg(&a).arg(&b).arg(&differences).arg(&words);
        // SAFETY: the kernel takes these arguments; the caller's contract covers the memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(words)) }?;
        Ok(())
    }
}
