//! Generates the code of `#[device]` and `#[forceinline]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Result};

/// Adds two attributes to the function.
pub fn expand(args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let function = forceinline("device", args, item)?;
    Ok(quote! {
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #function
    })
}

/// Adds one attribute to the function. Its tokens are not parsed, so it may be a free function, a method, or a function
/// inside of a macro's body.
///
/// The host compiles hundreds of kernels for the model. With all that they call copied into each, that takes four times
/// as long. The model needs a fifth less time then, which is not worth it.
pub fn forceinline(name: &str, args: &TokenStream, item: &TokenStream) -> Result<TokenStream> {
    if !args.is_empty() {
        let message = format!("#[{name}] has no arguments: write #[{name}] alone");
        return Err(Error::new_spanned(args, message));
    }
    let is_fn = |token: TokenTree| matches!(token, TokenTree::Ident(word) if word == "fn");
    if !item.clone().into_iter().any(is_fn) {
        return Err(Error::new_spanned(item, format!("#[{name}] goes on a function")));
    }
    Ok(quote! {
        #[cfg_attr(target_arch = "nvptx64", inline(always))]
        #item
    })
}
