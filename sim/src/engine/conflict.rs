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
    let with = |what: &str| Fault::new(c.rule, format!("{at} of CTA {cta}, {what}"));
    match c.rule {
        Rule::SharedBounds => {
            let size = smem.size();
            Fault::new(
                c.rule,
                format!("{at} of CTA {cta}: there are {size} bytes from {SMEM_BASE:#x}"),
            )
        }
        Rule::BarrierMemory => {
            let Some(b) = smem.barrier_at(c.addr & !7) else { return with("where an mbarrier is") };
            let fault = with(&format!("which belongs to {} until its inval", bars.name(b)));
            fault.against("its initialisation", bars.get(b).init).bar(b)
        }
        Rule::WgmmaReads => {
            if let Some(loc) = groups.iter().find_map(|w| w.reads(c.addr)) {
                let fault = with("which a wgmma reads until a wait_group covers it");
                return fault.against("the wgmma", loc);
            }
            let fault = with("which a bulk store has yet to read");
            let fault = Fault { rule: Rule::StoreReads, ..fault };
            match copies.reading(cta, c.addr) {
                Some(loc) => fault.against("the store", loc),
                None => fault,
            }
        }
        Rule::CopyInFlight => match copies.writing(cta, c.addr) {
            Some((loc, Some(bar))) => {
                let (phase, name) = (bars.get(bar).state.phase, bars.name(bar));
                let what =
                    format!("which a copy is writing that completes in phase {phase} of {name}");
                with(&what).against("the copy", loc).bar(bar)
            }
            Some((loc, None)) => {
                let fault = with("which a cp.async is writing");
                fault.against("the copy", loc)
            }
            None => with("which a copy is writing"),
        },
        Rule::Uninitialised => with("which nothing has written"),
        _ => Fault::new(c.rule, format!("{at} of CTA {cta}")),
    }
}
