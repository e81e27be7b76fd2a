"""fused_linear: bias, activation, residual and gates, on the model of the SM."""

import math

import ml_dtypes
import numpy as np
import pytest
import warpipe
from conftest import assert_close

TYPES = {"float16": (np.float16, 2.0**-11), "bfloat16": (ml_dtypes.bfloat16, 2.0**-8)}


def phi(x):
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


FUNCTIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * phi(x),
    "gelu-tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def f64(x):
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("with_residual", [False, True])
def test_layers(rng, name, activation, with_residual):
    dtype, eps = TYPES[name]
    x, weight, bias = normal(rng, (2, 11, 40), dtype), normal(rng, (72, 40), dtype), normal(rng, (72,), dtype)
    residual = normal(rng, (2, 11, 72), dtype) if with_residual else None
    result = warpipe.fused_linear(x, weight, bias, activation=activation, residual=residual)
    assert (result.dtype, result.shape) == (dtype, (2, 11, 72))
    reference = FUNCTIONS[activation](f64(x) @ f64(weight).T + f64(bias))
    if with_residual:
        reference = reference + f64(residual)
    # The error of GELU is less than half of what rounding to float16 adds.
    assert_close(result, reference, 40, 1.5 * eps)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gates", ["swiglu", "geglu", "geglu-tanh"])
def test_gates(rng, name, gates):
    dtype, eps = TYPES[name]
    function = FUNCTIONS[{"swiglu": "silu", "geglu": "gelu", "geglu-tanh": "gelu-tanh"}[gates]]
    x, gate, up = (normal(rng, (rows, 40), dtype) for rows in (33, 48, 48))
    gate_bias, up_bias = normal(rng, (48,), dtype), normal(rng, (48,), dtype)
    weight, bias = warpipe.interleave_gates(gate, up), warpipe.interleave_gates(gate_bias, up_bias)
    out = np.zeros((33, 48), dtype)
    assert warpipe.fused_linear(x, weight, bias, activation=gates, out=out) is out
    reference = function(f64(x) @ f64(gate).T + f64(gate_bias)) * (f64(x) @ f64(up).T + f64(up_bias))
    assert_close(out, reference, 40, 4 * eps)


def test_refusals_name_what_is_right(rng):
    x, weight = normal(rng, (5, 32), np.float16), normal(rng, (24, 32), np.float16)
    with pytest.raises(ValueError, match=r"bias \[23\]: \[24\], one value for each row of weight, is right"):
        warpipe.fused_linear(x, weight, np.zeros(23, np.float16))
    with pytest.raises(TypeError, match="bias has elements of type float32; float16, the type of x, is right"):
        warpipe.fused_linear(x, weight, np.zeros(24, np.float32))
    with pytest.raises(ValueError, match="N is 24: .* a multiple of 16"):
        warpipe.fused_linear(x, weight, activation="swiglu")
    with pytest.raises(ValueError, match="activation is .*softmax.*; None, relu"):
        warpipe.fused_linear(x, weight, activation="softmax")
    with pytest.raises(ValueError, match="residual is a tensor; None, because gates"):
        warpipe.fused_linear(x, weight, activation="geglu", residual=np.zeros((5, 12), np.float16))
    with pytest.raises(ValueError, match="multiple of 8 rows"):
        warpipe.interleave_gates(weight[:20], weight[:20])


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, weight, bias = torch.randn(7, 40).half(), torch.randn(24, 40).half(), torch.randn(24).half()
    result = warpipe.fused_linear(x, weight, bias, activation="gelu")
    right = torch.nn.functional.gelu(torch.nn.functional.linear(x.double(), weight.double(), bias.double()))
    assert torch.linalg.norm(result.double() - right) < 5e-4 * torch.linalg.norm(right)
    by_operator = torch.ops.warpipe.fused_linear(x, weight, bias, None, "gelu")
    assert torch.equal(result, by_operator)
    with pytest.raises(ValueError, match="no backward pass"):
        warpipe.fused_linear(x.requires_grad_(), weight)
