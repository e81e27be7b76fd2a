//! Draws a timeline as SVG. Time goes to the right. Data flows down from the warp that loads, through the
//! slots, to the warp groups, the tensor core and the stores.

use super::timeline::{Arrow, CtaLines, Kind, Lane, Place, Ring, Slice, Spot, Timeline, Use};
use std::fmt::Write;
use svg::Document;
use svg::node::element::{
    Definitions, Group, Line, Marker, Path, Pattern, Rectangle, Style, Text, Title,
};

/// Width of the column with the names.
const LEFT: f64 = 178.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 22.0;
/// Height of a row of copies.
const THIN: f64 = 9.0;
const SLOT: f64 = 16.0;
/// Height of the curve of slots ahead.
const CURVE: f64 = 46.0;
/// Gap between lanes.
const GAP: f64 = 12.0;
/// Width of a step on the time axis.
const STEP: f64 = 26.0;
/// Limits of the time axis' width.
const WIDTH: (f64, f64) = (900.0, 6000.0);
/// Least width of a slice, so that it is visible.
const THINNEST: f64 = 1.2;

/// Colours of slots, distinguishable with colour blindness (Okabe and Ito).
const SLOTS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a90f", "#777777"];

const STYLE: &str = "\
text{font:12px sans-serif;fill:#222}.small{font-size:10px}.in{font-size:9px;fill:#fff;text-anchor:middle}\
.dark{fill:#222}.head{font-size:15px;font-weight:bold}.name{text-anchor:end}.tick{text-anchor:middle;fill:#666;font-size:10px}\
.grid{stroke:#000;stroke-opacity:.08}.base{fill:#f4f4f4}.wait{fill:url(#waits)}.mma{fill:#2f7d5b}.waitmma{fill:url(#both)}\
.work{fill:#b9a3cf}.special{fill:#d1495b}.tensor0{fill:#2f7d5b}.tensor1{fill:#7fbf9f}.read{fill:#7b5ea7}.write{fill:#d5c8e6}\
.held{fill:#9ecae1}.full{fill:#2171b5}.say{font-size:11px;fill:#b22222}\
.arrow{fill:none;stroke:#444;stroke-width:.7;stroke-opacity:.5;marker-end:url(#head)}\
.back{fill:none;stroke:#b22222;stroke-width:.8;stroke-opacity:.55;marker-end:url(#headb)}";

fn colour(slot: Option<u32>) -> &'static str {
    SLOTS[slot.unwrap_or(7) as usize % SLOTS.len()]
}

/// Maps time to a horizontal position.
#[derive(Clone, Copy)]
struct Scale {
    per_unit: f64,
}

impl Scale {
    fn x(self, at: u64) -> f64 {
        round(LEFT + at as f64 * self.per_unit)
    }
    fn width(self, from: u64, until: u64) -> f64 {
        round((until - from) as f64 * self.per_unit)
    }
}

/// Rounds to a tenth of a pixel.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// The timeline as SVG.
pub fn draw(timeline: &Timeline) -> String {
    let steps = timeline.ctas.iter().flat_map(|cta| &cta.rings).map(|r| r.uses.len()).max();
    let width = (STEP * steps.unwrap_or(0) as f64).clamp(WIDTH.0, WIDTH.1);
    let scale = Scale { per_unit: width / timeline.end.max(1) as f64 };
    let mut page = Page { scale, y: 30.0, width, body: Vec::new() };
    page.text(12.0, "head", &timeline.title);
    page.y += 8.0;
    let tops: Vec<_> = timeline.ctas.iter().map(|cta| page.cta(cta, timeline)).collect();
    for arrow in &timeline.arrows {
        page.arrow(arrow, &timeline.ctas, &tops);
    }
    page.legend();
    let (w, h) = (LEFT + width + RIGHT, page.y + 6.0);
    let mut document = Document::new()
        .set("viewBox", (0, 0, w.ceil() as u32, h.ceil() as u32))
        .set("width", w.ceil() as u32)
        .set("height", h.ceil() as u32)
        .add(Style::new(STYLE))
        .add(definitions())
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "#fff"));
    for group in page.body {
        document = document.add(group);
    }
    document.to_string()
}

fn definitions() -> Definitions {
    let head = |id: &str, fill: &str| {
        Marker::new()
            .set("id", id)
            .set("viewBox", "0 0 6 6")
            .set("refX", 5)
            .set("refY", 3)
            .set("markerWidth", 5)
            .set("markerHeight", 5)
            .set("orient", "auto")
            .add(Path::new().set("d", "M0 0L6 3L0 6z").set("fill", fill))
    };
    let hatch = |id: &str, ground: &str, lines: &str| {
        let part = |width: f64, fill: &str| {
            Rectangle::new().set("width", width).set("height", 5).set("fill", fill)
        };
        Pattern::new()
            .set("id", id)
            .set("width", 5)
            .set("height", 5)
            .set("patternUnits", "userSpaceOnUse")
            .set("patternTransform", "rotate(45)")
            .add(part(5.0, ground))
            .add(part(1.6, lines))
    };
    let (waits, both) = (hatch("waits", "#ededed", "#c4c4c4"), hatch("both", "#8cc7ab", "#c4c4c4"));
    Definitions::new().add(waits).add(both).add(head("head", "#444")).add(head("headb", "#b22222"))
}

struct Page {
    scale: Scale,
    /// Top of the next line.
    y: f64,
    width: f64,
    body: Vec<Group>,
}

impl Page {
    fn add(&mut self, node: impl Into<Box<dyn svg::Node>>) {
        self.body.push(Group::new().add(node));
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        self.add(Text::new(text).set("x", x).set("y", round(self.y)).set("class", class));
    }

    fn name(&mut self, y: f64, class: &str, text: &str) {
        let class = format!("name {class}");
        self.add(Text::new(text).set("x", LEFT - 8.0).set("y", round(y)).set("class", class));
    }

    /// Draws a CTA. Returns the upper edges of its lanes.
    fn cta(&mut self, cta: &CtaLines, timeline: &Timeline) -> Vec<f64> {
        self.y += 20.0;
        let what = format!("CTA {} of its cluster, time in {}", cta.rank, timeline.unit);
        self.text(12.0, "small", &what);
        let top = self.y + 6.0;
        self.y += GAP + 8.0;
        // The grid lies behind everything, but its height is known last.
        let grid = self.body.len();
        let mut tops = vec![0.0; cta.lanes.len()];
        let mut rings_drawn = false;
        for (i, lane) in cta.lanes.iter().enumerate() {
            if lane.place > Place::Loads && !rings_drawn {
                rings_drawn = true;
                cta.rings.iter().for_each(|ring| self.ring(ring));
            }
            tops[i] = self.y;
            self.lane(lane);
        }
        if !rings_drawn {
            cta.rings.iter().for_each(|ring| self.ring(ring));
        }
        let lines = self.grid(timeline.end, top, self.y - GAP / 2.0);
        self.body.insert(grid, lines);
        tops
    }

    /// Draws ticks and vertical lines.
    fn grid(&self, end: u64, top: f64, bottom: f64) -> Group {
        let rough = 90.0 / self.scale.per_unit;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough).max(1.0) as u64;
        let mut group = Group::new();
        for at in (0..=end).step_by(step as usize) {
            let x = self.scale.x(at);
            let line = Line::new().set("x1", x).set("x2", x).set("y1", round(top + 10.0));
            group = group.add(line.set("y2", round(bottom)).set("class", "grid")).add(
                Text::new(at.to_string())
                    .set("x", x)
                    .set("y", round(top + 7.0))
                    .set("class", "tick"),
            );
        }
        group
    }

    fn band(&mut self, height: f64) {
        let band = Rectangle::new().set("x", LEFT).set("y", round(self.y)).set("class", "base");
        self.add(band.set("width", round(self.width)).set("height", height));
    }

    /// Height of a row of a lane.
    fn row(lane: &Lane) -> f64 {
        if matches!(lane.place, Place::Loads | Place::Stores) { THIN } else { ROW }
    }

    fn lane(&mut self, lane: &Lane) {
        let row = Self::row(lane);
        let height = row * lane.rows as f64;
        self.band(height);
        self.name(self.y + height / 2.0 + 4.0, "", &lane.name);
        let mut group = Group::new();
        for slice in &lane.slices {
            group = group.add(self.slice(slice, row));
        }
        self.body.push(group);
        self.y += height + GAP;
    }

    fn slice(&self, slice: &Slice, row: f64) -> Rectangle {
        let width = self.scale.width(slice.from, slice.until).max(THINNEST);
        let shape = Rectangle::new()
            .set("x", self.scale.x(slice.from))
            .set("y", round(self.y + row * slice.row as f64 + 0.5))
            .set("width", width)
            .set("height", round(row - 1.0));
        let shape = match slice.kind {
            Kind::Wait => shape.set("class", "wait"),
            Kind::WaitMma => shape.set("class", "waitmma"),
            Kind::Mma => shape.set("class", "mma"),
            Kind::Special => shape.set("class", "special"),
            Kind::Work => shape.set("class", "work"),
            Kind::Tensor => shape.set("class", format!("tensor{}", slice.slot.unwrap_or(0).min(1))),
            Kind::StoreRead => shape.set("class", "read"),
            Kind::StoreWrite => shape.set("class", "write"),
            Kind::Issue | Kind::Load => shape.set("fill", colour(slice.slot)),
        };
        let text = format!("{}\n{} to {}", slice.name, slice.from, slice.until);
        shape.add(Title::new(text))
    }

    fn ring(&mut self, ring: &Ring) {
        self.curve(ring);
        let top = self.y;
        self.band(SLOT * f64::from(ring.stages));
        for slot in 0..ring.stages {
            let y = top + SLOT * f64::from(slot);
            let name = if slot == 0 {
                format!("ring “{}”, slot 0", ring.name)
            } else {
                format!("slot {slot}")
            };
            self.name(y + SLOT - 4.0, "small", &name);
        }
        for u in &ring.uses {
            let y = round(top + SLOT * f64::from(u.slot) + 0.5);
            let group = self.slot(u, y);
            self.body.push(group);
        }
        self.y = top + SLOT * f64::from(ring.stages) + GAP;
    }

    /// Draws one use of a slot: filling, full, being read.
    fn slot(&self, u: &Use, y: f64) -> Group {
        let fill = colour(Some(u.slot));
        let spans = [
            (Some(u.acquired), u.full, 0.28, "filling"),
            (u.full, u.read, 0.62, "full, not read yet"),
            (u.read, u.released, 1.0, "being read"),
        ];
        let mut group = Group::new().set("fill", fill);
        for (from, until, opacity, what) in spans {
            let (Some(from), Some(until)) = (from, until) else { continue };
            if until <= from {
                continue;
            }
            let title = format!("step {}, slot {}: {what}\n{from} to {until}", u.step, u.slot);
            let shape = Rectangle::new()
                .set("x", self.scale.x(from))
                .set("y", y)
                .set("width", self.scale.width(from, until).max(THINNEST))
                .set("height", SLOT - 1.0);
            group = group.add(shape.set("fill-opacity", opacity).add(Title::new(title)));
        }
        let end = u.released.or(u.read).or(u.full).unwrap_or(u.acquired);
        let width = self.scale.width(u.acquired, end);
        if width >= 16.0 {
            // The label goes to the part with the most room.
            let (from, class) = match (u.full, u.read) {
                (Some(full), _) if self.scale.width(u.acquired, full) >= 16.0 => {
                    (u.acquired, "in dark")
                }
                (_, Some(read)) if self.scale.width(read, end) >= 16.0 => (read, "in"),
                (full, _) => (full.unwrap_or(u.acquired), "in"),
            };
            let text = Text::new(u.step.to_string()).set("x", round(self.scale.x(from) + 8.0));
            group = group.add(text.set("y", round(y + SLOT - 5.0)).set("class", class));
        }
        group
    }

    /// Draws how far the producer is ahead ([`Ring::ahead`]).
    fn curve(&mut self, ring: &Ring) {
        // Room for the text above the curve.
        self.y += 8.0;
        self.band(CURVE);
        let stages = f64::from(ring.stages.max(1));
        let bottom = self.y + CURVE;
        let height = |n: u32| round(bottom - f64::from(n) / stages * (CURVE - 4.0));
        let levels = ring.ahead();
        for (class, which) in [("held", 0), ("full", 1)] {
            let mut d = format!("M{LEFT} {bottom}");
            for &(at, held, full) in &levels {
                let n = if which == 0 { held } else { full };
                let _ = write!(d, "H{}V{}", self.scale.x(at), height(n));
            }
            let _ = write!(d, "V{bottom}z");
            self.add(Path::new().set("d", d).set("class", class));
        }
        self.name(self.y + 14.0, "", "slots ahead");
        self.name(self.y + 27.0, "small", "of the consumer");
        let most = format!("{} of {}", ring.most().0, ring.stages);
        self.name(self.y + 40.0, "small", &format!("(at most {most})"));
        let first = ring.uses.first().and_then(|u| u.full);
        if let Some(full) = first {
            let ahead = ring.uses.iter().filter(|u| u.acquired < full).count();
            if ahead > 1 {
                let text = format!("▼ {ahead} steps are in flight before the first has arrived");
                let y = round(self.y - 4.0);
                let x = round(self.scale.x(ring.uses[ahead - 1].acquired.min(full)) + 2.0);
                self.add(Text::new(text).set("x", x).set("y", y).set("class", "say"));
            }
        }
        self.y += CURVE + 3.0;
    }

    fn arrow(&mut self, arrow: &Arrow, ctas: &[CtaLines], tops: &[Vec<f64>]) {
        let top = |spot: Spot| tops[spot.cta][spot.lane];
        let x2 = self.scale.x(arrow.to.at);
        let (x1, y1, down) = match arrow.from {
            Some(from) => {
                let row = Self::row(&ctas[from.cta].lanes[from.lane]);
                let y = top(from) + row * (from.row as f64 + 0.5);
                (self.scale.x(from.at), y, top(arrow.to) > top(from))
            }
            // The cause is not drawn.
            None => (x2 - 5.0, top(arrow.to) + ROW + GAP, false),
        };
        let y2 = top(arrow.to) + if down { 1.0 } else { ROW - 1.0 };
        let class = if arrow.back { "back" } else { "arrow" };
        let d = format!("M{} {}L{x2} {}", round(x1), round(y1), round(y2));
        self.add(Path::new().set("d", d).set("class", class).add(Title::new(arrow.text.clone())));
    }

    fn legend(&mut self) {
        self.y += 14.0;
        let entries: [(&str, &str, f64); 10] = [
            ("wait", "waits", 1.0),
            ("waitmma", "waits, wgmmas in flight", 1.0),
            ("mma", "waits for its wgmmas; the tensor core, busy", 1.0),
            ("special", "special functions, such as those of a softmax", 1.0),
            ("work", "other work, epilogue", 1.0),
            ("#0072b2", "slot filling", 0.28),
            ("#0072b2", "full, not read yet", 0.62),
            ("#0072b2", "being read (the number is the step, the colour the slot)", 1.0),
            ("read", "a store reads shared memory", 1.0),
            ("write", "a store writes global memory", 1.0),
        ];
        let mut x = 12.0;
        for (look, text, opacity) in entries {
            let width = 30.0 + 5.6 * text.len() as f64;
            if x + width > LEFT + self.width {
                (x, self.y) = (12.0, self.y + 16.0);
            }
            let shape = Rectangle::new().set("x", round(x)).set("y", round(self.y - 9.0));
            let shape = shape.set("width", 12).set("height", 10).set("fill-opacity", opacity);
            let key = if look.starts_with('#') { "fill" } else { "class" };
            self.add(shape.set(key, look));
            self.text(round(x) + 16.0, "small", text);
            x += width;
        }
        self.y += 16.0;
        let text = "Arrows: who ended a wait. Black: the copy that made a slot full. Red: the release that \
                    made it empty; a short one comes from a CTA that is not in the picture.";
        self.text(12.0, "small", text);
    }
}
