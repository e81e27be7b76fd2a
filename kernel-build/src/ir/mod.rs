//! The pass over unoptimised LLVM IR: it marks convergence and adds attributes that Rust cannot express.
//!
//! 1. It adds `convergent` to every function definition, every call and every inline-asm call site, as
//!    clang does for CUDA. LLVM removes the mark where it proves that it is unnecessary. Calls of LLVM's
//!    intrinsics keep the attributes of LLVM's table. Declarations are not marked, because the mark of the
//!    call site decides.
//! 2. A kernel's metadata constant becomes function attributes (`"nvvm.maxntid"`,
//!    `"nvvm.minctasm"`, `"nvvm.cluster_dim"`), and its tensor-map parameters become
//!    `byval([128 x i8]) align 64 "nvvm.grid_constant"`: in PTX 128 bytes of `.param` space, whose
//!    address goes to TMA without a copy through local memory. The constants are removed.
//!
//! The pass edits the text at token boundaries and leaves the rest as rustc wrote it. A call or definition
//! of an unknown form is an error, because an unmarked call could silently be miscompiled.

mod call;
pub(crate) mod constant;
mod function;
mod globals;
mod module;
mod split;
mod token;

use crate::{Error, cta, meta::KernelMeta};
use constant::Constants;
use function::Header;
pub(crate) use globals::variables;
use module::{Edit, Module, apply};
pub(crate) use split::{Items, KernelIr};
use std::collections::HashMap;
use token::{Kind, tokenize};

/// The result of the pass.
#[derive(Debug)]
pub struct Marked {
    /// The module's new text.
    pub text: String,
    /// The kernels that have metadata, in the order of their names.
    pub kernels: Vec<KernelMeta>,
    /// Kernels without metadata. Their launches cannot be checked.
    pub bare_kernels: Vec<String>,
}

impl Marked {
    /// The names of all kernels.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.kernels
            .iter()
            .map(|k| k.name.as_str())
            .chain(self.bare_kernels.iter().map(String::as_str))
    }
}

/// Options of the pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether functions and calls are marked `convergent`. Only the test of the mark turns it off.
    pub convergent: bool,
}

/// Runs the pass over a module's text.
pub fn mark(source: &str, options: Options) -> Result<Marked, Error> {
    let tokens = tokenize(source);
    let module = Module { source, tokens: &tokens };
    let mut edits = Vec::new();
    let (mut globals, mut metadata) = (HashMap::new(), Vec::new());
    let mut entries: Vec<Header> = Vec::new();

    let mut at = 0;
    while at < tokens.len() {
        // `at` is the first token of a line at the top level of the module.
        let end = module.line_end(at);
        match (tokens[at].kind, module.text(at)) {
            (Kind::Word, "define") => {
                let header = Header::parse(&module, at)?;
                if options.convergent {
                    edits.push(Edit::insert(header.attributes_at, " convergent"));
                }
                let (first, next) = (header.body + 1, function::body_end(&module, header.body)?);
                if options.convergent {
                    call::mark_body(&module, first, next, &mut edits)?;
                }
                if header.is_kernel {
                    entries.push(header);
                }
                at = next + 1;
                continue;
            }
            (Kind::Global, "@llvm.used" | "@llvm.compiler.used") => {
                edits.extend(globals::without_metadata(&module, at, end)?);
            }
            (Kind::Global, name) => {
                globals.insert(name, (at, end));
                if globals::is_metadata(name) {
                    metadata.push(name);
                    edits.push(Edit {
                        at: tokens[at].start,
                        end: tokens[end - 1].end,
                        text: String::new(),
                    });
                }
            }
            _ => {}
        }
        at = end + 1;
    }

    let constants = Constants::of(&module, globals);
    let kernel = |name: &&str| {
        let described = constants.read(name)?;
        cta::kernel(&constants, name.trim_start_matches('@'), &described)
    };
    let mut kernels: Vec<_> = metadata.iter().map(kernel).collect::<Result<_, _>>()?;
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in kernels.windows(2) {
        if pair[0].name == pair[1].name {
            let what = "two metadata constants carry this name".to_owned();
            return Err(Error::Metadata { kernel: pair[0].name.clone(), what });
        }
    }
    for kernel in &kernels {
        let Some(i) = entries.iter().position(|entry| entry.name == kernel.name) else {
            let what = "there is metadata, and no extern \"ptx-kernel\" function of this name";
            return Err(Error::Metadata { kernel: kernel.name.clone(), what: what.to_owned() });
        };
        edits.extend(entries.swap_remove(i).apply(&module, kernel)?);
    }
    let mut bare_kernels: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    bare_kernels.sort();
    Ok(Marked { text: apply(source, edits), kernels, bare_kernels })
}

#[cfg(test)]
mod tests;
