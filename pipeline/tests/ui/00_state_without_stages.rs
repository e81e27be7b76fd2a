//! A position in a ring without slots.
mod support;
use support::*;

use warpipe_pipeline::ring::ConsumerSide;
const START: PipelineState<0, ConsumerSide> = PipelineState::start();

fn main() {}
