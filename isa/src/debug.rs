//! What a kernel tells the SM model: names for its reports, regions of shared memory, tokens, and the phase that a
//! wait was for. On the device these functions do nothing.

ops! { debug;
    /// Names the mbarrier at `bar`: barrier `name` of stage `stage`.
    pub fn label_barrier(bar: u32, name: &'static str, stage: u32) {
        let _ = (bar, name, stage);
    }
    /// Names the named barrier `id` of this thread's CTA. Several may have one name.
    pub fn label_named_barrier(id: u32, name: &'static str) {
        let _ = (id, name);
    }
    /// Declares a region of shared memory, `bytes` from `base` on, and returns its address.
    ///
    /// On the model, this address and all addresses that are computed from it name the region, and an
    /// access through one of them that leaves the region is an error (WP044). Addresses of barriers and
    /// operands of wgmma may be computed from it, too. A part of a region can be declared again, from the
    /// region's address. On the device it returns `base`.
    pub fn region(name: &'static str, base: u32, bytes: u32) -> u32 {
        let _ = (name, bytes);
        base
    }
    /// Notes that this thread takes a token, such as a slot of a ring, which it must give back: `what` of
    /// `name`, number `index`, and what is to be `done` with it ("released"). `at` identifies it among the
    /// thread's tokens: the address of the barrier on which it will arrive, or of the memory.
    ///
    /// The model reports a token that is still held when its CTA has exited (WP046).
    pub fn hold(at: u32, what: &'static str, name: &'static str, index: u32, done: &'static str) {
        let _ = (at, what, name, index, done);
    }
    /// Notes that this thread gives back the token that it identified by `at`.
    pub fn let_go(at: u32) {
        let _ = at;
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
