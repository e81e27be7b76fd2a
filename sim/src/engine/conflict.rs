//! Who stands in the way of an access to shared memory.

use crate::barrier::mbarriers::Mbarriers;
use crate::copy::copies::Copies;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::memory::shared::{Conflict, Shared};
use crate::types::grid::SMEM_BASE;
use crate::wgmma::groups::WarpGroup;

/// The fault of a conflict in a CTA, which names the other side.
pub(crate) fn explain(
    c: Conflict,
    cta: usize,
    smem: &Shared,
    (bars, copies, groups): (&Mbarriers, &Copies, &[WarpGroup]),
) -> Fault {
    let at = format!("shared address {:#x} (base + {})", c.addr, c.addr.wrapping_sub(SMEM_BASE));
    let fault = Fault::new(c.rule, format!("{at} of CTA {cta}"));
    match c.rule {
        Rule::SharedBounds => {
            let size = smem.size();
            Fault::new(
                c.rule,
                format!("{at} of CTA {cta}: there are {size} bytes from {SMEM_BASE:#x}"),
            )
        }
        Rule::BarrierMemory => {
            let fault = Fault::new(c.rule, format!("{at} of CTA {cta}: inval comes before"));
            match smem.barrier_at(c.addr & !7) {
                Some(b) => fault.against("its initialisation", bars.get(b).init).bar(b),
                None => fault,
            }
        }
        Rule::WgmmaReads => {
            if let Some(loc) = groups.iter().find_map(|w| w.reads(c.addr)) {
                return fault.against("wgmma, not waited for", loc);
            }
            let fault = Fault { rule: Rule::StoreReads, ..fault };
            match copies.reading(cta, c.addr) {
                Some(loc) => fault.against("a bulk copy that has not read its source", loc),
                None => fault,
            }
        }
        Rule::CopyInFlight => match copies.writing(cta, c.addr) {
            Some(loc) => fault.against("a copy that has not landed", loc),
            None => fault,
        },
        _ => fault,
    }
}
