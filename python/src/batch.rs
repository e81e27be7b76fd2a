//! A batch of products of tensors: `bmm` in terms of the GEMM's A, B, C and D, each in the layout in which it lies.
//!
//! Nothing here touches memory. A tensor without adjacent elements is refused; the plan copies those that TMA can't read for
//! another reason.

use crate::layout::{Element, Place, View};
use crate::refusal::Refusal;

/// The matrices of a tensor: lines of adjacent elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Address of the first element.
    pub addr: u64,
    /// Whether the lines are the columns of the tensor's matrices, and not their rows.
    pub by_columns: bool,
    /// Lines of a matrix, and elements of a line.
    pub lines: [u64; 2],
    /// Bytes from line to line.
    pub pitch: u64,
    /// Bytes from matrix to matrix; 0 if all are one.
    pub stride: u64,
    /// Bytes from the first element to the end of the last one.
    pub bytes: u64,
}

/// A checked batch of products.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Products {
    /// Number of products, M, N and K.
    pub sizes: [u64; 4],
    /// Element type of all tensors.
    pub element: Element,
    /// Memory of all tensors.
    pub place: Place,
    /// `a` [batch, M, K], `b` [batch, K, N] and `out` [batch, M, N].
    pub tensors: [Batch; 3],
    /// `c` [batch, M, N], which lies as `out` does.
    pub c: Option<Batch>,
}

/// Batch, rows and columns of a tensor of two or three dimensions, with their strides. Two dimensions are one matrix.
fn dims(name: &'static str, view: &View) -> Result<[(u64, u64); 3], Refusal> {
    let (shape, strides) = (view.shape.as_slice(), view.strides.as_slice());
    view.check_signs(name)?;
    let of = |i: usize| (shape[i] as u64, strides[i] as u64);
    match shape.len() {
        2 => Ok([(1, 0), of(0), of(1)]),
        3 => Ok([of(0), of(1), of(2)]),
        have => Err(Refusal::Dimensions { name, have, need: "2 or 3" }),
    }
}

impl Batch {
    /// The matrices of a tensor, of which `batch` products use one each. Its lines are rows or columns, or what is asked for.
    fn of(
        name: &'static str,
        view: &View,
        batch: u64,
        asked: Option<bool>,
    ) -> Result<Self, Refusal> {
        let [(matrices, stride), rows, columns] = dims(name, view)?;
        let size = view.element.size();
        // Lines along the last dimension, or along the one before it. Where a dimension of one element allows both, the
        // one whose pitch TMA takes.
        let both = [(rows, columns, false), (columns, rows, true)];
        let adjacent =
            |&(_, (elements, step), _): &((u64, u64), (u64, u64), bool)| elements <= 1 || step == 1;
        let aligned = |&((lines, pitch), ..): &((u64, u64), (u64, u64), bool)| {
            lines <= 1 || (pitch * size).is_multiple_of(16)
        };
        let asked_for =
            |&(.., by_columns): &(_, _, bool)| asked.is_none_or(|asked| asked == by_columns);
        let mut fitting = both.into_iter().filter(adjacent).filter(asked_for);
        let best = fitting.clone().find(aligned).or_else(|| fitting.next());
        let Some(((lines, pitch), (elements, _), by_columns)) = best else {
            let what = match asked {
                None => "one of its last two strides must be 1; copy it, e.g. with .contiguous()",
                Some(false) => "its last stride must be 1, as that of the result",
                Some(true) => "its last stride but one must be 1, as that of the result",
            };
            return Err(view.refuse(name, what));
        };
        if lines > 1 && pitch < elements {
            return Err(view.refuse(name, "its lines overlap; copy it, e.g. with .contiguous()"));
        }
        let stride = if matrices == 1 { 0 } else { stride };
        let last = |count: u64, step: u64| count.saturating_sub(1).saturating_mul(step);
        let empty = batch * lines * elements == 0;
        let span =
            last(matrices, stride).saturating_add(last(lines, pitch)).saturating_add(elements);
        Ok(Self {
            addr: view.addr,
            by_columns,
            lines: [lines, elements],
            pitch: pitch.saturating_mul(size),
            stride: stride.saturating_mul(size),
            bytes: if empty { 0 } else { span.saturating_mul(size) },
        })
    }
}

/// Checks the tensors of `out = alpha * a @ b + beta * c`, matrix by matrix. A single matrix is used for all products.
///
/// # Errors
/// A [`Refusal`] for sizes, types, places or strides that the GEMM cannot use, and for an `out` that overlaps an operand. `c` may
/// be `out` itself.
pub fn check(a: &View, b: &View, c: Option<&View>, out: &View) -> Result<Products, Refusal> {
    if ![Element::BF16, Element::F16].contains(&a.element) {
        let need = "float16 or bfloat16".into();
        return Err(Refusal::Element { name: "a", have: a.element, need });
    }
    for (name, tensor) in [("b", Some(b)), ("c", c), ("out", Some(out))] {
        let Some(tensor) = tensor else { continue };
        if tensor.element != a.element {
            let need = format!("{}, the type of a,", a.element);
            return Err(Refusal::Element { name, have: tensor.element, need });
        }
        if tensor.place != a.place {
            return Err(Refusal::Place { name, have: tensor.place, first: "a", need: a.place });
        }
    }
    let [(a_batch, _), (m, _), (k, _)] = dims("a", a)?;
    let [(b_batch, _), (b_k, _), (n, _)] = dims("b", b)?;
    let [(batch, _), ..] = dims("out", out)?;
    if b_k != k {
        let what = format!("a is {}, so b [..., K, N] must have K = {k}, not {b_k}", a.shape);
        return Err(Refusal::Shape { name: "b", shape: b.shape.to_string(), what });
    }
    let wide = if a_batch == 1 { b_batch } else { a_batch };
    if b_batch != wide && b_batch != 1 {
        let what = format!("a is {}: as many matrices, or one for all, are right", a.shape);
        return Err(Refusal::Shape { name: "b", shape: b.shape.to_string(), what });
    }
    if out.shape.as_slice()[out.shape.as_slice().len() - 2..] != [m as i64, n as i64]
        || batch != wide
    {
        let what = format!("the result is [{wide}, {m}, {n}]");
        return Err(Refusal::Shape { name: "out", shape: out.shape.to_string(), what });
    }
    if let Some(c) = c {
        let [(c_batch, _), (rows, _), (columns, _)] = dims("c", c)?;
        if [rows, columns] != [m, n] || ![1, batch].contains(&c_batch) {
            let what =
                format!("[{batch}, {m}, {n}], as the result, or one matrix for all is right");
            return Err(Refusal::Shape { name: "c", shape: c.shape.to_string(), what });
        }
    }
    if out.readonly {
        return Err(Refusal::ReadOnly);
    }
    if out.overlaps() {
        return Err(out.refuse("out", "its elements overlap"));
    }
    let (out_start, out_end) = out.range();
    for (name, input) in [("a", Some(a)), ("b", Some(b)), ("c", c)] {
        let Some(input) = input else { continue };
        let lies = |view: &View| (view.addr, view.shape, view.strides);
        if name == "c" && lies(input) == lies(out) {
            continue;
        }
        let (start, end) = input.range();
        if start != end && out_start != out_end && out_start < end && start < out_end {
            return Err(Refusal::Alias { name, start, end, out_start, out_end });
        }
    }
    let of = |name, view| Batch::of(name, view, batch, None);
    let (a_lines, b_lines) = (of("a", a)?, of("b", b)?);
    // The result's lines are its own choice, unless only the other ones are also those of `c`.
    let results = |asked| {
        let out = Batch::of("out", out, batch, asked)?;
        let c = c.map(|c| Batch::of("c", c, batch, Some(out.by_columns))).transpose()?;
        Ok::<_, Refusal>((out, c))
    };
    let (out, c) = results(None).or_else(|refusal| {
        results(Some(false)).or_else(|_| results(Some(true))).map_err(|_| refusal)
    })?;
    let tensors = [a_lines, b_lines, out];
    Ok(Products { sizes: [batch, m, n, k], element: a.element, place: a.place, tensors, c })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;

    fn view(addr: u64, shape: &[i64], strides: &[i64]) -> View {
        let (shape, strides) = (Dims::new(shape).unwrap(), Dims::new(strides).unwrap());
        View {
            addr,
            place: Place::Cuda(0),
            element: Element::BF16,
            shape,
            strides,
            readonly: false,
        }
    }

    fn packed(addr: u64, shape: &[i64]) -> View {
        let strides = Dims::new(shape).unwrap().contiguous();
        view(addr, shape, strides.as_slice())
    }

    #[test]
    fn each_tensor_is_read_as_it_lies() {
        let out = packed(1 << 30, &[3, 16, 24]);
        // `a` as it is, `b` a transposed view.
        let (a, b) = (packed(0x1000, &[3, 16, 40]), view(1 << 20, &[3, 40, 24], &[960, 1, 40]));
        // One matrix of `c` for all, and `out` as `c`.
        for (c, stride) in [(packed(1 << 21, &[16, 24]), 0), (out, 2 * 16 * 24)] {
            let c = check(&a, &b, Some(&c), &out).unwrap().c.unwrap();
            assert_eq!((c.by_columns, c.pitch, c.stride), (false, 48, stride));
        }
        let products = check(&a, &b, None, &out).unwrap();
        assert_eq!((products.sizes, products.c), ([3, 16, 24, 40], None));
        let [a, b, out] = products.tensors;
        assert_eq!((a.by_columns, a.lines, a.pitch, a.stride), (false, [16, 40], 80, 1280));
        assert_eq!((b.by_columns, b.lines, b.pitch, b.stride), (true, [24, 40], 80, 1920));
        assert_eq!((out.by_columns, out.bytes), (false, 3 * 16 * 24 * 2));
    }

    #[test]
    fn one_matrix_serves_all_products() {
        let (a, out) = (packed(0x1000, &[3, 16, 40]), packed(1 << 30, &[3, 16, 24]));
        for b in [
            packed(1 << 20, &[40, 24]),
            packed(1 << 20, &[1, 40, 24]),
            view(1 << 20, &[3, 40, 24], &[0, 24, 1]),
        ] {
            let b = check(&a, &b, None, &out).unwrap().tensors[1];
            assert_eq!((b.by_columns, b.stride, b.bytes), (false, 0, 40 * 24 * 2));
        }
    }

    #[test]
    fn a_dimension_of_one_element_has_any_stride() {
        // A column [40, 1]: 40 lines of one element would have a pitch of 2 bytes.
        let (a, b) = (packed(0, &[8, 40]), packed(1 << 20, &[40, 1]));
        let column = check(&a, &b, None, &packed(1 << 30, &[8, 1]));
        let b = column.unwrap().tensors[1];
        // A result of one column has lines of either kind, and those of `c` decide.
        let out = packed(1 << 30, &[8, 1]);
        let c = view(1 << 21, &[8, 1], &[8, 1]);
        let products = check(&a, &packed(1 << 20, &[40, 1]), Some(&c), &out).unwrap();
        assert_eq!((products.tensors[2].by_columns, products.c.unwrap().pitch), (false, 16));
        assert_eq!((b.by_columns, b.lines), (true, [1, 40]));
    }

    #[test]
    fn what_is_refused() {
        let (a, b) = (packed(0x1000, &[3, 16, 40]), packed(1 << 20, &[3, 40, 24]));
        let out = packed(1 << 30, &[3, 16, 24]);
        let text = |a: &View, b: &View, out: &View| check(a, b, None, out).unwrap_err().to_string();
        let with = |c: &View| check(&a, &b, Some(c), &out).unwrap_err().to_string();
        assert!(
            with(&packed(1 << 21, &[2, 16, 24])).contains("[3, 16, 24], as the result, or one")
        );
        assert!(with(&packed(1 << 30, &[16, 24])).contains("overlap c"));
        let expanded = view(1 << 21, &[3, 16, 24], &[0, 0, 1]);
        assert!(with(&expanded).contains("its lines overlap"));
        let turned = view(1 << 21, &[3, 16, 24], &[384, 1, 16]);
        assert!(with(&turned).contains("its last stride must be 1, as that of the result"));
        assert!(
            text(&a, &packed(1 << 20, &[2, 40, 24]), &out)
                .contains("as many matrices, or one for all")
        );
        assert!(text(&a, &packed(1 << 20, &[3, 41, 24]), &out).contains("K = 40, not 41"));
        assert!(text(&a, &b, &packed(1 << 30, &[3, 16, 25])).contains("the result is [3, 16, 24]"));
        assert!(text(&a, &b, &packed(0x1000, &[3, 16, 24])).contains("overlap a"));
        assert!(
            text(&view(0, &[3, 16, 40], &[4000, 100, 2]), &b, &out).contains("last two strides")
        );
        assert!(
            text(&a, &b, &view(1 << 30, &[3, 16, 24], &[0, 24, 1])).contains("elements overlap")
        );
        let half = View { element: Element::F16, ..b };
        assert!(text(&a, &half, &out).contains("b has elements of type float16; bfloat16"));
        assert!(text(&packed(0, &[40]), &b, &out).contains("a has 1 dimensions; 2 or 3"));
    }
}
