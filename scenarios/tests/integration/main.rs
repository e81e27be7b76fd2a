//! The scenarios on the SM model and on a GPU, in one program: each module is a subject.

#[path = "../../../host/tests/common/gpu.rs"]
mod gpu;
#[path = "../../../tests/common/on_devices.rs"]
mod on_devices;

mod meet;
mod throttle;
mod scenarios;
