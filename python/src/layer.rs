//! Linear layers in one kernel: bias, activation, residual, gates.

use crate::engine::{self, Workspace, Zeros};
use crate::interchange::Imported;
use crate::layout::{Layout, Order, Place, View};
use crate::model;
use crate::product::{ACTIVATIONS, Call, Fusion, LayerKind, Op, Product, Size};
use crate::python::{allocated, refuse};
use crate::refusal::Refusal;
use crate::torch::Torch;
use pyo3::prelude::*;

/// out = activation(x @ weight.T + bias) + residual.
///
/// `stream` is a `CUstream`; tensors of the host go to the SM model. `zeros` allocates memory for workspaces: bytes to
/// (address, owner).
#[pyfunction]
pub fn fused_linear(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    weight: &Bound<'_, PyAny>,
    bias: Option<&Bound<'_, PyAny>>,
    residual: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyAny>,
    activation: Option<&str>,
    stream: i64,
    zeros: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    // DLPack: 1 is the legacy default stream, 0 is ambiguous.
    let exported = if stream == 0 { 1 } else { stream };
    let named = [
        ("x", Some(x)),
        ("weight", Some(weight)),
        ("bias", bias),
        ("residual", residual),
        ("out", Some(out)),
    ];
    let (mut views, mut imported) = ([None; 5], Vec::new());
    for (view, (name, tensor)) in views.iter_mut().zip(named) {
        let Some(tensor) = tensor else { continue };
        // torch's table of C functions is faster than a capsule.
        *view = Torch::get(py).and_then(|torch| torch.view(tensor));
        if view.is_none() {
            let tensor = Imported::new(name, tensor, Some(exported))?;
            *view = Some(tensor.view);
            imported.push(tensor);
        }
    }
    let [Some(x), Some(weight), bias, residual, Some(out)] = views else {
        unreachable!("these three arguments are there, and each that is there has a view")
    };
    let tensors = Tensors { x, weight, bias, residual, out };
    let product = tensors.check(activation).map_err(|e| refuse(&e))?;
    match product.place {
        Place::Host => {
            // SAFETY: the tensors were checked, and the caller holds them.
            unsafe { model::run_layer(py, &product, &tensors) }
        }
        Place::Cuda(device) => {
            let mut call = |bytes: usize| allocated(zeros, bytes);
            let zeros = zeros.is_some().then_some(&mut call as Zeros<'_>);
            engine::run(&product, device, stream as u64, 1.0, zeros, Workspace::Capture)
        }
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "x", place: product.place })),
    }
}

/// The tensors of a layer.
pub struct Tensors {
    pub x: View,
    pub weight: View,
    pub bias: Option<View>,
    pub residual: Option<View>,
    pub out: View,
}

impl Tensors {
    fn check(&self, activation: Option<&str>) -> Result<Product, Refusal> {
        let (function, gated) = match activation {
            None => ("identity", false),
            Some(name) => {
                let found = ACTIVATIONS.iter().find(|(known, ..)| *known == name);
                let Some((_, function, gated)) = found else {
                    let need = "None, relu, silu, gelu, gelu-tanh, swiglu, geglu or geglu-tanh";
                    let have = format!("{name:?}");
                    return Err(Refusal::Option { name: "activation", have, need });
                };
                (*function, *gated)
            }
        };
        let Self { x, weight, bias, residual, out } = *self;
        if gated && residual.is_some() {
            let (have, need) = ("a tensor".into(), "None, because gates allow no residual,");
            return Err(Refusal::Option { name: "residual", have, need });
        }
        let call = Call {
            op: Op::Linear,
            a: x,
            b: weight,
            c: residual,
            out: Some(out),
            out_type: None,
            beta: None,
            gated,
        };
        let product = call.check()?;
        let rows = [
            ("x", Some(x), Some(product.a)),
            ("weight", Some(weight), Some(product.b)),
            ("residual", residual, product.c),
        ];
        for (name, view, layout) in rows {
            if let (Some(view), Some(Layout::Copy)) = (view, layout) {
                return Err(view.refuse(name, "its rows must have adjacent elements"));
            }
        }
        if out.element != x.element {
            let need = format!("{}, the type of x,", x.element);
            return Err(Refusal::Element { name: "out", have: out.element, need });
        }
        let bias = bias.map(|bias| self.bias(&bias, product.size.n)).transpose()?;
        let layer = Some(if gated { LayerKind::Gated } else { LayerKind::Fused });
        let size = Size { layer, ..product.size };
        Ok(Product { size, fusion: Some(Fusion { bias, activation: function }), ..product })
    }

    /// The address of the bias: N values of the type of x.
    fn bias(&self, bias: &View, n: u64) -> Result<u64, Refusal> {
        let (name, x) = ("bias", &self.x);
        if bias.element != x.element {
            let need = format!("{}, the type of x,", x.element);
            return Err(Refusal::Element { name, have: bias.element, need });
        }
        if bias.place != x.place {
            return Err(Refusal::Place { name, have: bias.place, first: "x", need: x.place });
        }
        if bias.shape.as_slice() != [n as i64] {
            let what = format!("[{n}], one value for each row of weight, is right");
            return Err(Refusal::Shape { name, shape: bias.shape.to_string(), what });
        }
        if n > 1 && bias.layout(name, Order::Rows)? == Layout::Copy {
            return Err(bias.refuse(name, "the values must be adjacent"));
        }
        let (start, end) = bias.range();
        let (out_start, out_end) = self.out.range();
        if start != end && out_start != out_end && out_start < end && start < out_end {
            return Err(Refusal::Alias { name, start, end, out_start, out_end });
        }
        Ok(bias.addr)
    }
}
