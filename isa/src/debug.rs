//! Names for the model's reports. Nothing on the device.

ops! { debug;
    /// Names the mbarrier at `bar`: `name`, of stage `stage`.
    pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
        let _ = (bar, name, stage);
    }
    /// Names the role that this thread plays from here on.
    pub fn label_role(name: &'static str) {
        let _ = name;
    }
}
