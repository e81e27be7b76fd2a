//! Generates the code of `#[device]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Result};

/// Adds two attributes to the function. Its tokens are not parsed, so it may be a free function, a method,
/// or a function inside of a macro's body.
pub fn expand(args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    if !args.is_empty() {
        return Err(Error::new_spanned(args, "#[device] has no arguments: write #[device] alone"));
    }
    let is_fn = |token: TokenTree| matches!(token, TokenTree::Ident(word) if word == "fn");
    if !item.clone().into_iter().any(is_fn) {
        return Err(Error::new_spanned(item, "#[device] goes on a function"));
    }
    Ok(quote! {
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #item
    })
}
