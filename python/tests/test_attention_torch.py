"""torch's operators of attention. On the CPU, so on the model of the SM."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401

F16 = torch.float16


def tensors(b=1, s=20, s_kv=None, h=2, h_kv=None, d=16, layout="bshd", grad=False):
    generator = torch.Generator().manual_seed(s)

    def normal(rows, heads):
        x = torch.randn(b, rows, heads, d, generator=generator).to(F16)
        return (x if layout == "bshd" else x.transpose(1, 2)).requires_grad_(grad)

    s_kv, h_kv = s_kv or s, h_kv or h
    return normal(s, h), normal(s_kv, h_kv), normal(s_kv, h_kv)


def test_it_is_torchs_attention():
    q, k, v = tensors(b=2, h=4, h_kv=2, layout="bhsd")
    for causal in (False, True):
        want = torch.nn.functional.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True
        )
        out = warpipe.attention(q, k, v, causal=causal, layout="bhsd")
        torch.testing.assert_close(out.double(), want, rtol=2e-3, atol=2e-3)
        # As the queries: the heads of a row side by side.
        assert out.stride() == q.stride() and out.transpose(1, 2).is_contiguous()


def test_the_operator_is_registered_as_torch_wants_it():
    plain, turned = tensors(), tensors(b=2, s_kv=30, h=4, h_kv=2, layout="bhsd")
    packed = [x.contiguous() for x in turned]
    one = tensors(s=1, h=1)
    grad = tensors(grad=True)
    wide = torch.empty(1, 20, 4, 16, dtype=F16)[:, :, 1:3]
    samples = [
        (torch.ops.warpipe.attention, (*plain, False, None, None, None, "bshd", False)),
        (torch.ops.warpipe.attention, (*turned, True, [5, -1], 0.5, 2.0, "bhsd", True)),
        (torch.ops.warpipe.attention, (*packed, True, None, None, None, "bhsd", True)),
        (torch.ops.warpipe.attention, (*one, True, None, None, None, "bhsd", True)),
        (torch.ops.warpipe.attention_out, (*plain, True, None, None, None, "bshd", True, torch.empty_like(plain[0]))),
        (torch.ops.warpipe.attention_out, (*plain, False, None, None, None, "bshd", False, wide)),
    ]
    for op, arguments in samples:
        torch.library.opcheck(op.default, arguments)
    # The formula of the gradient is an exception, so only the rest can be checked.
    arguments = (*grad, False, None, None, None, "bshd", False)
    torch.library.opcheck(torch.ops.warpipe.attention.default, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_compiled_code_has_one_graph(dynamic, layout):
    def layer(q, k, v):
        a = warpipe.attention(q * 2, k, v, causal=True, window=(9, None), layout=layout)
        b, lse = warpipe.attention(a, k, v, layout=layout, return_lse=True)
        return b + 1, lse

    q, k, v = tensors(layout=layout)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for mine, theirs in zip(compiled(q, k, v), layer(q, k, v)):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()


def test_compiled_code_writes_out():
    q, k, v = tensors()
    out = torch.zeros_like(q)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def write(q, out):
        warpipe.attention(q, k, v, out=out)
        return out * 2

    doubled = write(q, out)
    assert torch.equal(out, warpipe.attention(q, k, v)) and torch.equal(doubled, out * 2)


def test_a_backward_pass_is_refused_with_advice():
    q, k, v = tensors(grad=True)
    out = warpipe.attention(q, k, v)
    with pytest.raises(NotImplementedError, match="no backward pass.*torch.no_grad"):
        out.sum().backward()
    with pytest.raises(ValueError, match="gradients"):
        warpipe.attention(q, k, v, out=torch.empty_like(out))
    with torch.no_grad():
        assert not warpipe.attention(q, k, v, out=torch.empty_like(out)).requires_grad


def test_modes_see_the_operator():
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = tensors()
    with FakeTensorMode() as mode:
        out, lse = warpipe.attention(*(mode.from_tensor(t) for t in (q, k, v)), return_lse=True)
        assert tuple(out.shape) == (1, 20, 2, 16) and tuple(lse.shape) == (1, 2, 20)


def test_bad_calls_write_nothing():
    q, k, v = tensors()
    out = torch.full((1, 20, 2, 16), 7.0, dtype=F16)
    for error, text, call in [
        (TypeError, "k is a ndarray; a tensor of torch", lambda: warpipe.attention(q, k.numpy(), v, out=out)),
        (TypeError, "v has elements of type bfloat16", lambda: warpipe.attention(q, k, v.bfloat16(), out=out)),
        (ValueError, "overlap v", lambda: warpipe.attention(q, k, v, out=v)),
        (ValueError, "its elements overlap", lambda: warpipe.attention(q, k, v, out=out[:, :1].expand(1, 20, 2, 16))),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert (out == 7).all()


def test_a_plan_of_tensors_that_need_gradients():
    q, k, v = tensors(grad=True)
    assert "attention_f16_d64" in str(warpipe.plan_attention(q, k, v))
