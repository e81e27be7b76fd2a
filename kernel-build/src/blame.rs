//! The lines of Rust behind what ptxas finds fault with.
//!
//! ptxas names a line of the PTX at best, and often only the kernel. So a kernel with a fault is built once more, with
//! line information, and assembled again. [`places`] tells from which line of Rust, inlined where, each instruction
//! comes; [`flight`] finds the instruction to blame where ptxas names none; [`pressure`] does so for spills.
//! [`explain`](Blame::explain) writes one line for each fault, and quotes the line of Rust.

mod flight;
mod places;
mod pressure;
mod words;

use crate::{
    Error, Toolchain, ir, lower,
    nested::{self, Nested},
    ptx::{self, KernelPtx},
    ptxas::{Ptxas, Report, Usage},
};
pub(crate) use places::clean;
use places::{Frame, Places};
use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};
use words::Loss;

/// At most so many lines of Rust are listed for a fault.
const LISTED: usize = 6;

/// What it takes to build the kernels once more.
#[derive(Clone, Copy)]
pub(crate) struct Blame<'a> {
    pub toolchain: &'a Toolchain,
    pub ptxas: &'a Ptxas,
    /// The build of the image.
    pub nested: &'a Nested<'a>,
    pub convergent: bool,
    /// The folder of the kernel crate. Of the calls that lead to an instruction, the innermost one in this folder is
    /// the line that is named.
    pub crate_dir: &'a Path,
    /// Paths are shown relative to this folder.
    pub shown_from: &'a Path,
}

impl Blame<'_> {
    /// One line for each fault of the kernels, with the line of Rust quoted below it; empty if ptxas finds no fault with
    /// the kernels when they have line information.
    pub fn explain(&self, kernels: &[&str]) -> Result<String, Error> {
        let nested = Nested { line_info: true, ..*self.nested };
        let folder = nested.work_dir();
        // The build of the image holds the lock of its own folder.
        let _lock = if self.nested.line_info { None } else { Some(nested::lock(&folder)?) };
        let module = nested.run(self.toolchain)?;
        let source =
            fs::read_to_string(&module.path).map_err(Error::io("cannot read", &module.path))?;
        let marked = ir::mark(&source, ir::Options { convergent: self.convergent })?;
        let items = ir::Items::of(&marked.text);
        let folder = folder.join("blame");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        let mut text = String::new();
        for kernel in kernels {
            let (module, ptx) = self.numbered(kernel, &items, &folder)?;
            let own = ptx::split(&ptx)?.into_iter().find(|own| own.kernel == *kernel);
            let own = own.ok_or_else(|| Error::NoEntry((*kernel).to_owned()))?;
            let report = self.ptxas.check(self.nested.arch, std::slice::from_ref(&own), &folder)?;
            let report = Report::join(report);
            let places = Places::of(&module);
            text += &self.kernel(&own, &report, &places);
        }
        Ok(text)
    }

    /// A kernel's optimised module, and its PTX, whose `.loc`s have the numbers of [`places::number`].
    fn numbered(
        &self,
        kernel: &str,
        items: &ir::Items,
        folder: &Path,
    ) -> Result<(String, String), Error> {
        let arch = self.nested.arch;
        lower::lower(self.toolchain, arch, kernel, &items.kernel(kernel), folder)?;
        let file = |suffix: &str| folder.join(format!("{kernel}.{suffix}"));
        let (numbered, ptx) = (file("numbered.ll"), file("numbered.ptx"));
        let read = |file: &Path| fs::read_to_string(file).map_err(Error::io("cannot read", file));
        let module = read(&file("opt.ll"))?;
        let text = places::number(&module);
        fs::write(&numbered, text).map_err(Error::io("cannot write", &numbered))?;
        lower::llc(self.toolchain, arch, &numbered, &ptx)?;
        Ok((module, read(&ptx)?))
    }

    /// The faults of one kernel.
    fn kernel(&self, own: &KernelPtx, report: &Report, places: &Places) -> String {
        let code = flight::Code::of(&own.text);
        let mut text = String::new();
        let kernel = &own.kernel;
        for usage in &report.kernels {
            let Usage { stack, spill_stores, spill_loads, .. } = *usage;
            if usage.has_array() {
                let lines = code.local_memory();
                let what = format!("kernel {kernel}: {stack} bytes stack; expected 0");
                text += &self.fault(&what, "", &code.places(&lines), places);
            }
            if spill_stores + spill_loads > 0 {
                let peak = pressure::peak(&own.text);
                let what = format!(
                    "kernel {kernel}: {spill_stores} bytes of spill stores, {spill_loads} bytes of spill loads; \
                     expected 0, 0"
                );
                let alive = format!("most values are alive (about {} registers) ", peak.registers);
                text += &self.fault(&what, &alive, &code.places(&[peak.line]), places);
            }
        }
        for message in &report.losses {
            let loss = Loss::parse(message);
            let what = format!("kernel {kernel}: {loss}");
            let (why, lines) = match loss.line {
                Some(line) => ("", vec![line]),
                None => match code.intruders() {
                    lines if lines.is_empty() => ("wgmmas are issued ", code.wgmmas()),
                    lines => ("registers of a wgmma in flight are used ", lines),
                },
            };
            text += &self.fault(&what, why, &code.places(&lines), places);
        }
        text
    }

    /// A fault, and the places to blame: the first one quoted, the others by their lines alone.
    fn fault(&self, what: &str, why: &str, ids: &[Option<u32>], places: &Places) -> String {
        let mut seen = BTreeSet::new();
        let chains = ids.iter().flatten().map(|id| places.chain(*id));
        let mut chains: Vec<_> = chains
            .filter_map(|chain| Some((self.named(&chain)?, chain)))
            .filter(|(at, chain)| seen.insert((chain[*at].file.clone(), chain[*at].line)))
            .collect();
        let more = chains.len().saturating_sub(LISTED);
        chains.truncate(LISTED);
        let mut text = format!("  {what}");
        let Some((at, chain)) = chains.first() else { return text + "\n" };
        let list: Vec<_> = chains.iter().map(|(at, chain)| self.show(&chain[*at])).collect();
        let _ = write!(text, "; {why}at {}", list.join(", "));
        if more > 0 {
            let _ = write!(text, ", and {more} more");
        }
        text.push('\n');
        text + &self.quote(chain, *at)
    }

    /// The frame to name: the innermost one of the kernel crate, or otherwise the outermost one with a line.
    fn named(&self, chain: &[Frame]) -> Option<usize> {
        let has_line = |frame: &Frame| frame.line > 0;
        let own = chain.iter().position(|frame| has_line(frame) && self.is_own(&frame.file));
        own.or_else(|| chain.iter().rposition(has_line))
    }

    fn is_own(&self, file: &Path) -> bool {
        file.starts_with(self.crate_dir)
            && !nested_packages(self.crate_dir, file).any(|dir| dir.join("Cargo.toml").is_file())
    }

    fn show(&self, frame: &Frame) -> String {
        format!("{}:{}", self.relative(&frame.file).display(), frame.line)
    }

    fn relative<'f>(&self, file: &'f Path) -> &'f Path {
        file.strip_prefix(self.shown_from).unwrap_or(file)
    }

    /// The line of a frame as rustc quotes one, what is called there, and from where it is called.
    fn quote(&self, chain: &[Frame], at: usize) -> String {
        let frame = &chain[at];
        let source = fs::read_to_string(&frame.file).ok();
        let line = source.as_ref().and_then(|text| text.lines().nth(frame.line as usize - 1));
        let Some(line) = line else { return String::new() };
        let number = frame.line.to_string();
        let gap = " ".repeat(number.len());
        let mut text = format!(
            "  {gap}--> {}:{}\n  {gap} |\n  {number} | {}\n  {gap} |\n",
            self.show(frame),
            frame.column,
            line.trim_end()
        );
        let mut note = |what, frames: &mut dyn Iterator<Item = &Frame>| {
            // Within the standard library, a line says nothing.
            let of_std = |file: &Path| file.components().any(|part| part.as_os_str() == "rustlib");
            let frames = frames.filter(|frame| frame.line > 0 && !of_std(&frame.file));
            let mut shown: Vec<_> = frames.map(|frame| self.show(frame)).collect();
            // A closure's line is often that of its call.
            shown.dedup();
            let more = if shown.len() > LISTED { ", ..." } else { "" };
            shown.truncate(LISTED);
            if !shown.is_empty() {
                let _ = writeln!(text, "  {gap} = {what} {}{more}", shown.join(", "));
            }
        };
        note("inlined there:", &mut chain[..at].iter().rev());
        note("called from", &mut chain[at + 1..].iter());
        text
    }
}

/// The folders between a crate's folder and a file below it, which may be packages of their own.
fn nested_packages<'f>(crate_dir: &'f Path, file: &'f Path) -> impl Iterator<Item = &'f Path> {
    file.ancestors().skip(1).take_while(move |dir| *dir != crate_dir)
}

/// For messages that name no kernel: the kernels whose reports have a fault.
pub(crate) fn faulty<'a>(modules: &'a [KernelPtx], reports: &[Report]) -> Vec<&'a str> {
    let pairs = modules.iter().zip(reports);
    pairs.filter(|(_, report)| report.has_faults()).map(|(own, _)| own.kernel.as_str()).collect()
}
