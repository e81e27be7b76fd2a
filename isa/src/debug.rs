//! What a kernel tells the SM model: names for reports, and the phase that a wait was for. On the device these
//! functions do nothing.

ops! { debug;
    /// Names the mbarrier at `bar`: barrier `name` of stage `stage`.
    pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
        let _ = (bar, name, stage);
    }
    /// Says that the wait which this thread has just passed, on the mbarrier at `bar`, was for the phase of
    /// this number, counted from 0. The instruction has only its parity.
    pub fn waited_for(bar: u32, phase: u32) {
        let _ = (bar, phase);
    }
    /// Names the role of this thread from here on.
    pub fn label_role(name: &'static str) {
        let _ = name;
    }
}
