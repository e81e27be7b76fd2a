//! Programmatic dependent launch: a launch of the model depends on none, and both do nothing.

use crate::drive::current::op;

/// `griddepcontrol.wait`
#[track_caller]
pub fn wait() {
    op("griddepcontrol.wait", 0, |_, _| Ok(()));
}

/// `griddepcontrol.launch_dependents`
#[track_caller]
pub fn launch_dependents() {
    op("griddepcontrol.launch_dependents", 0, |_, _| Ok(()));
}
