//! Function definitions: the position of their attributes, and the edits from a kernel's metadata.

use super::module::{Edit, Module};
use super::token;
use crate::{
    Error,
    meta::{KIND_STRUCT, KIND_TENSOR_MAP, KernelMeta},
};
use token::Kind;

/// The head of a `define`:
/// `define [linkage …] [cc] [ret attrs] <type> @name(<params>) [unnamed_addr] [addrspace(n)]
/// [fn attrs] … {`.
pub(super) struct Header {
    /// Name without the `@` and quotes.
    pub name: String,
    /// The calling convention is `ptx_kernel`.
    pub is_kernel: bool,
    /// Token of the parameter list's opening parenthesis, and of its closing one.
    params: (usize, usize),
    /// Byte after which function attributes may stand.
    pub attributes_at: usize,
    /// Token of the brace that opens the body.
    pub body: usize,
}

impl Header {
    /// Reads the definition whose `define` is token `at`.
    pub fn parse(module: &Module, at: usize) -> Result<Self, Error> {
        let line_end = module.line_end(at);
        // Types, return attributes and linkage never contain a global's name, so the first one is
        // the function's.
        let name = (at..line_end)
            .find(|&i| module.kind(i) == Some(Kind::Global))
            .ok_or_else(|| module.error(at, "a definition without a name"))?;
        let open = name + 1;
        if !module.is(open, b'(') {
            return Err(module.error(at, "a definition without a parameter list"));
        }
        let close = token::matching(module.tokens, open)
            .ok_or_else(|| module.error(open, "a parameter list that does not end"))?;
        let mut last = close;
        loop {
            match module.text(last + 1) {
                "unnamed_addr" | "local_unnamed_addr" => last += 1,
                "addrspace" => {
                    last = token::matching(module.tokens, last + 2)
                        .ok_or_else(|| module.error(last, "an address space that does not end"))?;
                }
                _ => break,
            }
        }
        // Constants of a prefix or prologue may have braces too; the body's ends the line.
        let body = line_end - 1;
        if !module.is(body, b'{') {
            return Err(module.error(at, "a definition whose first line does not end with a brace"));
        }
        Ok(Self {
            name: module.text(name).trim_start_matches('@').trim_matches('"').to_owned(),
            is_kernel: (at..name).any(|i| module.text(i) == "ptx_kernel"),
            params: (open, close),
            attributes_at: module.tokens[last].end,
            body,
        })
    }

    /// The edits that apply the kernel's metadata.
    pub fn apply(&self, module: &Module, meta: &KernelMeta) -> Result<Vec<Edit>, Error> {
        let fault = |what: String| Error::Metadata { kernel: self.name.clone(), what };
        let params = token::arguments(module.tokens, self.params.0, self.params.1);
        if params.len() != meta.params.len() {
            return Err(fault(format!(
                "its metadata names {} parameters, the function has {}",
                meta.params.len(),
                params.len()
            )));
        }
        let mut edits = vec![Edit::insert(self.attributes_at, format!(" {}", meta.attributes()))];
        for (i, (param, meta)) in params.iter().zip(&meta.params).enumerate() {
            if meta.kind != KIND_TENSOR_MAP && meta.kind != KIND_STRUCT {
                continue;
            }
            let (first, last) = (&param[0], &param[param.len() - 1]);
            if first.text(module.source) != "ptr" || last.kind != Kind::Local || param.len() < 2 {
                let kind = if meta.kind == KIND_STRUCT { "struct" } else { "tensor map" };
                return Err(fault(format!(
                    "parameter {i} is a {kind} and must be a pointer, it is `{}`",
                    &module.source[first.start..last.end]
                )));
            }
            // These attributes replace rustc's (noundef, dereferenceable, align).
            edits.push(Edit {
                at: first.end,
                end: last.start,
                text: format!(
                    " noundef byval([{} x i8]) align {} \"nvvm.grid_constant\" ",
                    meta.size, meta.align
                ),
            });
        }
        Ok(edits)
    }
}

/// Token of the brace that closes the body opened by token `open`: the one that begins a line.
pub(super) fn body_end(module: &Module, open: usize) -> Result<usize, Error> {
    (open + 1..module.tokens.len())
        .find(|&i| module.is(i, b'}') && module.kind(i - 1) == Some(Kind::Newline))
        .ok_or_else(|| module.error(open, "a function body that does not end"))
}
