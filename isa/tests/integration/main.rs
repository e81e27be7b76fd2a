//! The tests of the host half, in one program: each module is a subject.

extern crate warpipe_isa as isa;

mod cvt;
mod entry;
mod kernel;
mod model;
mod tensor_moves;
mod tensor_products;
