//! The tests of the SM model: one program, because linking takes longer than most tests.

extern crate warpipe_sim as sim;

mod common;

mod barriers;
mod certify;
mod certify_launches;
mod copies;
mod ends;
mod exits;
mod explore;
mod findings;
mod gemm;
mod laps;
mod launches;
mod races;
mod races_async;
mod races_global;
mod races_oracle;
mod runs;
mod seeds;
mod spins;
mod tensor_core;
mod tensor_maps;
mod tensor_types;
mod trace;
mod words;
