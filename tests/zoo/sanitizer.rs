//! What compute-sanitizer says of the kernels that are compiled for a GPU as well.

/// What a GPU and the tools say of one kernel with its bug.
#[derive(Clone, Copy)]
pub struct Tried {
    /// On the GPU without a tool.
    pub alone: &'static str,
    pub racecheck: &'static str,
    pub synccheck: &'static str,
    pub memcheck: &'static str,
}

/// The machine, the versions and the day of the values.
pub const SETUP: &str = "Not tried yet.";

/// One line per kernel, as `zoo_gpu sanitize` prints them.
#[rustfmt::skip]
const TRIED: &[(&str, [&str; 4])] = &[
];

/// The values of a kernel.
pub fn tried(name: &str) -> Tried {
    let values = TRIED.iter().find(|(n, _)| *n == name).map(|(_, values)| *values);
    let [alone, racecheck, synccheck, memcheck] = values.unwrap_or(["not tried"; 4]);
    Tried { alone, racecheck, synccheck, memcheck }
}

#[test]
fn every_line_is_of_a_kernel() {
    let kernels = || zoo_shipped::FAMILIES.iter().flat_map(|f| f.entries);
    for (name, _) in TRIED {
        assert!(kernels().any(|e| e.name == *name), "{name} is no kernel of tests/zoo/shipped");
    }
}
