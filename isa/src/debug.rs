//! Names for the SM model's reports. On the device these functions do nothing.

ops! { debug;
    /// Names the mbarrier at `bar`: barrier `name` of stage `stage`.
    pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
        let _ = (bar, name, stage);
    }
    /// Names the role of this thread from here on.
    pub fn label_role(name: &'static str) {
        let _ = name;
    }
}
