//! Host code that pages of docs/ quote, and the tests of its kernels on the SM model.

use warpipe::isa::kernel::Image;

pub mod add;
pub mod gemm;
#[cfg(test)]
mod tests;

/// The kernels of `book-kernels`.
pub static IMAGE: Image = warpipe::kernel_image!("book_kernels");
