//! Call sites: `call`, `invoke` and `callbr`, of functions, of pointers and of inline assembly.
//!
//! ```text
//! %r = tail call fastcc noundef <type> <callee>(<args>) [attributes] [bundles], !metadata
//! ```
//! The mark goes right behind the arguments, where attribute groups and bare attributes may stand
//! in any order. The work is to find these arguments: the type may be a function type with its own
//! parentheses, return attributes may have some, and a callee may be a constant expression.

use super::module::{Edit, Module};
use super::token;
use crate::Error;
use token::Kind;

/// Marks every call between the tokens `first` and `end` of a function's body.
pub(super) fn mark_body(
    module: &Module,
    first: usize,
    end: usize,
    edits: &mut Vec<Edit>,
) -> Result<(), Error> {
    let mut line = first;
    while line < end {
        let line_end = module.line_end(line);
        if let Some(opcode) = call_opcode(module, line)
            && let Some(close) = arguments_end(module, opcode, line_end)?
        {
            edits.push(Edit::insert(module.tokens[close].end, " convergent"));
        }
        line = line_end + 1;
    }
    Ok(())
}

/// The opcode's token if the line that begins at token `line` is a call.
fn call_opcode(module: &Module, line: usize) -> Option<usize> {
    let mut at = line;
    if module.kind(at) == Some(Kind::Local) && module.is(at + 1, b'=') {
        at += 2;
    }
    if matches!(module.text(at), "tail" | "musttail" | "notail") {
        at += 1;
    }
    let is_call = module.kind(at) == Some(Kind::Word)
        && matches!(module.text(at), "call" | "invoke" | "callbr");
    is_call.then_some(at)
}

/// The token that closes the arguments of the call at `opcode`, or nothing if it calls one of
/// LLVM's intrinsics.
fn arguments_end(module: &Module, opcode: usize, end: usize) -> Result<Option<usize>, Error> {
    let unknown = || module.error(opcode, "a call of unknown form");
    let mut at = opcode + 1;
    while at < end {
        match module.tokens[at].kind {
            Kind::Word if module.text(at) == "asm" => return asm_arguments_end(module, at, end),
            // An aggregate or vector type: nothing in it is a callee.
            Kind::Punct(b'[' | b'{' | b'<') => {
                at = token::matching(module.tokens, at).ok_or_else(unknown)? + 1;
            }
            Kind::Punct(b'(') => {
                let close = token::matching(module.tokens, at).ok_or_else(unknown)?;
                let callee = at - 1;
                let next = close + 1;
                // `fnty (…) @f(…)`, `range(i8 0, 2) i8 @f(…)`: a callee follows, these were not
                // the arguments. `inttoptr (…)(…)`: the next parentheses are.
                let is_callee = match module.tokens[callee].kind {
                    Kind::Global => true,
                    Kind::Local | Kind::Punct(b')') => !starts_callee(module, next),
                    Kind::Word => matches!(module.text(callee), "null" | "undef" | "poison"),
                    _ => false,
                };
                if is_callee {
                    let intrinsic = module.text(callee).starts_with("@llvm.");
                    return Ok((!intrinsic).then_some(close));
                }
                at = next;
            }
            _ => at += 1,
        }
    }
    Err(unknown())
}

/// Whether a callee begins at token `at`: then what stands before it was a type.
fn starts_callee(module: &Module, at: usize) -> bool {
    matches!(module.kind(at), Some(Kind::Global | Kind::Local)) || module.text(at) == "asm"
}

/// `asm [sideeffect] [alignstack] [inteldialect] [unwind] "text", "constraints"(<args>)`.
fn asm_arguments_end(module: &Module, asm: usize, end: usize) -> Result<Option<usize>, Error> {
    let unknown = || module.error(asm, "inline assembly of unknown form");
    let text = (asm..end).find(|&i| module.kind(i) == Some(Kind::Str)).ok_or_else(unknown)?;
    let open = text + 3;
    if !module.is(text + 1, b',')
        || module.kind(text + 2) != Some(Kind::Str)
        || !module.is(open, b'(')
    {
        return Err(unknown());
    }
    token::matching(module.tokens, open).map(Some).ok_or_else(unknown)
}
