"""torch's operators of packed sequences and caches. On the CPU, so on the model of the SM."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401
from attention_reference import assert_close, cached, in_pages, varlen  # noqa: E402

F16 = torch.float16
STARTS = [0, 7, 7, 20]


def normal(*shape, grad=False):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(F16).requires_grad_(grad)


def packed(h=2, h_kv=1, d=16, grad=False):
    return [normal(20, heads, d, grad=grad) for heads in (h, h_kv, h_kv)]


def cache(b=2, s=1, capacity=70, h=2, h_kv=1, d=16):
    return normal(b, s, h, d), normal(b, capacity, h_kv, d), normal(b, capacity, h_kv, d) * 2


def test_lengths_are_lists_or_tensors():
    q, k, v = packed()
    want = warpipe.attention_varlen(q, k, v, STARTS)
    assert_close(want, varlen(q, k, v, STARTS, STARTS)[0], "float16")
    for dtype in (torch.int32, torch.int64, torch.uint8):
        starts = torch.tensor(STARTS, dtype=dtype)
        if dtype == torch.uint8:
            with pytest.raises(TypeError, match="cu_seqlens_q has elements of type uint8; int32 or int64"):
                warpipe.attention_varlen(q, k, v, starts)
            continue
        assert torch.equal(warpipe.attention_varlen(q, k, v, starts, np.array(STARTS)), want)
        apart = torch.stack([starts, starts * 3], dim=1)[:, 0]
        assert torch.equal(warpipe.attention_varlen(q, k, v, apart), want)
    with pytest.raises(TypeError, match=r"cu_seqlens_q is a Tensor with \[0.0, 20.0\]|float32; int32 or int64"):
        warpipe.attention_varlen(q, k, v, torch.tensor([0.0, 20.0]))
    with pytest.raises(TypeError, match="cu_seqlens_q is a Tensor"):
        warpipe.attention_varlen(q, k, v, torch.tensor([[0, 20]]))


@pytest.mark.parametrize("lengths", [[50, 3], torch.tensor([50, 3], dtype=torch.int32), warpipe.CacheSeqlens([50, 3])])
def test_caches(lengths):
    q, k, v = cache(s=3, h=4)
    want, _ = cached(q, k, v, [50, 3], causal=True)
    out, lse = warpipe.attention_with_kvcache(q, k, v, lengths, causal=True, return_lse=True)
    assert_close(out, want, "float16")
    assert tuple(lse.shape) == (2, 4, 3)
    pages, table = in_pages(k.numpy(), [50, 3], 64)
    k_pages, v_pages = torch.from_numpy(pages), torch.from_numpy(in_pages(v.numpy(), [50, 3], 64)[0])
    paged = warpipe.attention_with_kvcache(q, k_pages, v_pages, lengths, torch.from_numpy(table), causal=True)
    assert torch.equal(paged, out)
    into = torch.empty_like(q)
    assert warpipe.attention_with_kvcache(q, k, v, lengths, causal=True, out=into) is into
    assert torch.equal(into, out)


def test_the_operators_are_registered_as_torch_wants_them():
    q, k, v = packed()
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (q, k, v)]
    starts = torch.tensor(STARTS, dtype=torch.int32)
    options = (True, [5, -1], 0.5, 2.0, True)
    plain = (False, None, None, None, False)
    cq, ck, cv = cache()
    lengths, table = torch.tensor([50, 3]), torch.tensor([[1, 0], [2, -1]], dtype=torch.int32)
    pages = [normal(3, 64, 1, 16) for _ in range(2)]
    ops = torch.ops.warpipe
    samples = [
        (ops.attention_varlen, (q, k, v, starts, None, *plain)),
        (ops.attention_varlen, (*turned, starts, starts.clone(), *options)),
        (ops.attention_varlen_out, (q, k, v, starts, None, *options, torch.empty_like(q))),
        (ops.attention_with_kvcache, (cq, ck, cv, lengths, None, *plain)),
        (ops.attention_with_kvcache, (cq, *pages, lengths, table, *options)),
        (ops.attention_with_kvcache_out, (cq, *pages, lengths, table, *plain, torch.empty_like(cq))),
    ]
    for op, arguments in samples:
        torch.library.opcheck(op.default, arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_code_has_one_graph(dynamic):
    compilations = 0

    def backend(graph, inputs):
        nonlocal compilations
        compilations += 1
        return graph.forward

    def layer(q, k, v, starts):
        a = warpipe.attention_varlen(q * 2, k, v, starts, causal=True, window=(9, None))
        b, lse = warpipe.attention_varlen(a, k, v, starts, cu_seqlens_k=starts, return_lse=True)
        return b + 1, lse

    def step(q, k, v, lengths, table):
        a = warpipe.attention_with_kvcache(q * 2, k, v, lengths, table, causal=True)
        b, lse = warpipe.attention_with_kvcache(a, k, v, lengths, block_table=table, return_lse=True)
        return b + 1, lse

    table = torch.tensor([[1, 0], [2, 2]], dtype=torch.int32)
    pages = [normal(3, 64, 1, 16) for _ in range(2)]
    calls = [
        (layer, [(*packed(), torch.tensor(starts)) for starts in (STARTS, [0, 3, 9, 20])]),
        (step, [(*cache(), torch.tensor(keys), None) for keys in ([50, 3], [70, 0])]),
        (step, [(cache()[0], *pages, torch.tensor(keys, dtype=torch.int32), table) for keys in ([50, 3], [70, 1])]),
    ]
    for call, arguments in calls:
        compilations = 0
        torch._dynamo.reset()
        compiled = torch.compile(call, fullgraph=True, dynamic=dynamic, backend=backend)
        for own in arguments:
            for mine, theirs in zip(compiled(*own), call(*own)):
                torch.testing.assert_close(mine, theirs)
                assert mine.stride() == theirs.stride()
        assert compilations == 1, "other lengths are no other code"


def test_compiled_code_takes_lists_and_out():
    q, k, v = cache()
    out = torch.zeros_like(q)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def write(q, out):
        warpipe.attention_with_kvcache(q, k, v, [50, 3], out=out)
        return out * 2 + warpipe.attention_with_kvcache(q, k, v, 20)

    got, twenty = write(q, out), warpipe.attention_with_kvcache(q, k, v, 20)
    assert torch.equal(out, warpipe.attention_with_kvcache(q, k, v, [50, 3]))
    torch.testing.assert_close(got, out * 2 + twenty)


def test_gradients_modes_and_other_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = packed(grad=True)
    out = warpipe.attention_varlen(q, k, v, STARTS)
    with pytest.raises(NotImplementedError, match="no backward pass"):
        out.sum().backward()
    with pytest.raises(ValueError, match="gradients"):
        warpipe.attention_varlen(q, k, v, STARTS, out=torch.empty_like(out))
    detached, real = [t.detach() for t in (q, k, v)], cache()
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in detached]
        out, lse = warpipe.attention_varlen(*fake, STARTS, return_lse=True)
        assert tuple(out.shape) == (20, 2, 16) and tuple(lse.shape) == (2, 20)
        fake = [mode.from_tensor(t) for t in real]
        for lengths in (5, np.int64(5), [5, 6], warpipe.CacheSeqlens([5, 6]), torch.tensor([5, 6])):
            out, lse = warpipe.attention_with_kvcache(*fake, lengths, return_lse=True)
            assert tuple(out.shape) == (2, 1, 2, 16) and tuple(lse.shape) == (2, 2, 1)
    q, k, v = cache()
    with pytest.raises(TypeError, match="v_cache is a ndarray; a tensor of torch"):
        warpipe.attention_with_kvcache(q, k, v.numpy(), 5)
    with pytest.raises(TypeError, match="block_table is a list; a tensor of torch"):
        warpipe.attention_with_kvcache(q, k, v, 5, [[0], [1]])
