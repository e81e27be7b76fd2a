//! wgmma: operands of either major and any swizzle, in tiles of several panels.

use super::Litmus;
use super::tensor::Tensor;
use super::wgmma::{Type, product, small};
use super::wgmma_layout::{place, place_a, swizzled};
use crate::bench::{Bench, words};
use crate::kernels::majors::*;
use crate::log::{Allowed, Log};
use host::{Dtype, Error, Param};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "wgmma: majors and swizzles, tiles by TMA",
        says: "K-major rows and MN-major columns lie in panels as wide as the swizzle, 16 bytes without \
               one. Between panels of an MN-major operand lies the leading offset, between groups of \
               eight along K the stride offset, and without a swizzle it is the other way round.",
        run: by_tma,
        refused: None,
    },
    Litmus {
        name: "wgmma: majors and swizzles, tiles by stores",
        says: "As above.",
        run: by_stores,
        refused: None,
    },
    Litmus {
        name: "wgmma: MN-major descriptors",
        says: "Panels and groups of eight along K may be anywhere; the leading offset of a single panel \
               is not read; a start inside of a panel's first row leaves out what is before it.",
        run: descriptors,
        refused: None,
    },
];

/// Elements along K: not a multiple of the widest panel.
const K: u32 = 96;
const SPANS: [u32; 4] = [0, 32, 64, 128];

/// A kernel, and what it multiplies.
#[derive(Clone, Copy)]
struct Instance {
    desc: &'static KernelDesc,
    n: u32,
    of: Type,
}

const N8: Instance = Instance { desc: &majors_n8_f16::DESC, n: 8, of: Type::F16 };
const N64: Instance = Instance { desc: &majors_n64_bf16::DESC, n: 64, of: Type::Bf16 };
const N64_F16: Instance = Instance { desc: &majors_n64_f16::DESC, n: 64, of: Type::F16 };
const N136: Instance = Instance { desc: &majors_n136_bf16::DESC, n: 136, of: Type::Bf16 };
const N256: Instance = Instance { desc: &majors_n256_bf16::DESC, n: 256, of: Type::Bf16 };

/// The kernels' forms: whether A and B are MN-major, and whether A is in registers.
const FORMS: [(bool, bool, bool); 6] = [
    (false, false, false),
    (false, true, false),
    (true, false, false),
    (true, true, false),
    (false, false, true),
    (false, true, true),
];

/// An operand of `rows` rows (M of A, N of B) and [`K`] columns in shared memory.
#[derive(Clone, Copy, Debug)]
struct Tile {
    /// Whether it is MN-major.
    mn: bool,
    span: u32,
    rows: u32,
    /// Rows of an MN-major panel that come before it.
    before: u32,
    /// Bytes between groups of eight, and between panels, that are no one's.
    gaps: [u32; 2],
    /// The leading offset in place of the right one.
    lead: Option<u32>,
}

impl Tile {
    fn tight(mn: bool, span: u32, rows: u32) -> Self {
        Self { mn, span, rows, before: 0, gaps: [0; 2], lead: None }
    }

    /// Elements of a panel along the contiguous extent.
    fn width(&self) -> u32 {
        if self.span == 0 { 8 } else { self.span / 2 }
    }

    /// Elements along the contiguous extent and along the other one.
    fn extents(&self) -> [u32; 2] {
        let rows = self.before + self.rows;
        if self.mn { [rows, K] } else { [K, rows] }
    }

    fn panels(&self) -> u32 {
        self.extents()[0].div_ceil(self.width())
    }

    /// Bytes from one group of eight lines of a panel to the next.
    fn group(&self) -> u32 {
        16 * self.width() + self.gaps[0]
    }

    /// Bytes from one panel to the next.
    fn panel(&self) -> u32 {
        self.extents()[1] / 8 * self.group() + self.gaps[1]
    }

    /// The offset of an element. The groups of eight lines begin where the swizzle's pattern does.
    fn offset(&self, row: u32, k: u32) -> u32 {
        let row = self.before + row;
        let (along, across) = if self.mn { (row, k) } else { (k, row) };
        let line = 2 * self.width();
        along / self.width() * self.panel()
            + across / 8 * self.group()
            + swizzled(self.span, across % 8 * line + 2 * (along % self.width()))
    }

    /// Leading and stride offset.
    fn offsets(&self) -> [u32; 2] {
        let [lead, stride] = match (self.mn, self.span) {
            // With a swizzle the manual assumes a leading offset of 1, encoded.
            (false, 1..) => [16, self.group()],
            (false, 0) | (true, 1..) => [self.panel(), self.group()],
            (true, 0) => [self.group(), self.panel()],
        };
        [self.lead.unwrap_or(lead), stride]
    }

    /// Bytes of a step of 16 along K, and steps after which the next panel follows.
    fn step(&self) -> [u32; 2] {
        match (self.mn, self.span) {
            (false, 0) => [2 * self.panel(), u32::MAX],
            (false, span) => [32, span / 32],
            (true, _) => [2 * self.group(), u32::MAX],
        }
    }
}

fn tiles([a, b]: [Tile; 2], form: usize, steps: [u32; 2], tma: bool) -> Tiles {
    let both = |f: &dyn Fn(&Tile) -> u32| [f(&a), f(&b)];
    // What precedes the operand in its panel is on the start address.
    Tiles {
        start: [2 * a.before, B_START + 2 * b.before],
        lead: both(&|t| t.offsets()[0]),
        stride: both(&|t| t.offsets()[1]),
        span: both(&|t| t.span),
        step: both(&|t| t.step()[0]),
        steps_of_panel: both(&|t| t.step()[1]),
        panel: both(&|t| t.panel()),
        steps,
        form: form as u32,
        boxes: both(&|t| if tma { t.panels() } else { 0 }),
        box_elements: both(&|t| t.width()),
        box_bytes: both(&|t| t.extents()[1] * 2 * t.width()),
    }
}

/// Runs a kernel, and compares each register with the element that it should be.
fn multiply(
    (bench, log): (&Bench, &mut Log),
    Instance { desc, n, of }: Instance,
    pair: [Tile; 2],
    form: usize,
    [first, steps]: [u32; 2],
    tma: bool,
) -> Result<(), Error> {
    let bits = |which, row, k| of.bits(small(which, row, k));
    let from_registers = FORMS[form].2;
    let dtype = if of == Type::Bf16 { Dtype::Bf16 } else { Dtype::F16 };

    // The tensors, contiguous extent first, and the same elements in shared memory.
    let dims = pair.map(|tile| tile.extents().map(u64::from));
    let boxes = pair.map(|tile| [tile.width(), tile.extents()[1]]);
    let tensors = [0, 1].map(|i| Tensor {
        dtype,
        dims: &dims[i],
        box_dims: &boxes[i],
        swizzle: pair[i].span,
    });
    let mut data = tensors.map(|tensor| vec![0; tensor.bytes() as usize]);
    let mut bytes = vec![0; 16];
    for (i, tile) in pair.into_iter().enumerate().filter(|(i, _)| *i == 1 || !from_registers) {
        if !tma {
            bytes.resize((i as u32 * B_START + tile.panels() * tile.panel()) as usize, 0);
        }
        for (row, k) in (0..tile.rows).flat_map(|row| (0..K).map(move |k| (row, k))) {
            let element = bits(i, row, k).to_le_bytes();
            let at = if tile.mn { [row + tile.before, k] } else { [k, row] };
            if tma {
                let at = tensors[i].address(&at.map(i64::from)).expect("an element") as usize;
                data[i][at..at + 2].copy_from_slice(&element);
            } else {
                let at = i * B_START as usize + tile.offset(row, k) as usize;
                bytes[at..at + 2].copy_from_slice(&element);
            }
        }
    }
    let fragments: Vec<u32> = (0..512 * (K / 16))
        .map(|i| {
            let half = |e| {
                let (row, k) = place_a(i as usize / 4 % 128, i as usize % 4, e);
                u32::from(bits(0, row as u32, i / 512 * 16 + k as u32))
            };
            half(0) | half(1) << 16
        })
        .collect();

    let mut operands = tiles(pair, form, [first, steps], tma);
    if from_registers {
        operands.boxes[0] = 0;
    }
    let buffers = [bench.device.upload(&data[0])?, bench.device.upload(&data[1])?];
    let maps = [tensors[0].map(bench, &buffers[0])?, tensors[1].map(bench, &buffers[1])?];
    let (bytes, fragments) = (bench.upload(&words(&bytes))?, bench.upload(&fragments)?);
    let params = vec![
        Param::slice::<u32>(&bytes),
        Param::slice::<u32>(&fragments),
        Param::map(&maps[0]),
        Param::map(&maps[1]),
        Param::value(operands),
    ];
    let have = bench.observe_desc(desc, [1, 1, 1], 1 + 64 * n as usize, params)?;
    log.part(format!("N = {n}, {of:?}, form {form}, {pair:?}: the loads completed"));
    log.push(have[0], Allowed::Is(1));
    log.part(format!("N = {n}, {of:?}, form {form}, {pair:?}, {steps} steps from {first}"));
    let regs = n as usize / 2;
    log.exactly(
        &have[1..],
        (0..128 * regs).map(|i| {
            let (row, col) = place(i / regs, i % regs);
            product(row, col, 16 * first, 16 * (first + steps)).to_bits()
        }),
    );
    Ok(())
}

/// Every swizzle of B, with another one of A.
fn every_swizzle(
    (bench, log): (&Bench, &mut Log),
    instance: Instance,
    forms: &[usize],
    tma: bool,
) -> Result<(), Error> {
    for &form in forms {
        let (a_mn, b_mn, _) = FORMS[form];
        for (i, span) in SPANS.into_iter().enumerate() {
            let a = Tile::tight(a_mn, SPANS[(i + form) % 4], 64);
            let b = Tile::tight(b_mn, span, instance.n);
            multiply((bench, log), instance, [a, b], form, [0, K / 16], tma)?;
        }
    }
    Ok(())
}

const ALL_FORMS: [usize; 6] = [0, 1, 2, 3, 4, 5];

fn by_tma(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    every_swizzle((bench, log), N64_F16, &ALL_FORMS, true)?;
    every_swizzle((bench, log), N136, &ALL_FORMS, true)?;
    every_swizzle((bench, log), N256, &[1, 5], true)
}

fn by_stores(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    every_swizzle((bench, log), N8, &ALL_FORMS, false)?;
    every_swizzle((bench, log), N64, &ALL_FORMS, false)?;
    every_swizzle((bench, log), N136, &[3, 5], false)
}

fn descriptors(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let all = [0, K / 16];
    for span in SPANS {
        // Groups and panels apart, and one step of them.
        let eight = if span == 0 { 128 } else { 8 * span };
        for steps in [all, [4, 1]] {
            let tile = |gaps| Tile { gaps, ..Tile::tight(true, span, 64) };
            let pair = [tile([eight, 0]), tile([0, 2 * eight])];
            multiply((bench, log), N64, pair, 3, steps, false)?;
        }
    }
    for span in [32, 64, 128] {
        // Part of a panel: 8 columns behind others.
        for before in (0..span / 2).step_by(8) {
            let b = Tile { before, ..Tile::tight(true, span, 8) };
            multiply((bench, log), N8, [Tile::tight(false, 128, 64), b], 1, all, false)?;
        }
        // One panel: the leading offset could lead anywhere.
        let b = Tile { lead: Some(0x1230), ..Tile::tight(true, span, 8) };
        multiply((bench, log), N8, [Tile::tight(true, 128, 64), b], 3, all, false)?;
    }
    let one = Tile { lead: Some(0x10), ..Tile::tight(true, 128, 64) };
    multiply((bench, log), N64, [one; 2], 3, all, false)
}
