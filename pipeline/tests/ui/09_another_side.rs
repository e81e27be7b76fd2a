//! The producer's position where the consumer's is meant.
mod support;
use support::*;

use warpipe_pipeline::ring::{ConsumerSide, ProducerSide};
fn lagging(at: PipelineState<2, ConsumerSide>) -> u32 {
    at.phase()
}
fn drain() -> u32 {
    lagging(PipelineState::<2, ProducerSide>::start())
}

fn main() {}
