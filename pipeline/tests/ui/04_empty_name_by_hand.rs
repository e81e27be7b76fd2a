//! A ring whose name, of one's own making, is empty.
mod support;
use support::*;

enum Nameless {}
impl warpipe_pipeline::ring::Name for Nameless {
    const NAME: &'static str = "";
    const FULL: &'static str = "full";
    const EMPTY: &'static str = "empty";
}

type Twice = SmemPlan<(PanelRing<Nameless>, PanelRing<Nameless>)>;
const BYTES: u32 = Twice::BYTES;

fn main() {}
