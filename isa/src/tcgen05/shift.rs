//! `tcgen05.shift`: rows of tensor memory, moved down by one.
//!
//! The matrix is 32 lanes from the address's lane on, and the 8 columns from its column on: 32 bytes of each row. Row `i` moves to
//! row `i + 1`, for `i` from 0 to 30. Row 0 keeps its value, and row 31's is lost. The address's lane is a multiple of 32.
//!
//! That is how we read the manual, which has no figure: "shifting of 32-byte elements downwards across all the rows, except the
//! last, by one row", "for a warp". **No chip has confirmed it.**
//!
//! The thread does not wait for a shift: see [`commit`](super::commit). The manual orders a shift of one thread behind its
//! multiplications, and multiplications and `cp_4x256b` behind a shift.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, `tcgen05.shift`; "Pipelined tcgen05 Instructions".

ops! { tcgen05;
    /// `tcgen05.shift.cta_group::1.down [taddr];`
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16): the columns are allocated, and nobody else uses these words until a commit of this thread has
    /// completed.
    pub unsafe fn shift_down(taddr: u32) {
        ptx!("tcgen05.shift.cta_group::1.down [{}];", in(reg32) taddr)
    }
    /// `tcgen05.shift.cta_group::2.down [taddr];`: as [`shift_down`], in both CTAs of the pair, at the same address. One thread of
    /// either CTA executes it.
    ///
    /// # Safety
    /// As [`shift_down`], in both CTAs. The peer CTA runs, and does not exit before it has completed.
    pub unsafe fn shift_down_2sm(taddr: u32) {
        ptx!("tcgen05.shift.cta_group::2.down [{}];", in(reg32) taddr)
    }
}
