//! kernel-build.
