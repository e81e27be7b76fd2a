//! The path under which the generated code finds `warpipe-isa`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Ident, Path};

/// The stated path, or the one that the compiled crate's Cargo.toml tells: a dependency on `warpipe-isa` or on
/// `warpipe`, under whatever name.
pub fn isa(stated: Option<&Path>) -> TokenStream {
    if let Some(path) = stated {
        return quote!(#path);
    }
    let ident = |name: &str| Ident::new(name, Span::call_site());
    let path = |package: &str, library: &str| match crate_name(package).ok()? {
        // The package's own library, tests or examples: `extern crate self` makes the name known to all.
        FoundCrate::Itself => Some(ident(library)),
        FoundCrate::Name(name) => Some(ident(&name)),
    };
    if let Some(isa) = path("warpipe-isa", "warpipe_isa") {
        quote!(::#isa)
    } else if let Some(warpipe) = path("warpipe", "warpipe") {
        quote!(::#warpipe::isa)
    } else {
        // rustc will say that there is no such crate.
        quote!(::warpipe_isa)
    }
}

/// The path with the span of what an error is about.
pub fn at(path: &TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(token.span().located_at(span));
        token
    };
    path.clone().into_iter().map(respan).collect()
}
