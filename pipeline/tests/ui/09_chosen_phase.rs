//! A position whose phase is chosen by hand.
mod support;
use support::*;

use warpipe_pipeline::ring::ConsumerSide;
fn start() -> PipelineState<2, ConsumerSide> {
    PipelineState { index: 0, phase: 1, ..PipelineState::start() }
}

fn main() {}
