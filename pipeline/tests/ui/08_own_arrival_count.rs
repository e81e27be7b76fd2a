//! Readers that state their own arrivals.

struct Everyone;
impl pipeline::ring::Readers for Everyone {
    const ARRIVALS: usize = 128;
    const MULTICAST: bool = false;
    const ASYNC: bool = false;
}

fn main() {}
