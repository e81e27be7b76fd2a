//! Running a kernel on the SM model, and looking at its data.
#![allow(dead_code, unused_imports)]

include!("model.rs");
