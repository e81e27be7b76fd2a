//! Generates the code of `#[kernel]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, ItemFn};

use crate::bounds::Bounds;
use crate::signature::Signature;

/// Generates the function, its entry and metadata on the device, and its description on the host.
pub fn expand(bounds: &Bounds, function: &ItemFn, signature: &Signature) -> TokenStream {
    let name = &function.sig.ident;
    let vis = &function.vis;
    let symbol = name.unraw().to_string();
    let meta_symbol = format!("__warpipe_kernel_{symbol}");
    let Bounds { threads, min_ctas, cluster: [x, y, z], smem, dependent, stated, krate } = bounds;
    let isa = &crate::path::isa(krate.as_ref());
    let types = &signature.params;
    let names = &signature.names;
    let indices = 0..types.len();
    // Fresh names, because the author's parameters may be patterns.
    let args: Vec<Ident> =
        (0..types.len()).map(|i| Ident::new(&format!("arg{i}"), Span::mixed_site())).collect();
    let host_doc = format!("The kernel [`{symbol}`](fn@{symbol}) as the host sees it.");
    let after_wait = dependent.then(|| {
        quote! {
            const fn after_wait<T: #isa::kernel::AfterWait>() {}
            const _: () = { #(after_wait::<#types>();)* };
        }
    });

    let stated_facts = match threads {
        None => quote!(::core::option::Option::None),
        Some(threads) => quote! {
            ::core::option::Option::Some(#isa::kernel::LaunchFacts {
                threads: #threads,
                min_ctas: #min_ctas,
                cluster: [#x, #y, #z],
                smem_bytes: #smem,
            })
        },
    };
    // Only the types tell whether there is a token, so the check is a constant with the key's span.
    let refusals = stated.iter().map(|key| {
        let refusal = format!("`{key}` follows from the type of the kernel's Cta: leave it out");
        let isa = crate::path::at(isa, key.span());
        quote_spanned! {key.span()=>
            const _: () = #isa::kernel::LaunchFacts::refuse_beside_a_token(LAUNCHES, #refusal);
        }
    });

    // A constant on each side. rustc evaluates it even if nothing uses it, so bounds beyond the hardware's
    // limits are an error on both sides.
    let meta = quote! {
        const ARGS: &[#isa::kernel::ParamMeta] =
            &[#(<#types as #isa::kernel::KernelArg>::META),*];
        const LAUNCHES: &[::core::option::Option<#isa::kernel::LaunchFacts>] =
            &[#(<#types as #isa::kernel::KernelArg>::LAUNCH),*];
        const NAMES: [&str; #isa::kernel::MAX_PARAMS] =
            #isa::kernel::passed_names(ARGS, &[#(#names),*]);
        #(#refusals)*
        const META: #isa::kernel::KernelMeta = #isa::kernel::KernelMeta::new(
            #symbol,
            #isa::kernel::LaunchFacts::of(LAUNCHES, #stated_facts),
            #dependent,
            ARGS,
        );
        #after_wait
    };

    quote! {
        #[cfg_attr(target_arch = "nvptx64", inline(always))]
        // Arguments come from the launch, by value and as many as it passes.
        #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
        #function

        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #meta

            #[unsafe(export_name = #symbol)]
            pub unsafe extern "ptx-kernel" fn entry(
                #(#args: <#types as #isa::kernel::KernelArg>::Abi),*
            ) {
                #isa::trace::begin();
                // SAFETY: the launch was checked against the kernel's metadata.
                #name(#(unsafe { <#types as #isa::kernel::KernelArg>::from_abi(#args) }),*);
                #isa::trace::end();
            }

            #[unsafe(export_name = #meta_symbol)]
            #[used]
            pub static IN_IMAGE: #isa::kernel::Described = #isa::kernel::Described {
                meta: META,
                names: NAMES,
                cta: #isa::kernel::CtaFacts::of_token(
                    &[#(<#types as #isa::kernel::KernelArg>::CTA),*],
                ),
            };
        };

        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #host_doc]
        #[allow(non_camel_case_types)]
        #vis enum #name {}

        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = {
            #meta

            unsafe fn entry(params: &[*const u8]) {
                // SAFETY: the caller's contract: `params` are of a launch that was checked against
                // the kernel's metadata.
                #name(#(unsafe {
                    <#types as #isa::kernel::KernelArg>::from_abi(
                        <#types as #isa::kernel::KernelArg>::abi_from_param(
                            #isa::kernel::param(params, ARGS, #indices),
                        ),
                    )
                }),*)
            }

            impl #isa::kernel::Kernel for #name {
                const DESC: #isa::kernel::KernelDesc =
                    #isa::kernel::KernelDesc {
                        meta: META,
                        names: NAMES,
                        entry,
                    };
            }
        };
    }
}
