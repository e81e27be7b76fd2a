//! The tests that run rustc, cargo or the assembler. They are a program of their own, which a bundle for
//! machines without a toolchain leaves out.

mod assembles;
mod blackwell;
mod kernel_errors;
