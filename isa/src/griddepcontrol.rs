//! Programmatic dependent launch: the order of a grid and the one before it in its stream.
//!
//! PTX manual: *Control Flow*, `griddepcontrol`. PTX 7.8, sm_90. Both are no-operations in a grid
//! that was not launched as a dependent.

ops! { griddepcontrol;
    /// `griddepcontrol.wait;`: waits until the grids that this one depends on have finished and
    /// their memory is visible.
    pub fn wait() {
        ptx!("griddepcontrol.wait;")
    }
    /// `griddepcontrol.launch_dependents;`: this CTA does not mind if the dependents start.
    pub fn launch_dependents() {
        ptx!("griddepcontrol.launch_dependents;")
    }
}
