//! The tests of the measurements, in one program: each module is a subject.

#[path = "../../../host/tests/common/gpu.rs"]
mod gpu;

mod gpu_cublaslt;
mod model;
mod picker;
mod recorded;
