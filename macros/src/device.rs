//! What `#[device]` generates.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Result};

/// The function, with its two attributes. Its tokens are passed on as they are: it may be a free
/// function, a method, or one that a macro is about to write.
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
