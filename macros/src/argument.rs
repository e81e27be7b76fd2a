//! Generates the code of `#[derive(KernelArg)]`.

use crate::path::at;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Index, Member, Result};

/// The implementations of `ByValue`, `KernelArg` and `AfterWait`.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        let message =
            "#[derive(KernelArg)] goes on a struct: an enum or a union is not valid for any bytes";
        return Err(Error::new(input.ident.span(), message));
    };
    let mut krate = None;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("kernel_arg")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("the only key is `crate`, the path of warpipe-isa"));
            }
            krate = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let isa = &crate::path::isa(krate.as_ref());
    let mut repr_c = false;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        repr_c |= is_c(attr)?;
    }
    if !repr_c {
        return Err(Error::new(
            input.ident.span(),
            "an argument has the same layout on both sides: put #[repr(C)] on it",
        ));
    }
    if data.fields.is_empty() {
        return Err(Error::new(
            input.ident.span(),
            "an argument without fields is none: leave it out",
        ));
    }

    let name = &input.ident;
    let (of_impl, of_type, _) = input.generics.split_for_impl();
    let types: Vec<_> = data.fields.iter().map(|field| &field.ty).collect();
    let members: Vec<_> = (0..)
        .zip(&data.fields)
        .map(|(index, field)| match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index { index, span: Span::call_site() }),
        })
        .collect();
    // All requirements are bounds with the span of their field, so that nothing inside of the
    // implementations can fail a second time.
    let given = input.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let copy = quote_spanned!(name.span()=> #name #of_type: ::core::marker::Copy);
    // rustc checks a bound on a type with a lifetime only where the argument is used. A constant function
    // for each such field checks it here.
    let parameters: Vec<_> =
        input.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
    let borrowing = types.iter().filter(|ty| {
        let words = words(ty.to_token_stream());
        words.iter().any(|word| word == "'" || word == "&")
            && !words.iter().any(|word| parameters.contains(word))
    });
    let clause = &input.generics.where_clause;
    let borrowing = borrowing.map(|ty| {
        let isa = at(isa, ty.span());
        quote_spanned! {ty.span()=>
            const _: () = {
                const fn by_value<T: #isa::kernel::ByValue>() {}
                #[allow(dead_code, clippy::extra_unused_lifetimes, clippy::extra_unused_type_parameters)]
                const fn field #of_impl () #clause {
                    by_value::<#ty>();
                }
            };
        }
    });
    let fields = types.iter().map(|ty| {
        let isa = at(isa, ty.span());
        quote_spanned!(ty.span()=> #ty: #isa::kernel::ByValue)
    });
    let bounds = quote!(#(#given,)* #copy, #(#fields),*);

    Ok(quote! {
        #(#borrowing)*
        const _: () = {
            // SAFETY: the struct is `repr(C)`, and every field is a by-value argument with the offset and
            // layout that `LAYOUT` states.
            unsafe impl #of_impl #isa::kernel::ByValue for #name #of_type
            where #bounds
            {
                const LAYOUT: u64 = #isa::kernel::layout(
                    ::core::mem::size_of::<Self>(),
                    &[#((
                        ::core::mem::offset_of!(Self, #members),
                        ::core::mem::size_of::<#types>(),
                        <#types as #isa::kernel::ByValue>::LAYOUT,
                    )),*],
                );
                #[cfg(not(target_arch = "nvptx64"))]
                fn slices(&self, visit: &mut dyn ::core::ops::FnMut(#isa::slice::SliceAbi)) {
                    #(#isa::kernel::ByValue::slices(&self.#members, visit);)*
                }
            }

            // SAFETY: the kernel gets the address of the struct's bytes, and `META` has its layout.
            unsafe impl #of_impl #isa::kernel::KernelArg for #name #of_type
            where #bounds
            {
                type Abi = *const Self;
                const META: #isa::kernel::ParamMeta = #isa::kernel::ParamMeta::structure::<Self>();
                #[inline(always)]
                unsafe fn from_abi(abi: *const Self) -> Self {
                    // SAFETY: a checked launch passes such a struct, which lives while the kernel runs.
                    unsafe { abi.read() }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                unsafe fn abi_from_param(param: *const u8) -> *const Self {
                    param.cast()
                }
            }

            // SAFETY: each field is a by-value argument, which gives no access to memory before the wait.
            unsafe impl #of_impl #isa::kernel::AfterWait for #name #of_type
            where #bounds
            {
            }
        };
    })
}

/// The tokens of a type as text.
fn words(tokens: TokenStream) -> Vec<String> {
    let mut all = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => all.extend(words(group.stream())),
            token => all.push(token.to_string()),
        }
    }
    all
}

/// Whether a `repr` contains `C`. `packed` is an error, because fields are read by reference.
fn is_c(attr: &Attribute) -> Result<bool> {
    let mut c = false;
    attr.parse_nested_meta(|meta| {
        c |= meta.path.is_ident("C");
        if meta.path.is_ident("packed") {
            return Err(meta.error("an argument can't be packed: a GPU reads aligned words"));
        }
        // The value of `align(16)` is skipped here; `KernelArg` rejects more than 16.
        if meta.input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in meta.input);
            content.parse::<TokenStream>()?;
        }
        Ok(())
    })?;
    Ok(c)
}
