//! What a landing copy means for the order of a guided run.

use crate::bulk::{Copy, Kind, Sink};
use crate::cluster::Cluster;
use crate::explore::guide::GLOBAL;
use crate::explore::order::Key;
use crate::tma;

impl Cluster {
    /// Notes what a copy that lands reads, writes and lets go on.
    pub fn landing(&mut self, copy: &Copy) {
        let Some(guide) = &mut self.guide else { return };
        let t = copy.issuer;
        let mut shared = |cta: usize, addr: u32, bytes: u32, write| {
            guide.visit(cta);
            guide.touch(cta as u64, u64::from(addr), u64::from(bytes), write);
        };
        match &copy.kind {
            Kind::TensorLoad { map, coords, to } => {
                shared(to.cta, to.dst, to.bytes, true);
                tma::spans(map, *coords, false, |addr, len| guide.touch(GLOBAL, addr, len, false));
            }
            Kind::RunLoad { src, to } => {
                shared(to.cta, to.dst, to.bytes, true);
                guide.touch(GLOBAL, *src, u64::from(to.bytes), false);
            }
            Kind::Peer { cta, src, to } => {
                shared(*cta, *src, to.bytes, false);
                shared(to.cta, to.dst, to.bytes, true);
            }
            Kind::StoreRead { group, cta, src, bytes, .. } => {
                shared(*cta, *src, *bytes, false);
                guide.order.come(Key::Group(t, *group, false));
            }
            Kind::StoreWrite { group, data, sink, .. } => {
                match sink {
                    Sink::Tensor { map, coords, .. } => {
                        tma::spans(map, *coords, true, |addr, len| {
                            guide.touch(GLOBAL, addr, len, true);
                        });
                    }
                    Sink::Run { dst, .. } => {
                        guide.touch(GLOBAL, *dst, data.len() as u64, true);
                    }
                }
                guide.order.come(Key::Group(t, *group, true));
            }
            Kind::CpAsync => {}
        }
    }
}
