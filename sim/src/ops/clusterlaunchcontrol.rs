//! Launch control.

use crate::drive::current::op;
use crate::exec::launch_control;

/// `clusterlaunchcontrol.try_cancel`
#[track_caller]
pub fn try_cancel(to: u32, bar: u32) {
    op("clusterlaunchcontrol.try_cancel", bar, |e, t| {
        launch_control::try_cancel(e, t, (to, bar), false)
    });
}

/// `clusterlaunchcontrol.try_cancel` with `.multicast::cluster::all`
#[track_caller]
pub fn try_cancel_multicast(to: u32, bar: u32) {
    op("clusterlaunchcontrol.try_cancel", bar, |e, t| {
        launch_control::try_cancel(e, t, (to, bar), true)
    });
}

/// `clusterlaunchcontrol.query_cancel`
#[track_caller]
pub fn query_cancel(from: u32) -> Option<[u32; 3]> {
    let mut answer = None;
    op("clusterlaunchcontrol.query_cancel", from, |e, t| {
        answer = launch_control::query(e, t, from)?;
        Ok(())
    });
    answer
}
