//! The arguments of `#[kernel]`: `threads`, `cluster`, `min_ctas`, `smem`, `dependent`, `crate`.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, Path, Result, Token, parse_quote};

/// The parsed arguments. Each value is a constant expression of type `u32`, except `dependent`, which is a
/// literal because it decides how the arguments are checked.
pub struct Bounds {
    /// Required without a `Cta` and refused beside one. Only the types tell whether there is a `Cta`.
    pub threads: Option<Expr>,
    pub min_ctas: Expr,
    pub cluster: [Expr; 3],
    pub smem: Expr,
    pub dependent: bool,
    /// The given keys that a `Cta` makes superfluous.
    pub stated: Vec<Ident>,
    /// The path of `warpipe-isa`, if it is given.
    pub krate: Option<Path>,
}

struct Entry {
    key: Ident,
    value: Expr,
}

impl Parse for Entry {
    fn parse(input: ParseStream) -> Result<Self> {
        // Any: `crate` is a keyword.
        let key = input.call(Ident::parse_any)?;
        input
            .parse::<Token![=]>()
            .map_err(|e| Error::new(e.span(), format!("expected `{key} = value`")))?;
        Ok(Self { key, value: input.parse()? })
    }
}

impl Parse for Bounds {
    fn parse(input: ParseStream) -> Result<Self> {
        let (mut threads, mut min_ctas, mut cluster) = (None, None, None);
        let (mut smem, mut dependent, mut krate) = (None, None, None);
        let mut stated = Vec::new();
        for Entry { key, value } in Punctuated::<Entry, Token![,]>::parse_terminated(input)? {
            let slot = match key.to_string().as_str() {
                "threads" => &mut threads,
                "min_ctas" => &mut min_ctas,
                "cluster" => &mut cluster,
                "smem" => &mut smem,
                "dependent" => &mut dependent,
                "crate" => &mut krate,
                other => {
                    let message = format!(
                        "`{other}` is not a key of #[kernel]; the keys are threads, cluster, \
                         min_ctas, smem, dependent and crate"
                    );
                    return Err(Error::new(key.span(), message));
                }
            };
            if slot.replace(value).is_some() {
                return Err(Error::new(key.span(), format!("`{key}` is given twice")));
            }
            if key != "dependent" && key != "crate" {
                stated.push(key);
            }
        }
        Ok(Self {
            threads,
            min_ctas: min_ctas.unwrap_or_else(|| parse_quote!(1)),
            cluster: match cluster {
                Some(value) => triple(value)?,
                None => [parse_quote!(1), parse_quote!(1), parse_quote!(1)],
            },
            smem: smem.unwrap_or_else(|| parse_quote!(0)),
            dependent: dependent.map_or(Ok(false), literal)?,
            stated,
            krate: krate.map(path).transpose()?,
        })
    }
}

/// Parses the literal `true` or `false`.
fn literal(value: Expr) -> Result<bool> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Bool(value), .. }) => Ok(value.value()),
        other => Err(Error::new_spanned(other, "`dependent` is either `true` or `false`")),
    }
}

/// The path of a crate or module.
fn path(value: Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        // A path from a macro's fragment is in an invisible group.
        Expr::Group(group) => path(*group.expr),
        other => {
            Err(Error::new_spanned(other, "`crate` is a path: crate = warpipe::isa, for instance"))
        }
    }
}

/// The three dimensions of a cluster.
fn triple(value: Expr) -> Result<[Expr; 3]> {
    match value {
        // An expression from a `$cluster:expr` fragment is in an invisible group.
        Expr::Group(group) => triple(*group.expr),
        Expr::Tuple(tuple) if tuple.elems.len() == 3 => {
            let mut dims = tuple.elems.into_iter();
            Ok(std::array::from_fn(|_| dims.next().expect("a tuple of three has three")))
        }
        other => Err(Error::new_spanned(
            other,
            "a cluster has three dimensions: cluster = (x, y, z), for instance (2, 1, 1)",
        )),
    }
}
