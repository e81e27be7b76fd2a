//! A product of tensors: `matmul` and `linear` in terms of the GEMM's A, B, C and D.
//!
//! The GEMM computes D = alpha * A * B^T + beta * C with A [M, K], B [N, K], C and D [M, N], and reads rows of
//! adjacent elements. So `linear(x, weight)` takes its tensors as they are, and `matmul(a, b)` takes a `b` [K, N]
//! whose columns have adjacent elements, which is what `weight.t()` is.

use crate::layout::{Dims, Element, Layout, Matrix, Order, Place, View};
use crate::refusal::Refusal;

/// Which function of the package is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Op {
    /// `a @ b`.
    Matmul,
    /// `x @ weight.T`.
    Linear,
}

/// Sizes and types of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Size {
    /// Rows of A and D.
    pub m: u64,
    /// Rows of B, columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Element type of A and B.
    pub ab: Element,
    /// Element type of C and D.
    pub out: Element,
    /// Whether C is read.
    pub with_c: bool,
    /// Of a product with scales, whether the tensor cores keep the sums.
    pub fast_accum: Option<bool>,
    /// The kind of layer, if the product is followed by one.
    pub layer: Option<LayerKind>,
}

/// A layer whose epilogue is part of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum LayerKind {
    /// Bias, activation, residual.
    Fused,
    /// Gates: the result has N / 2 columns.
    Gated,
}

/// The activations by name: that of the function, and whether it is of gates.
pub const ACTIVATIONS: [(&str, &str, bool); 7] = [
    ("relu", "relu", false),
    ("silu", "silu", false),
    ("gelu", "gelu", false),
    ("gelu-tanh", "gelu-tanh", false),
    ("swiglu", "silu", true),
    ("geglu", "gelu", true),
    ("geglu-tanh", "gelu-tanh", true),
];

/// What a layer does with its product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fusion {
    /// Address of the bias, which has N values of the operands' type.
    pub bias: Option<u64>,
    /// The activation's function.
    pub activation: &'static str,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { m, n, k, ab, out, with_c, fast_accum, layer } = self;
        let c = if *with_c { " with C" } else { "" };
        let scaled = match fast_accum {
            None => "",
            Some(false) => ", scaled",
            Some(true) => ", scaled, with fast accumulation",
        };
        let layer = match layer {
            None => "",
            Some(LayerKind::Fused) => ", with an epilogue",
            Some(LayerKind::Gated) => ", gated",
        };
        write!(f, "M = {m}, N = {n}, K = {k}, {ab} to {out}{c}{scaled}{layer}")
    }
}

/// The tensors of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function.
    pub op: Op,
    /// The first operand.
    pub a: View,
    /// The second operand.
    pub b: View,
    /// What is added.
    pub c: Option<View>,
    /// Where the result goes; without it, the caller allocates the result.
    pub out: Option<View>,
    /// The result's element type, if the caller names it.
    pub out_type: Option<Element>,
    /// Factor of C; `None` for 1 with C and 0 without it.
    pub beta: Option<f32>,
    /// Whether the result has half as many columns as `b` has.
    pub gated: bool,
}

/// A call that was checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Sizes and types.
    pub size: Size,
    /// Memory of all tensors.
    pub place: Place,
    /// A.
    pub a: Layout,
    /// B.
    pub b: Layout,
    /// C, if it is read.
    pub c: Option<Layout>,
    /// D, if the caller passed it.
    pub out: Option<Matrix>,
    /// Shape of the result.
    pub out_shape: Dims,
    /// Factor of C.
    pub beta: f32,
    /// The scales of A and B.
    pub scales: Option<Scales>,
    /// What happens to the product of a layer.
    pub fusion: Option<Fusion>,
}

/// Scales on the device of their product: the address and the number of f32 values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scales {
    /// One scale of A, or one for each row.
    pub a: (u64, u64),
    /// One scale of B, or one for each column of D.
    pub b: (u64, u64),
}

impl Call {
    /// Checks the tensors.
    ///
    /// # Errors
    /// A [`Refusal`] for sizes, types, places or strides that the GEMM cannot use, and for a result that
    /// overlaps an operand.
    pub fn check(&self) -> Result<Product, Refusal> {
        let Self { op, a, b, c, out, .. } = *self;
        let [a_name, b_name] = match op {
            Op::Matmul => ["a", "b"],
            Op::Linear => ["x", "weight"],
        };
        let (out_shape, m, n, k) = self.shape(a_name, b_name)?;
        let size = Size {
            m,
            n,
            k,
            ab: a.element,
            out: self.out_type()?,
            with_c: false,
            fast_accum: None,
            layer: None,
        };
        self.check_elements(&size, a_name, b_name)?;
        self.check_places(a_name, b_name)?;
        let beta = self.beta.unwrap_or(if c.is_some() { 1.0 } else { 0.0 });
        if beta != 0.0 && c.is_none() {
            return Err(Refusal::Beta { beta });
        }
        for (name, tensor) in [("c", c), ("out", out)] {
            if let Some(tensor) = tensor
                && tensor.shape != out_shape
            {
                let what = format!("the result is {out_shape}; nothing is broadcast");
                return Err(Refusal::Shape { name, shape: tensor.shape.to_string(), what });
            }
        }
        let a_layout = a.layout(a_name, Order::Rows)?;
        let b_order = if op == Op::Matmul { Order::Columns } else { Order::Rows };
        let b_layout = b.layout(b_name, b_order)?;
        let c_layout = c.map(|c| c.layout("c", Order::Rows)).transpose()?;
        let out = out.map(|out| self.check_out(&out, [a_name, b_name])).transpose()?;
        let with_c = beta != 0.0;
        Ok(Product {
            size: Size { with_c, ..size },
            place: a.place,
            a: a_layout,
            b: b_layout,
            // BLAS does not read C when beta is 0.
            c: c_layout.filter(|_| with_c),
            out,
            out_shape,
            beta,
            scales: None,
            fusion: None,
        })
    }

    /// The result's shape, and M, N and K.
    fn shape(
        &self,
        a_name: &'static str,
        b_name: &'static str,
    ) -> Result<(Dims, u64, u64, u64), Refusal> {
        let (a, b) = (self.a.shape, self.b.shape);
        let Some((&k, a_rows)) = a.as_slice().split_last() else {
            return Err(Refusal::Dimensions { name: a_name, have: 0, need: "at least 1" });
        };
        let few = |have, need| Err(Refusal::Dimensions { name: b_name, have, need });
        let (b_leading, b_k, n) = match (self.op, b.as_slice()) {
            (Op::Matmul, [leading @ .., k, n]) => (leading, *k, *n),
            (Op::Linear, [n, k]) => (&[][..], *k, *n),
            (Op::Matmul, short) => return few(short.len(), "at least 2"),
            (Op::Linear, other) => return few(other.len(), "exactly 2, [N, K],"),
        };
        if b_leading.iter().any(|&size| size != 1) {
            let what = "a batch of different matrices needs one call for each; leading dimensions must be 1".into();
            return Err(Refusal::Shape { name: b_name, shape: b.to_string(), what });
        }
        if k != b_k {
            let dims = if self.op == Op::Matmul { "[K, N]" } else { "[N, K]" };
            let what = format!("{a_name} is {a}, so {b_name} {dims} must have K = {k}, not {b_k}");
            return Err(Refusal::Shape { name: b_name, shape: b.to_string(), what });
        }
        if self.gated && n % 16 != 0 {
            let what =
                format!("N is {n}: blocks of 8 gates and 8 other rows need a multiple of 16");
            return Err(Refusal::Shape { name: b_name, shape: b.to_string(), what });
        }
        let columns = if self.gated { n / 2 } else { n };
        let mut shape = Dims::EMPTY;
        // As torch does: the result has as many batch dimensions as the operand with the most.
        let rows = a_rows.len().saturating_sub(1);
        let fits = (rows..b_leading.len()).all(|_| shape.push(1))
            && a_rows.iter().all(|&size| shape.push(size))
            && shape.push(columns);
        if !fits {
            return Err(Refusal::Dimensions {
                name: a_name,
                have: a.as_slice().len(),
                need: "at most 8",
            });
        }
        let m = a_rows.iter().fold(1u64, |m, &size| m.saturating_mul(size as u64));
        Ok((shape, m, n as u64, k as u64))
    }

    /// The result's element type. If none is named it is that of `out`, of `c` or of `a`, in this order.
    fn out_type(&self) -> Result<Element, Refusal> {
        let given = self.out.map(|out| out.element);
        if let (Some(named), Some(have)) = (self.out_type, given)
            && named != have
        {
            let need = format!("{named}, which out_dtype says,");
            return Err(Refusal::Element { name: "out", have, need });
        }
        let c = self.c.map(|c| c.element);
        Ok(self.out_type.or(given).or(c).unwrap_or(self.a.element))
    }

    fn check_elements(
        &self,
        size: &Size,
        a_name: &'static str,
        b_name: &'static str,
    ) -> Result<(), Refusal> {
        if ![Element::F16, Element::BF16].contains(&size.ab) {
            let need = "float16 or bfloat16".into();
            return Err(Refusal::Element { name: a_name, have: size.ab, need });
        }
        if self.b.element != size.ab {
            let need = format!("{}, the type of {a_name},", size.ab);
            return Err(Refusal::Element { name: b_name, have: self.b.element, need });
        }
        if size.out != size.ab && size.out != Element::F32 {
            let need = format!("{} or float32", size.ab);
            return Err(Refusal::Element { name: "out", have: size.out, need });
        }
        match self.c.map(|c| c.element) {
            Some(have) if have != size.out => {
                let need = format!("{}, the type of the result,", size.out);
                Err(Refusal::Element { name: "c", have, need })
            }
            _ => Ok(()),
        }
    }

    fn check_places(&self, first: &'static str, b_name: &'static str) -> Result<(), Refusal> {
        let place = self.a.place;
        if let Place::Other(_) = place {
            return Err(Refusal::Device { name: first, place });
        }
        for (name, tensor) in [(b_name, Some(self.b)), ("c", self.c), ("out", self.out)] {
            match tensor.map(|t| t.place) {
                Some(have) if have != place => {
                    return Err(Refusal::Place { name, have, first, need: place });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The matrix of the result, which must be writable in place and apart from the operands.
    fn check_out(&self, out: &View, names: [&'static str; 2]) -> Result<Matrix, Refusal> {
        if out.readonly {
            return Err(Refusal::ReadOnly);
        }
        let Layout::Rows(matrix) = out.layout("out", Order::Rows)? else {
            let what = "it is written in place: its last stride must be 1, and leading dimensions may not jump";
            let (shape, strides) = (out.shape.to_string(), out.strides.to_string());
            return Err(Refusal::Strides { name: "out", shape, strides, what });
        };
        let (out_start, out_end) = out.range();
        let inputs = [(names[0], Some(self.a)), (names[1], Some(self.b)), ("c", self.c)];
        for (name, input) in inputs {
            let Some((start, end)) = input.map(|i| i.range()) else { continue };
            let empty = start == end || out_start == out_end;
            if !empty && start < out_end && out_start < end {
                return Err(Refusal::Alias { name, start, end, out_start, out_end });
            }
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addr: u64, element: Element, shape: &[i64]) -> View {
        let shape = Dims::new(shape).unwrap();
        let strides = shape.contiguous();
        View { addr, place: Place::Cuda(0), element, shape, strides, readonly: false }
    }

    fn bf16(addr: u64, shape: &[i64]) -> View {
        at(addr, Element::BF16, shape)
    }

    /// w.t() of a weight [N, K].
    fn t(mut w: View) -> View {
        let [n, k] = w.shape.as_slice() else { panic!() };
        (w.shape, w.strides) = (Dims::new(&[*k, *n]).unwrap(), Dims::new(&[1, *k]).unwrap());
        w
    }

    fn linear() -> Call {
        Call {
            op: Op::Linear,
            a: bf16(0x1000, &[2, 3, 64]),
            b: bf16(0x10000, &[32, 64]),
            c: None,
            out: None,
            out_type: None,
            beta: None,
            gated: false,
        }
    }

    #[test]
    fn a_transposed_weight_is_the_weight() {
        let by_weight = linear().check().unwrap();
        let transposed = Call { op: Op::Matmul, b: t(linear().b), ..linear() };
        assert_eq!(transposed.check().unwrap(), by_weight);
        assert_eq!(by_weight.out_shape.as_slice(), [2, 3, 32]);
        let Size { m, n, k, .. } = by_weight.size;
        assert_eq!((m, n, k), (6, 32, 64));
        let row_major = Call { op: Op::Matmul, b: bf16(0x10000, &[64, 32]), ..linear() };
        assert_eq!(row_major.check().unwrap().b, Layout::Copy);
    }

    #[test]
    fn shapes_follow_torch() {
        let shape = |a: &[i64], b: &[i64]| {
            let call = Call { op: Op::Matmul, a: bf16(0, a), b: bf16(1 << 20, b), ..linear() };
            call.check().map(|p| p.out_shape.as_slice().to_vec()).map_err(|e| e.to_string())
        };
        assert_eq!(shape(&[4, 8], &[8, 5]), Ok(vec![4, 5]));
        assert_eq!(shape(&[8], &[8, 5]), Ok(vec![5]));
        assert_eq!(shape(&[1, 4, 8], &[1, 8, 5]), Ok(vec![1, 4, 5]));
        assert_eq!(shape(&[4, 8], &[1, 1, 8, 5]), Ok(vec![1, 1, 4, 5]));
        assert_eq!(shape(&[7, 4, 8], &[1, 8, 5]), Ok(vec![7, 4, 5]));
        assert_eq!(shape(&[0, 8], &[8, 5]), Ok(vec![0, 5]));
        assert!(shape(&[4, 8], &[9, 5]).unwrap_err().contains("K = 8, not 9"));
        assert!(shape(&[4, 8], &[8]).unwrap_err().contains("1 dimensions"));
        assert!(shape(&[2, 4, 8], &[2, 8, 5]).unwrap_err().contains("[2, 8, 5]"));
        assert!(shape(&[], &[8, 5]).unwrap_err().contains("0 dimensions"));
        assert!(shape(&[1; 8], &[1, 1, 1, 1, 1, 1, 1, 1]).is_ok());
    }

    #[test]
    fn types_and_places_are_refused_with_both() {
        let text = |call: Call| call.check().unwrap_err().to_string();
        let f32 = |addr, shape: &[i64]| at(addr, Element::F32, shape);
        assert!(
            text(Call { a: f32(0, &[4, 64]), ..linear() }).contains("float32; float16 or bfloat16")
        );
        let half = at(0, Element::F16, &[32, 64]);
        assert!(
            text(Call { b: half, ..linear() })
                .contains("weight has elements of type float16; bfloat16")
        );
        assert!(
            text(Call { out_type: Some(Element::F16), ..linear() }).contains("bfloat16 or float32")
        );
        let cpu = View { place: Place::Host, ..linear().b };
        assert!(text(Call { b: cpu, ..linear() }).contains("weight is on cpu and x is on cuda:0"));
        let other = View { place: Place::Cuda(1), ..linear().b };
        assert!(text(Call { b: other, ..linear() }).contains("cuda:1"));
        let c = Some(bf16(0x20000, &[2, 3, 32]));
        let wide = Call { c, out_type: Some(Element::F32), ..linear() };
        assert!(text(wide).contains("c has elements of type bfloat16; float32"));
        assert!(text(Call { beta: Some(2.0), ..linear() }).contains("beta is 2"));
        let bias = Some(bf16(0x20000, &[32]));
        assert!(text(Call { c: bias, ..linear() }).contains("[2, 3, 32]"));
    }

    #[test]
    fn c_is_read_only_if_beta_is_not_zero() {
        let c = Some(bf16(0x20000, &[2, 3, 32]));
        let read = Call { c, ..linear() }.check().unwrap();
        assert!((read.beta, read.c.is_some(), read.size.with_c) == (1.0, true, true));
        let unread = Call { c, beta: Some(0.0), ..linear() }.check().unwrap();
        assert!(unread.c.is_none() && !unread.size.with_c);
    }

    #[test]
    fn the_result_is_written_in_place_and_apart_from_the_operands() {
        let out = |view| Call { out: Some(view), ..linear() }.check();
        let good = out(bf16(0x20000, &[2, 3, 32])).unwrap();
        assert_eq!(good.out.map(|m| (m.rows, m.cols, m.pitch)), Some((6, 32, 64)));
        assert_eq!(out(at(0x20000, Element::F32, &[2, 3, 32])).unwrap().size.out, Element::F32);
        // The last byte of x is 0x12ff.
        assert!(out(bf16(0x1300, &[2, 3, 32])).is_ok());
        let text = out(bf16(0x12f0, &[2, 3, 32])).unwrap_err().to_string();
        assert!(text.contains("x at 0x1000..0x1300"), "{text}");
        let columns =
            View { strides: Dims::new(&[96, 1, 3]).unwrap(), ..bf16(0x20000, &[2, 3, 32]) };
        assert!(out(columns).unwrap_err().to_string().contains("in place"));
        let readonly = View { readonly: true, ..bf16(0x20000, &[2, 3, 32]) };
        assert_eq!(out(readonly).unwrap_err(), Refusal::ReadOnly);
        // In place over C is refused, too.
        let c = bf16(0x20000, &[2, 3, 32]);
        let same = Call { c: Some(c), out: Some(c), ..linear() }.check();
        assert!(same.unwrap_err().to_string().contains("overlap c"));
    }
}
