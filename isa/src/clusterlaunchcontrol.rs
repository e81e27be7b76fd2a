//! Launch control: a cluster takes over the work of one that has not started.
//!
//! **Nothing of this module has ever run on a chip.** ptxas assembles it for sm_100a and sm_103a, and the SM model runs
//! it. It does not exist on Hopper.
//!
//! A grid has a cluster for each tile. A cluster that has finished a tile asks for another one ([`try_cancel`]): the
//! hardware cancels the launch of a cluster that has not started, and answers with its place in the grid. The answer
//! arrives in shared memory and completes 16 bytes on an mbarrier. [`query_cancel`] reads it. When no cluster is left, the
//! request fails, and a CTA that has seen this does not ask again.
//!
//! The answer is written through the asynchronous proxy. So whoever reads it executes
//! [`fence::proxy_async_shared_cta`](crate::fence::proxy_async_shared_cta) before the memory is used for another answer.
//!
//! PTX manual: *Parallel Synchronization and Communication Instructions*, `clusterlaunchcontrol.try_cancel` and
//! `query_cancel`. PTX 8.6, sm_100; the multicast sm_100a.

ops! { clusterlaunchcontrol;
    /// `clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [to], [bar];`: asks for a cluster.
    /// The answer's 16 bytes complete on `bar`. (CUTLASS `issue_clc_query`.)
    ///
    /// # Safety
    /// `to` is 16 aligned bytes of this CTA's shared memory that nobody uses until `bar`'s phase has completed. `bar` is an
    /// initialised mbarrier of this CTA that expects the bytes. The CTA has not seen a request fail.
    pub unsafe fn try_cancel(to: u32, bar: u32) {
        ptx!(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [{}], [{}];",
            in(reg32) to, in(reg32) bar
        )
    }
    /// `clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [to], [bar];`:
    /// as [`try_cancel`], with the answer at the same offsets in all CTAs of the cluster.
    ///
    /// # Safety
    /// As [`try_cancel`], in each of these CTAs. None of them exits before the answer has arrived.
    pub unsafe fn try_cancel_multicast(to: u32, bar: u32) {
        ptx!(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 \
             [{}], [{}];",
            in(reg32) to, in(reg32) bar
        )
    }
    /// `clusterlaunchcontrol.query_cancel.is_canceled.pred.b128` and `.get_first_ctaid.v4.b32.b128` of the 16 bytes at `from`: the
    /// `%ctaid` of the first CTA of the cluster whose work this cluster takes over, or `None` if the request failed.
    /// (CUTLASS `work_tile_info_from_clc_response`.)
    ///
    /// # Safety
    /// `from` is the address of an answer, and the thread has waited for its arrival.
    pub unsafe fn query_cancel(from: u32) -> Option<[u32; 3]> {
        let (cancelled, x, y, z): (u32, u32, u32, u32);
        ptx!(
            "{{ .reg .pred p; .reg .b128 answer; ld.shared.b128 answer, [{from}]; \
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer; selp.u32 {c}, 1, 0, p; \
             mov.b32 {x}, 0; mov.b32 {y}, 0; mov.b32 {z}, 0; \
             @p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{{x}, {y}, {z}, _}}, answer; }}",
            from = in(reg32) from, c = out(reg32) cancelled, x = out(reg32) x, y = out(reg32) y, z = out(reg32) z
        );
        (cancelled != 0).then_some([x, y, z])
    }
}
