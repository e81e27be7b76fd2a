//! Programmatic dependent launch: synchronisation of a dependent grid with its primary grid.
//!
//! PTX manual: *Control Flow*, `griddepcontrol`. PTX 7.8, sm_90. `wait` does nothing in a grid that was
//! not launched as a dependent grid, and `launch_dependents` nothing in a grid without dependent grids.

ops! { griddepcontrol;
    /// `griddepcontrol.wait;`: waits until the primary grids have completed and their writes are visible.
    /// (CUDA `cudaGridDependencySynchronize`; CUTLASS `wait_on_dependent_grids`.)
    pub fn wait() {
        ptx!("griddepcontrol.wait;")
    }
    /// `griddepcontrol.launch_dependents;`: signals that, as far as this CTA is concerned, the dependent
    /// grids may start. (CUDA `cudaTriggerProgrammaticLaunchCompletion`; CUTLASS `launch_dependent_grids`.)
    pub fn launch_dependents() {
        ptx!("griddepcontrol.launch_dependents;")
    }
}
