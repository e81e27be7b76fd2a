//! gpu-kernels.
