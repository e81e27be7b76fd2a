//! The tests of the host half, in one program: each module is a subject.

mod cvt;
mod entry;
mod kernel;
mod model;
