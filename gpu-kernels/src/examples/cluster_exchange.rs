//! A cluster exchange: four CTAs share each row, and divide it by the sum of its magnitudes.
//!
//! ```text
//!   CTA 0 ──sums──► CTA 1 ──sums──► CTA 2 ──sums──► CTA 3 ──sums──► CTA 0      three times
//! ```
//!
//! Each CTA has 64 of a row's 256 columns. The sums go around the cluster: in each round, a thread sends the sums of
//! its two rows that it received last to the next CTA, and adds those that it receives from the previous CTA. After
//! three rounds every CTA has added all four. The exchange uses distributed shared memory, not global memory. A CTA
//! does not exit before the next one has taken its last message (`tail`).
#![forbid(unsafe_code)]

use half::bf16;
use isa::kernel;
use pipeline::barrier::Mailbox;
use pipeline::mma::{RowParts, row_of};
use pipeline::prelude::*;

names! { Columns = "columns", Sums = "sums" }
roles! { Load = 1 x 40 registers, Scale = 1 x 232 registers }

/// 64 rows of 64 elements: one CTA's columns.
pub type Panel = Tile<bf16, 64, 64>;
/// CTAs that share the rows.
pub type Row = Cluster<1, CTAS>;
const CTAS: usize = 4;
type Plan = SmemPlan<(
    Ring<2, (Panel,), Tma, Reads<Scale>, Columns, Row>,
    StoreBuffers<bf16, 2, Scale>,
    Mailbox<2, Scale, Sums, Row>,
)>;
type ThisCta = Cta<(Load, Scale), Row, Plan>;

/// `y = x / Σ|x|` along rows of 256 elements, for `blocks` blocks of 64 rows. Cluster i of g takes blocks i, i + g, ….
/// A row of zeros stays a row of zeros.
#[kernel]
pub fn cluster_exchange(cta: ThisCta, x: &TensorMap<Panel>, y: &TensorMap<Panel>, blocks: u32) {
    let (cta, (ring, stores, mail)) = cta.init();
    let coord = cta.coord();
    let col = 64 * coord.n();
    let rows = || (coord.cluster_id()..blocks).step_by(coord.clusters() as usize).map(|b| 64 * b);

    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for row in rows() {
                    loads.acquire().load((x.tile(row, col, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            let mut outbox = mail.outbox.by(&group);
            let mut inbox = mail.inbox.by(&group);
            for row in rows() {
                let panel = arrived.wait();
                let mut own = [0.0; 2];
                for fragment in 0..4 {
                    let x = panel.fragment(&group, fragment);
                    for i in 0..8 {
                        own[row_of(i)] += x[i].abs();
                    }
                }
                let mut passing = group.row_sum(RowParts(own)).0;
                let mut sums = passing;
                for _ in 1..CTAS {
                    outbox.send(passing);
                    passing = inbox.receive();
                    sums = [sums[0] + passing[0], sums[1] + passing[1]];
                }
                let scale = sums.map(|sum| if sum > 0.0 { 1.0 / sum } else { 0.0 });

                let mut out = stores.acquire();
                for fragment in 0..4 {
                    let x = panel.fragment(&group, fragment);
                    out.put(fragment, core::array::from_fn(|i| x[i] * scale[row_of(i)]));
                }
                panel.release();
                out.publish().store(y, row, col);
            }
            outbox.tail();
            stores.tail();
        },
    );
}
