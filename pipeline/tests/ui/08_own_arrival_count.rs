//! Readers that state their own arrivals.

mod support;

struct Everyone;
impl warpipe_pipeline::ring::Readers for Everyone {
    type Role = support::Work;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 128;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
}

fn main() {}
