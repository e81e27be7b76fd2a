//! Two rings whose names are two types of one text.
mod support;
use support::*;

names! { Again = "main loop" }

type Twice = SmemPlan<(PanelRing<Main>, PanelRing<Again>)>;
const BYTES: u32 = Twice::BYTES;

fn main() {}
