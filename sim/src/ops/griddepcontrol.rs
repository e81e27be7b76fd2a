//! Programmatic dependent launch.

use crate::drive::current::{block, op};
use crate::exec::grid;

/// `griddepcontrol.wait`
#[track_caller]
pub fn wait() {
    block("griddepcontrol.wait", 0, |e, t| Ok(grid::wait(e, t)));
}

/// `griddepcontrol.launch_dependents`
#[track_caller]
pub fn launch_dependents() {
    op("griddepcontrol.launch_dependents", 0, |e, t| {
        grid::signals(e, e.hw.thread(t).cta);
        Ok(())
    });
}
