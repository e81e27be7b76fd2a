//! The page as text.

use crate::facts::{Part, Region, Tile};
use crate::loops::Loop;
use crate::mix::Class;
use crate::{Page, plural};
use std::fmt::{self, Display, Formatter};

/// Shared memory that a CTA of sm_90 can have.
const MOST_SMEM: u32 = 227 * 1024;
/// Bytes of an instruction.
const INSTRUCTION: u32 = 16;
/// Characters of a Rust line that are shown.
const SOURCE_WIDTH: usize = 60;
/// Width of the SASS beside which the Rust lines stand.
const SASS_WIDTH: usize = 58;

impl Display for Page {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}", self.facts.kernel, self.facts.target)?;
        self.launch(f)?;
        self.memory(f)?;
        self.barriers(f)?;
        self.registers(f)?;
        self.occupancy(f)?;
        match &self.sass {
            Some(sass) => {
                let from = format!("{} SASS instructions, ptxas {}", sass.instructions, sass.ptxas);
                mix(f, &from, &sass.mix)?;
                let count = sass.loops.len();
                for (i, one) in sass.loops.iter().enumerate() {
                    main_loop(f, i + 1, count, one)?;
                }
            }
            None => mix(f, "PTX instructions", &self.ptx_mix)?,
        }
        if !self.missing.is_empty() {
            writeln!(f, "\nnot known")?;
            self.missing.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}

/// A line of a section: a word and its value.
fn row(f: &mut Formatter<'_>, what: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "  {what:<16} {value}")
}

impl Page {
    fn launch(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let facts = &self.facts;
        writeln!(f, "\nlaunch")?;
        match facts.threads {
            Some(threads) => {
                row(
                    f,
                    "threads",
                    format!("{threads}, {}", plural(threads.div_ceil(32), "warp", "warps")),
                )?;
            }
            None => row(f, "threads", "not stated")?,
        }
        let [x, y, z] = facts.cluster;
        let size = [x, y, z].into_iter().fold(1, u32::saturating_mul);
        let ctas = plural(size, "CTA", "CTAs");
        match &facts.cta {
            Some(cta) if size > 1 => {
                let [m, n] = cta.cluster;
                row(f, "cluster", format!("{m} along M x {n} along N, {ctas}"))?;
            }
            _ if size > 1 => row(f, "cluster", format!("{x} x {y} x {z}, {ctas}"))?,
            _ => row(f, "cluster", "none")?,
        }
        row(f, "min CTAs per SM", facts.min_ctas)?;
        if let Some(dependent) = facts.dependent {
            let text = if dependent { "yes (programmatic dependent launch)" } else { "no" };
            row(f, "dependent grid", text)?;
        }
        match (facts.smem_bytes, facts.static_smem_bytes) {
            (Some(dynamic), 0) => row(f, "shared memory", format!("{dynamic} bytes"))?,
            (Some(dynamic), declared) => {
                row(f, "shared memory", format!("{dynamic} bytes, and {declared} declared"))?;
            }
            (None, declared) => {
                row(f, "shared memory", format!("{declared} bytes declared; dynamic: not stated"))?;
            }
        }
        if facts.params.is_empty() {
            return row(f, "parameters", "none");
        }
        writeln!(f, "\nparameters")?;
        let width = facts.params.iter().map(|p| p.name.len()).max().unwrap_or(0).max(4);
        writeln!(f, "   #  {:<width$}  {:<10}  bytes", "name", "kind")?;
        for (i, param) in facts.params.iter().enumerate() {
            let kind = if param.kind.is_empty() { "?" } else { &param.kind };
            let name = if param.name.is_empty() { "?" } else { &param.name };
            let mut what = Vec::new();
            what.extend(param.dtype.clone());
            what.extend(param.tile.map(|[rows, cols]| format!("box {rows} x {cols}")));
            what.extend(param.swizzle.map(|bytes| format!("swizzle {bytes}")));
            what.extend(param.mutable.map(|m| if m { "written" } else { "read only" }.to_owned()));
            let line = format!(
                "  {i:>2}  {name:<width$}  {kind:<10}  {:>5}  {}",
                param.bytes,
                what.join(", ")
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn memory(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(cta) = &self.facts.cta else { return Ok(()) };
        let bytes = self.facts.smem_bytes.unwrap_or_default();
        writeln!(f, "\nshared memory, {bytes} of {MOST_SMEM} bytes")?;
        if !cta.regions.iter().any(|region| region.bytes > 0) {
            return writeln!(f, "  nothing");
        }
        writeln!(f, "   offset     bytes  region")?;
        let mut end = 0;
        for region in cta.regions.iter().filter(|region| region.bytes > 0) {
            if region.offset > end {
                writeln!(f, "  {end:>7}  {:>8}  (alignment)", region.offset - end)?;
            }
            end = region.offset + region.bytes;
            region_lines(f, region)?;
        }
        Ok(())
    }

    fn barriers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(cta) = &self.facts.cta else { return Ok(()) };
        let all = cta.regions.iter().flat_map(|region| {
            region.parts.iter().filter_map(move |part| match part {
                Part::Mbarriers { what, count, arrivals, by, .. } => {
                    Some((region, what, *count, *arrivals, by))
                }
                _ => None,
            })
        });
        let all: Vec<_> = all.collect();
        let total: u32 = all.iter().map(|(_, _, count, _, _)| count).sum();
        if total > 0 {
            let name = |region: &Region, what: &str| match what {
                "" => called(region).to_owned(),
                what => format!("{}.{what}", called(region)),
            };
            let width = all.iter().map(|(r, what, ..)| name(r, what).len()).max().unwrap_or(0);
            writeln!(f, "\nmbarriers, {total}")?;
            writeln!(f, "  number  {:<width$}  arrivals of a phase", "name")?;
            for (region, what, count, arrivals, by) in all {
                writeln!(f, "  {count:>6}  {:<width$}  {arrivals}: {by}", name(region, what))?;
            }
        }
        writeln!(f, "\nnamed barriers, {} of 16", self.named_barriers.len())?;
        writeln!(f, "  id  threads  of")?;
        for barrier in &self.named_barriers {
            writeln!(f, "  {:>2}  {:>7}  {}", barrier.id, barrier.threads, barrier.of)?;
        }
        Ok(())
    }

    fn registers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nregisters")?;
        if let Some(sass) = &self.sass {
            row(f, "ptxas", format!("{} per thread at entry", sass.registers))?;
            row(f, "stack", format!("{} bytes", sass.stack))?;
            let (stores, loads) = (sass.spill_stores, sass.spill_loads);
            row(f, "spills", format!("{stores} bytes stored, {loads} bytes loaded"))?;
            for loss in &sass.losses {
                row(f, "loss", loss)?;
            }
        }
        let Some(cta) = &self.facts.cta else {
            if self.sass.is_none() {
                writeln!(f, "  not known")?;
            }
            return Ok(());
        };
        let threads = self.facts.threads.unwrap_or_default();
        let width = cta.roles.iter().map(|role| role.name.len()).max().unwrap_or(0).max(8);
        writeln!(
            f,
            "  {:<width$}  {:>8}  {:>7}  {:>10}  {:>6}",
            "role", "warps", "threads", "per thread", "sum"
        )?;
        let mut line = |name: &str, warps: &str, threads: u32, each: u32| {
            writeln!(
                f,
                "  {name:<width$}  {warps:>8}  {threads:>7}  {each:>10}  {:>6}",
                threads * each
            )
        };
        line(
            "at entry",
            &format!("0 to {}", threads / 32 - u32::from(threads >= 32)),
            threads,
            cta.registers_at_entry,
        )?;
        let mut warp = 0;
        for role in &cta.roles {
            let warps = 4 * role.groups;
            line(
                &role.name,
                &format!("{warp} to {}", warp + warps - 1),
                32 * warps,
                role.registers,
            )?;
            warp += warps;
        }
        Ok(())
    }

    fn occupancy(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.occupancy.ctas {
            Some(ctas) => writeln!(
                f,
                "\nCTAs per SM: {ctas}, limited by {}",
                self.occupancy.limited_by().join(" and ")
            )?,
            None => writeln!(f, "\nCTAs per SM: not known")?,
        }
        for limit in &self.occupancy.limits {
            writeln!(f, "  {:<16} {:>3}  {}", limit.by, limit.ctas, limit.why)?;
        }
        Ok(())
    }
}

/// What a region is called: its name, or the type that made it.
fn called(region: &Region) -> &str {
    if region.name.is_empty() { &region.kind } else { &region.name }
}

fn region_lines(f: &mut Formatter<'_>, region: &Region) -> fmt::Result {
    let name = if region.name.is_empty() { String::new() } else { format!(" \"{}\"", region.name) };
    writeln!(f, "  {:>7}  {:>8}  {}{name}", region.offset, region.bytes, region.kind)?;
    for part in &region.parts {
        let (offset, bytes, text) = match part {
            Part::Tiles { what, offset, count, tiles } => {
                let each: u32 = tiles.iter().map(|tile| tile.bytes).sum();
                (*offset, count * each, format!("{count} {what} of {each}: {}", tile_list(tiles)))
            }
            Part::Bytes { what, offset, bytes } => (*offset, *bytes, what.clone()),
            Part::Mbarriers { what, offset, count, .. } => (
                *offset,
                8 * count,
                match what.as_str() {
                    "" => plural(*count, "mbarrier", "mbarriers"),
                    what => format!("{} \"{what}\"", plural(*count, "mbarrier", "mbarriers")),
                },
            ),
            Part::Named { .. } => continue,
        };
        writeln!(f, "  {:>7}  {bytes:>8}    {text}", region.offset + offset)?;
    }
    Ok(())
}

/// `bf16 128 x 64, bf16 256 x 64`; equal neighbours are counted.
fn tile_list(tiles: &[Tile]) -> String {
    let mut list: Vec<(String, u32)> = Vec::new();
    for tile in tiles {
        let text = format!("{} {} x {}", tile.dtype, tile.rows, tile.cols);
        match list.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => list.push((text, 1)),
        }
    }
    let words = list.into_iter().map(
        |(text, count)| {
            if count == 1 { text } else { format!("{count} of {text}") }
        },
    );
    words.collect::<Vec<_>>().join(", ")
}

fn mix(f: &mut Formatter<'_>, title: &str, classes: &[Class]) -> fmt::Result {
    writeln!(f, "\n{title}")?;
    for class in classes {
        let opcodes: Vec<_> = class
            .opcodes
            .iter()
            .take(6)
            .map(|(opcode, count)| format!("{opcode} {count}"))
            .collect();
        let more = class.opcodes.len().saturating_sub(6);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        writeln!(f, "  {:<28} {:>5}  {}{more}", class.what, class.count, opcodes.join(", "))?;
    }
    Ok(())
}

fn main_loop(f: &mut Formatter<'_>, number: usize, of: usize, one: &Loop) -> fmt::Result {
    let instructions = one.instructions.len();
    writeln!(
        f,
        "\nmain loop {number} of {of}: {instructions} instructions, {} {}",
        one.count, one.opcode
    )?;
    let (mut last, mut next) = (None, None);
    for instruction in &one.instructions {
        // Code that lies elsewhere, such as a wait's retries.
        if next.is_some_and(|next| next != instruction.address) {
            writeln!(f, "  ...")?;
        }
        next = Some(instruction.address + INSTRUCTION);
        let sass = format!("  {:05x}  {}", instruction.address, instruction.text);
        let here = instruction.file.as_ref().zip(instruction.line);
        let rust = match here {
            Some((file, line)) if last != here => {
                let source = cut(instruction.source.as_deref().unwrap_or_default());
                format!("{}:{line}  {source}", short(file))
            }
            _ => String::new(),
        };
        // Without a line of its own, an instruction goes with the one before it.
        last = here.or(last);
        writeln!(f, "{}", format!("{sass:<SASS_WIDTH$}  {rust}").trim_end())?;
    }
    Ok(())
}

/// The beginning of a source line.
fn cut(source: &str) -> String {
    match source.char_indices().nth(SOURCE_WIDTH) {
        Some((at, _)) => format!("{} ...", source[..at].trim_end()),
        None => source.to_owned(),
    }
}

/// The last two parts of a path.
fn short(path: &str) -> &str {
    match path.rmatch_indices('/').nth(1) {
        Some((at, _)) => &path[at + 1..],
        None => path,
    }
}
