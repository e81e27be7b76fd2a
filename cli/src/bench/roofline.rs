//! The roofline of a benchmark. The upper part shows arithmetic intensity against TFLOP/s under the GPU's
//! ceilings; the lower part shows the ratios to cuBLASLt at the same intensities.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;
use warpipe_bench::line::Line;
use warpipe_bench::report::Report;

const SIZE: (u32, u32) = (1000, 900);
/// Height of the upper part.
const UPPER: u32 = 600;
const LEFT: u32 = 70;
const FONT: &str = "sans-serif";
const GREY: RGBColor = RGBColor(110, 110, 110);
/// Colours of the suites, distinguishable with colour blindness (Okabe and Ito).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// The ceilings of the roofline.
#[derive(Clone, Debug, PartialEq)]
pub struct Roof {
    /// Compute ceiling in TFLOP/s.
    tflops: f64,
    /// Memory ceiling in GB/s.
    gbs: f64,
    /// Source of both, as text.
    about: String,
}

impl Roof {
    /// The given ceilings, or by default the machine's: the tensor cores at the highest clock, and the
    /// measured rate of a copy.
    pub fn of(report: &Report, tflops: Option<f64>, gbs: Option<f64>) -> Self {
        let (machine, clock) = (&report.machine, report.machine.max_sm_mhz);
        // A multiplication of 8 bits takes half the time of one of 16.
        let e4m3 = report.lines.first().is_some_and(|line| line.ab == "e4m3");
        let (peak, dtype) = if e4m3 { (2.0, "e4m3") } else { (1.0, "bf16") };
        let (tflops, compute) = match tflops {
            Some(given) => (given, "given".to_owned()),
            None => (peak * machine.peak_tflops, format!("dense {dtype} at {clock} MHz")),
        };
        let (gbs, memory) = match (gbs, machine.copy_gbs) {
            (Some(given), _) => (given, "given"),
            (None, Some(copied)) => (copied, "measured by a copy"),
            (None, None) => (machine.peak_gbs, "peak of the memory"),
        };
        let about = format!("{tflops:.0} TFLOP/s ({compute}), {gbs:.0} GB/s ({memory})");
        Self { tflops, gbs, about }
    }

    /// The ceiling in TFLOP/s at this intensity.
    fn at(&self, intensity: f64) -> f64 {
        self.tflops.min(intensity * self.gbs * 1e-3)
    }
}

/// Draws the roofline as SVG.
pub fn draw(report: &Report, roof: &Roof) -> Result<String, String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| {
        let (upper, lower) = area.split_vertically(UPPER);
        let x = extent(report.lines.iter().map(Line::intensity), 1.5);
        rates(&upper, report, roof, x.clone())?;
        ratios(&lower, report, x)?;
        area.present().map_err(Into::into)
    });
    drop(area);
    drawn.map(|()| svg).map_err(|e: Box<dyn Error>| e.to_string())
}

/// The range of the values, extended by `factor` on both sides.
fn extent(values: impl Iterator<Item = f64>, factor: f64) -> Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if high > 0.0 { low / factor..high * factor } else { 1.0..10.0 }
}

/// Suites in their order, with their colours.
fn suites(report: &Report) -> Vec<(&str, RGBColor)> {
    let mut names: Vec<&str> = Vec::new();
    for line in &report.lines {
        if !names.contains(&line.suite.as_str()) {
            names.push(&line.suite);
        }
    }
    names.into_iter().zip(COLOURS.into_iter().cycle()).collect()
}

fn of<'a>(report: &'a Report, suite: &'a str) -> impl Iterator<Item = &'a Line> {
    report.lines.iter().filter(move |line| line.suite == suite)
}

/// Draws the upper part.
fn rates(area: &Area<'_>, report: &Report, roof: &Roof, x: Range<f64>) -> Drawn {
    let ours = |line: &Line| line.tflops(line.run.times.median_us);
    let theirs = |line: &Line| line.cublaslt.map(|t| line.tflops(t.median_us));
    let reached = report.lines.iter().flat_map(|l| [Some(ours(l)), theirs(l)]).flatten();
    let y = extent(reached.chain([roof.tflops]), 1.4);
    let machine = &report.machine;
    let driver = machine.driver.as_deref().unwrap_or("unknown");
    let title = format!("{}, driver {driver}: {}", machine.gpu, roof.about);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 17))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone().log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(BLACK.mix(0.04))
        .bold_line_style(BLACK.mix(0.12))
        .label_style((FONT, 14))
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .y_desc("TFLOP/s")
        .draw()?;
    // On logarithmic axes, the ceiling is two straight lines that meet at the knee.
    let knee = roof.tflops / (roof.gbs * 1e-3);
    let points = [x.start, knee.clamp(x.start, x.end), x.end].map(|x| (x, roof.at(x)));
    chart
        .draw_series(LineSeries::new(points, BLACK.stroke_width(2)))?
        .label("the GPU's ceilings")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.stroke_width(2)));
    // cuBLASLt's rings are larger than warpipe's dots, so that both are visible at the same place.
    let rings = report.lines.iter().filter_map(|l| Some((l.intensity(), theirs(l)?)));
    let rings: Vec<_> = rings.collect();
    if !rings.is_empty() {
        chart
            .draw_series(rings.iter().map(|at| Circle::new(*at, 6, GREY.stroke_width(1))))?
            .label("cuBLASLt")
            .legend(|(x, y)| Circle::new((x + 8, y), 6, GREY.stroke_width(1)));
    }
    for (suite, colour) in suites(report) {
        let dots = of(report, suite).map(|l| (l.intensity(), ours(l)));
        chart
            .draw_series(dots.map(|at| Circle::new(at, 3, colour.filled())))?
            .label(format!("warpipe, {suite}"))
            .legend(move |(x, y)| Circle::new((x + 8, y), 3, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 14))
        .margin(8)
        .draw()?;
    Ok(())
}

/// Draws the lower part.
fn ratios(area: &Area<'_>, report: &Report, x: Range<f64>) -> Drawn {
    let all: Vec<f64> = report.lines.iter().filter_map(Line::ratio).collect();
    let low = all.iter().copied().fold(0.9, f64::min);
    // A few very large ratios would flatten all the others, so they are drawn at the edge.
    let high = all.iter().copied().fold(1.1, f64::max).min(1.3);
    let (low, high) = ((low - 0.03).max(0.0), high + 0.03);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone().log_scale(), low..high)?;
    chart
        .configure_mesh()
        .light_line_style(BLACK.mix(0.04))
        .bold_line_style(BLACK.mix(0.12))
        .label_style((FONT, 14))
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .x_desc("operations per byte of A, B and D")
        .y_desc("ratio to cuBLASLt")
        .draw()?;
    chart.draw_series(LineSeries::new([(x.start, 1.0), (x.end, 1.0)], BLACK.stroke_width(2)))?;
    for (suite, colour) in suites(report) {
        for line in of(report, suite) {
            let Some(ratio) = line.ratio() else { continue };
            let at = (line.intensity(), ratio.min(high));
            if ratio > high {
                chart.draw_series([TriangleMarker::new(at, 6, colour.filled())])?;
                let text = Text::new(format!("  {ratio:.2}"), at, (FONT, 13));
                chart.draw_series([text])?;
            } else {
                chart.draw_series([Circle::new(at, 3, colour.filled())])?;
            }
        }
    }
    if all.is_empty() {
        let (width, height) = area.dim_in_pixel();
        let at = (width as i32 / 2 - 60, height as i32 / 2);
        area.draw(&Text::new("cuBLASLt was not timed", at, (FONT, 15)))?;
    }
    Ok(())
}

/// Formats an axis label: 0.5, 20, 1000.
fn number(x: f64) -> String {
    if x < 1.0 { format!("{x:.1}") } else { format!("{x:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &str) -> Report {
        let json = format!(
            r#"{{"warpipe":"0","command":"bench","unix_time":0,"cublaslt":130101,"cublaslt_absent":null,
            "machine":{{"gpu":"NVIDIA <H200>","sms":132,"l2_bytes":62914560,"memory_bytes":1,"cuda":"13.0",
            "peak_tflops":989.0,"peak_gbs":4917.0,"copy_gbs":4000.0,"max_sm_mhz":1830,"driver":"580",
            "sm_mhz":null,"memory_mhz":null,"power_limit_w":700.0,"power_w":null,"celsius":null,
            "nvml_absent":null}},
            "config":{{"rounds":30,"warmup":10,"budget_ms":400.0,"sample_us":500.0,"seed":0}},
            "lines":[{lines}],"summaries":[]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    /// A made-up measurement: `share` of what the roof allows.
    fn line(suite: &str, m: f64, n: f64, k: f64, share: f64, theirs: Option<f64>) -> String {
        let (flops, bytes) = (2.0 * m * n * k, 2.0 * (m * k + n * k + m * n));
        let us = flops / (989e6 * share * (flops / bytes / 250.0).min(1.0));
        let times = |us: f64| format!(r#""median_us":{us},"p10_us":{us},"p90_us":{us}"#);
        let theirs = theirs.map_or("null".to_owned(), |ratio| format!("{{{}}}", times(us * ratio)));
        format!(
            r#"{{"suite":"{suite}","m":{m},"n":{n},"k":{k},"ab":"bf16","out":"bf16","flops":{flops},
            "bytes":{bytes},"samples":30,"launches":1,"sets":1,"instance":"x","tile":[128,256,64],
            {},"error":0.001,"right":true,"same_bits":true,"cublaslt":{theirs}}}"#,
            times(us)
        )
    }

    #[test]
    fn every_shape_is_a_dot_a_ring_and_a_ratio() {
        let lines = [
            line("square", 8192.0, 8192.0, 8192.0, 0.8, Some(1.02)),
            line("decode", 16.0, 4096.0, 4096.0, 0.5, Some(0.8)),
            line("ragged", 1111.0, 2222.0, 3336.0, 0.6, Some(2.2)),
            line("ragged", 300.0, 520.0, 7200.0, 0.1, None),
        ];
        let report = report(&lines.join(","));
        let svg = draw(&report, &Roof::of(&report, None, None)).unwrap();
        // Dots: 4 shapes, 2 ratios on the scale, 3 suites of the legend; rings: 3 and the legend's.
        let count = |text: &str| svg.matches(text).count();
        assert_eq!((count("r=\"3\""), count("r=\"6\"")), (4 + 2 + 3, 3 + 1));
        // The ratio beyond the scale is told in words.
        assert!(svg.contains("2.20"), "{svg}");
        for text in [
            "warpipe, decode",
            "cuBLASLt",
            "NVIDIA &lt;H200&gt;",
            "989 TFLOP/s",
            "measured by a copy",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        let e4m3 = lines.join(",").replace(r#""ab":"bf16""#, r#""ab":"e4m3""#);
        let roof = Roof::of(&self::report(&e4m3), None, None);
        assert!(roof.about.starts_with("1978 TFLOP/s (dense e4m3 at 1830 MHz)"), "{}", roof.about);
        if let Some(file) = std::env::var_os("WARPIPE_ROOFLINE") {
            std::fs::write(file, svg).unwrap();
        }
    }

    #[test]
    fn nothing_to_compare_and_nothing_at_all_are_drawn_too() {
        for lines in [line("given", 64.0, 64.0, 64.0, 0.1, None), String::new()] {
            let report = report(&lines);
            let svg = draw(&report, &Roof::of(&report, Some(500.0), Some(2000.0))).unwrap();
            assert!(svg.contains("cuBLASLt was not timed") && svg.contains("500 TFLOP/s (given)"));
        }
    }

    #[test]
    fn the_roof_bends_where_both_ceilings_meet() {
        let roof = Roof { tflops: 1000.0, gbs: 4000.0, about: String::new() };
        let at = [62.5, 125.0, 250.0, 5000.0].map(|x| roof.at(x).round() as u32);
        assert_eq!(at, [250, 500, 1000, 1000]);
    }
}
