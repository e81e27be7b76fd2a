//! macros.
