//! Checks a kernel's signature.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, Pat, Result, ReturnType, Type};

/// Most parameters that a kernel can have: `isa::kernel::MAX_PARAMS`.
const MAX_PARAMS: usize = 12;

/// The types of a valid kernel's parameters, and their names for the host's messages.
pub struct Signature {
    pub params: Vec<Type>,
    pub names: Vec<String>,
}

impl Signature {
    /// Reads a function's signature, or reports everything that a kernel cannot have.
    pub fn new(function: &ItemFn) -> Result<Self> {
        let sig = &function.sig;
        let mut errors: Option<Error> = None;
        let mut refuse = |span, message: &str| {
            let error = Error::new(span, message);
            match &mut errors {
                Some(all) => all.combine(error),
                None => errors = Some(error),
            }
        };
        if let Some(t) = &sig.unsafety {
            refuse(t.span(), "a kernel is a safe function: nobody could uphold its contract");
        }
        if let Some(t) = &sig.asyncness {
            refuse(t.span(), "a kernel can't be async");
        }
        if let Some(t) = &sig.constness {
            refuse(t.span(), "a kernel can't be const");
        }
        if let Some(t) = &sig.abi {
            refuse(t.span(), "leave the ABI out: #[kernel] makes the `ptx-kernel` entry");
        }
        if !sig.generics.params.is_empty() {
            refuse(
                sig.generics.params.span(),
                "a kernel can't be generic: an entry has one machine code; write a generic function \
                 and call it from one kernel per instance (lifetimes of arguments can be left out)",
            );
        }
        if let Some(clause) = &sig.generics.where_clause {
            refuse(clause.span(), "a kernel can't have a where clause");
        }
        if let ReturnType::Type(_, t) = &sig.output {
            refuse(t.span(), "a kernel returns nothing: write results to a DeviceSliceMut");
        }
        if let Some(t) = &sig.variadic {
            refuse(t.span(), "a kernel can't be variadic");
        }
        if sig.inputs.len() > MAX_PARAMS {
            refuse(
                sig.inputs[MAX_PARAMS].span(),
                &format!(
                    "a kernel has at most {MAX_PARAMS} parameters, this one has {}; put plain values \
                     into one repr(C) struct",
                    sig.inputs.len()
                ),
            );
        }
        let mut params = Vec::new();
        let mut names = Vec::new();
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(r) => {
                    refuse(r.span(), "a kernel can't take self: it is a free function");
                }
                FnArg::Typed(p) if matches!(*p.ty, Type::ImplTrait(_)) => {
                    refuse(p.ty.span(), "a kernel can't be generic: name the argument's type");
                }
                FnArg::Typed(p) => {
                    params.push((*p.ty).clone());
                    names.push(name(&p.pat));
                }
            }
        }
        match errors {
            Some(all) => Err(all),
            None => Ok(Self { params, names }),
        }
    }
}

/// The name of a parameter; empty for a pattern.
fn name(pattern: &Pat) -> String {
    match pattern {
        Pat::Ident(name) => name.ident.unraw().to_string(),
        _ => String::new(),
    }
}
