//! A slot of a pair with the two blocks of factors of MXFP4, and elements of MXFP8.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::tensor::*;
use warpipe_pipeline::tile::ScaleBlocks;

type A = Tile<F8E4M3, 128, 128>;
type Half = Tile<F8E4M3, 64, 128>;
type Factors = ScaleBlocks<isa::tcgen05::Ue8m0, 2>;

const INSTRUCTION: u32 =
    <(A, Half, Factors, Factors) as UmmaTiles<128, TwoSm, FACTOR_COLUMNS>>::INSTRUCTION;

fn main() {}
