//! Device builds, in one program: each module is a subject. All of them run cargo.

mod device;
mod embed;
