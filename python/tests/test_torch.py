"""torch: the operators, torch.compile, gradients. On the CPU, so on the model of the SM."""

import os
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401


def normal(*shape, dtype=torch.float16, grad=False):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_(grad)


def close(result, reference, eps=2.0**-10):
    torch.testing.assert_close(result.double(), reference.double(), rtol=eps, atol=eps * 8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("out_dtype", [None, torch.float32, "float32"])
def test_products(dtype, out_dtype):
    x, w = normal(2, 20, 32, dtype=dtype), normal(24, 32, dtype=dtype)
    y = warpipe.linear(x, w, out_dtype=out_dtype)
    assert y.dtype == (dtype if out_dtype is None else torch.float32)
    close(y, torch.nn.functional.linear(x.double(), w.double()), 2.0**-7)
    assert torch.equal(y, warpipe.matmul(x, w.t(), out_dtype=out_dtype))


def test_the_operator_is_registered_as_torch_wants_it():
    x, w, c = normal(4, 16), normal(8, 16), normal(4, 8)
    grad = [t.clone().requires_grad_() for t in (x, w, c)]
    samples = [
        (torch.ops.warpipe.linear, (x, w, None, 1.0, None, None)),
        (torch.ops.warpipe.linear, (*grad, 0.5, 2.0, None)),
        (torch.ops.warpipe.linear, (normal(2, 3, 16), w, None, 1.0, None, torch.float32)),
        (torch.ops.warpipe.matmul, (grad[0], grad[1].t(), grad[2], 1.0, 1.0, None)),
        (torch.ops.warpipe.matmul, (x[None], w.t()[None], None, 1.0, None, None)),
        (torch.ops.warpipe.matmul_out, (x, w.t(), None, 1.0, None, torch.empty(4, 8, dtype=torch.float16))),
        (torch.ops.warpipe.linear_out, (x, w, c, 1.0, 1.0, torch.empty(4, 8, dtype=torch.float16))),
    ]
    for op, arguments in samples:
        torch.library.opcheck(op.default, arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_code_has_one_graph(dynamic):
    w, c = normal(24, 32), normal(20, 24)

    def layer(x):
        y = warpipe.linear(torch.relu(x), w, c, alpha=0.5)
        z = warpipe.matmul(y, y.t(), out_dtype=torch.float32)
        return z + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    x = normal(20, 32)
    torch.testing.assert_close(compiled(x), layer(x))
    assert not torch._dynamo.explain(layer)(x).graph_break_count


def test_compiled_code_writes_out():
    x, w = normal(20, 32), normal(24, 32)
    out = torch.zeros(20, 24, dtype=torch.float16)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def write(x, out):
        warpipe.linear(x, w, out=out)
        return out * 2

    doubled = write(x, out)
    assert torch.equal(out, warpipe.linear(x, w)) and torch.equal(doubled, out * 2)


def test_gradients_are_those_of_torch():
    for op, turned in ((warpipe.linear, lambda w: w.t()), (warpipe.matmul, lambda w: w)):
        x, c = normal(2, 5, 16, grad=True), normal(2, 5, 8, grad=True)
        shape = (8, 16) if op is warpipe.linear else (16, 8)
        w = normal(*shape, grad=True)
        out = op(x, w, c, alpha=0.5, beta=2.0)
        assert out.requires_grad
        weights = normal(2, 5, 8)
        out.backward(weights)
        ours = [t.grad.clone() for t in (x, w, c)]
        for t in (x, w, c):
            t.grad = None
        (0.5 * (x.double() @ turned(w.double())) + 2.0 * c.double()).backward(weights.double())
        for mine, theirs in zip(ours, (x.grad, w.grad, c.grad)):
            assert mine.dtype == torch.float16 and mine.shape == theirs.shape
            close(mine, theirs, 2.0**-8)


def test_only_the_gradients_that_are_needed():
    x, w = normal(5, 16), torch.nn.Parameter(normal(8, 16))
    warpipe.linear(x, w).sum().backward()
    assert w.grad is not None and x.grad is None
    with torch.no_grad():
        assert not warpipe.linear(x, w).requires_grad
    with torch.inference_mode():
        assert warpipe.linear(x, w).is_inference()


def test_subclasses_and_modes_see_the_operator():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x, w = normal(5, 16), normal(8, 16)
    with Log():
        warpipe.linear(x, w)
    assert torch.ops.warpipe.linear.default in seen
    with FakeTensorMode() as mode:
        y = warpipe.linear(mode.from_tensor(x), mode.from_tensor(w))
        assert tuple(y.shape) == (5, 8)


def test_bad_calls_write_nothing():
    x, w = normal(5, 16), normal(8, 16)
    out = torch.full((5, 8), 7.0, dtype=torch.float16)
    for error, text, call in [
        (TypeError, "weight is a ndarray; a tensor of torch", lambda: warpipe.linear(x, w.numpy(), out=out)),
        (TypeError, "weight is a NoneType", lambda: warpipe.linear(x, None, out=out)),
        (TypeError, "weight has elements of type bfloat16", lambda: warpipe.linear(x, w.bfloat16(), out=out)),
        (TypeError, "x has elements of type float32", lambda: warpipe.linear(x.float(), w.float(), out=out)),
        (TypeError, "out_dtype is int8", lambda: warpipe.linear(x, w, out_dtype=torch.int8)),
        (ValueError, "K = 16, not 15", lambda: warpipe.linear(x, w[:, :15], out=out)),
        (ValueError, "overlap x", lambda: warpipe.linear(x, w, out=x[:, :8])),
        (ValueError, "its elements overlap", lambda: warpipe.linear(x[:1].expand(5, 16), w, out=out)),
        (ValueError, "gradients", lambda: warpipe.linear(x, w.clone().requires_grad_(), out=out)),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert (out == 7).all()


def test_a_plan_of_tensors_that_need_gradients():
    x, w = normal(5, 16, grad=True), normal(8, 16, grad=True)
    assert "gemm_f16" in str(warpipe.plan(x, w.t()))


def test_no_warning_on_the_host():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warpipe.matmul(normal(5, 16), normal(16, 8))


def test_torch_that_is_imported_later_is_found():
    code = """
import sys, warpipe
assert "torch" not in sys.modules
import torch
x = torch.ones(4, 16, dtype=torch.float16)
assert (warpipe.linear(x, x) == 16).all()
assert torch.compile(lambda x: warpipe.linear(x, x), fullgraph=True, backend="eager")(x).shape == (4, 4)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})
