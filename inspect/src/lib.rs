//! One page about one kernel: how it is launched, what lies where in its shared memory, its barriers and their
//! counts, the registers of its roles, how many CTAs an SM holds, and, where NVIDIA's tools are installed, its
//! SASS.
//!
//! Everything comes from the kernel's PTX. `kernel-build` writes what the kernel's types know into it as a comment
//! ([`kernel_build::facts`]), so an image of your own gives the same page as warpipe's. PTX from elsewhere has no
//! such comment, and the page then says what the PTX says.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Or `IMAGE.ptx("scale")?` of the image that your build script made.
//! let ptx = std::fs::read_to_string("my_kernels.ptx")?;
//! print!("{}", warpipe_inspect::inspect(&ptx, "scale", &warpipe_inspect::Tools::find())?);
//! # Ok(())
//! # }
//! ```
//! A page prints as text, and serialises as JSON.

mod chains;
mod error;
mod facts;
mod file;
mod loops;
mod mix;
mod occupancy;
mod page;
mod ptx;
mod sass;
mod tools;

pub use error::Error;
pub use facts::{Barrier, Cta, Facts, Param, Part, Region, Role, Tile};
pub use file::{Module, read};
pub use loops::{Instruction, Loop};
pub use mix::Class;
pub use occupancy::{Limit, Occupancy};
pub use sass::Sass;
pub use tools::Tools;

use serde::Serialize;

/// A page about a kernel. `Display` prints it as text.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// What the PTX says of the kernel's launch, memory and roles.
    #[serde(flatten)]
    pub facts: Facts,
    /// The CTA's named barriers, by id.
    pub named_barriers: Vec<Barrier>,
    /// The CTAs that an SM can hold.
    pub occupancy: Occupancy,
    /// Instructions of the PTX that say what the kernel does, by kind.
    pub ptx_mix: Vec<Class>,
    /// What the assembler and the disassembler say.
    pub sass: Option<Sass>,
    /// Why a part is missing, one line each.
    pub missing: Vec<String>,
}

/// Makes the page of `kernel`, whose code is in the PTX text.
///
/// A missing tool is no error: the page then says in one line what it lacks.
///
/// # Errors
/// [`Error`] if the text has no such kernel, or if a tool that is there fails.
pub fn inspect(ptx: &str, kernel: &str, tools: &Tools) -> Result<Page, Error> {
    let header = ptx::Header::find(ptx, kernel)?;
    let facts = facts::of(ptx, kernel, &header)?;
    let mut missing = Vec::new();
    if facts.cta.is_none() {
        missing.push(if facts.described {
            "roles, shared memory and barriers: the kernel takes no Cta, whose type would tell"
        } else {
            "parameter names, roles, shared memory and barriers: the PTX has no comment of kernel-build"
        }
        .to_owned());
    }
    let sass = match tools.disassemble(ptx, kernel) {
        Ok(sass) => {
            if !sass.has_lines {
                missing.push(
                    "Rust lines: the PTX has no line information (KernelBuilder::line_info, LINE_INFO=1 of \
                     build_ptx, or warpipe inspect --build)"
                        .to_owned(),
                );
            }
            Some(sass)
        }
        Err(tools::Failure::Missing(line)) => {
            missing.push(line);
            None
        }
        Err(tools::Failure::Failed(error)) => return Err(error),
    };
    let registers = sass.as_ref().map(|sass| sass.registers);
    Ok(Page {
        occupancy: Occupancy::of(&facts, registers),
        named_barriers: facts::named_barriers(&facts),
        ptx_mix: mix::of_ptx(header.body),
        facts,
        sass,
        missing,
    })
}

/// A number and its noun.
pub(crate) fn plural(count: u32, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}
