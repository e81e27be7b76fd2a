"""Attention of CUDA tensors of torch: results, layouts, streams, graphs. Needs a Hopper GPU."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401

pytestmark = pytest.mark.usefixtures("gpu")
BF16, F16 = torch.bfloat16, torch.float16


def tensors(b=2, s=512, s_kv=None, h=4, h_kv=None, d=128, dtype=BF16, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)

    def normal(rows, heads):
        return torch.randn(b, rows, heads, d, generator=generator, device="cuda").to(dtype)

    s_kv, h_kv = s_kv or s, h_kv or h
    return normal(s, h), normal(s_kv, h_kv), normal(s_kv, h_kv)


def reference(q, k, v, causal=False, window=None, scale=None, softcap=None):
    """O [B, S, H, D] and LSE [B, H, S] in f64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    heads, rows, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(heads, dim=1) for x in (k, v))
    scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    behind = torch.arange(keys, device="cuda")[None] - (torch.arange(rows, device="cuda")[:, None] + keys - rows)
    left, right = (None, None) if window is None else window
    right = 0 if causal else right
    hidden = torch.zeros_like(behind, dtype=torch.bool)
    if right is not None:
        hidden |= behind > right
    if left is not None:
        hidden |= -behind > left
    scores = scores.masked_fill(hidden, -math.inf)
    out = torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v
    return out.transpose(1, 2), torch.logsumexp(scores, dim=-1)


def close(out, want):
    """Three times what rounding of the weights and of the result gives."""
    assert out.shape == want.shape and out.isfinite().all()
    error = (torch.linalg.norm(out.double() - want) / torch.linalg.norm(want)).item()
    assert error <= 3 * 2**0.5 * {BF16: 1.66e-3, F16: 2.07e-4}[out.dtype], error


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [8, 64, 80, 128, 256])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ({}, {}),
        ({}, {"causal": True}),
        ({"s": 333, "s_kv": 700, "h": 8, "h_kv": 2}, {"causal": True}),
        ({"s": 700, "s_kv": 333, "h_kv": 1}, {"causal": True}),
        ({"s": 1, "s_kv": 1000}, {}),
        ({"s": 1000}, {"window": (100, 30)}),
        ({"s": 1000}, {"causal": True, "window": (64, None)}),
        ({}, {"scale": 0.3, "softcap": 5.0}),
    ],
)
def test_results(sizes, options, d, dtype):
    q, k, v = tensors(**sizes, d=d, dtype=dtype)
    want, sums = reference(q, k, v, **options)
    out, lse = warpipe.attention(q, k, v, **options, return_lse=True)
    assert out.dtype == dtype and lse.dtype == torch.float32
    close(out, want)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-5, atol=2e-4)
    assert torch.equal(out, warpipe.attention(q, k, v, **options)), "the same bits in every run"


def test_it_is_torchs_attention_in_place():
    # One projection to queries, keys and values: [B, S, H + 2 H_kv, D].
    both = torch.randn(2, 300, 8 + 2 + 2, 64, device="cuda").to(BF16)
    q, k, v = (x.transpose(1, 2) for x in both.split([8, 2, 2], dim=2))
    want = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=True, enable_gqa=True
    )
    out = warpipe.attention(q, k, v, causal=True, layout="bhsd")
    close(out, want)
    assert out.transpose(1, 2).is_contiguous()
    # Into a part of a larger tensor, of which nothing else is written.
    whole = torch.full((2, 300, 12, 64), 7.0, dtype=BF16, device="cuda")
    warpipe.attention(q, k, v, causal=True, layout="bhsd", out=whole[:, :, 2:10].transpose(1, 2))
    assert torch.equal(whole[:, :, 2:10].transpose(1, 2), out)
    assert (whole[:, :, :2] == 7).all() and (whole[:, :, 10:] == 7).all()
    # Between its own operands: bytes are compared, not ranges.
    sides = torch.randn(2, 300, 4, 8, 64, device="cuda").to(BF16)
    q, k, v, o = sides.unbind(2)
    want = warpipe.attention(q, k, v)
    assert torch.equal(warpipe.attention(q, k, v, out=o), want)
    # All queries share one head of keys, by a stride of 0.
    q, k, v = tensors(h=4, h_kv=1)
    wide = [x.expand(-1, -1, 4, -1) for x in (k, v)]
    assert torch.equal(warpipe.attention(q, *wide), warpipe.attention(q, k, v))


def test_what_tma_does_not_read_is_copied_with_a_warning():
    q, k, v = tensors(d=64)
    apart = q.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    with pytest.warns(warpipe.CopyWarning, match=r"copies q \[2, 512, 4, 64\] with strides \[131072, 256, 1, 4\]"):
        out = warpipe.attention(apart, k, v)
    assert torch.equal(out, warpipe.attention(q, k, v))


def test_it_runs_on_the_current_stream():
    q, k, v = tensors(s=2048)
    want = warpipe.attention(q, k, v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        # Ready only after a while on this stream.
        got = warpipe.attention(q.clone(), k.clone(), v.clone())
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(got, want)


def test_cuda_graphs():
    q, k, v = tensors(h_kv=2)
    out = torch.empty_like(q)
    want = warpipe.attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, lse = warpipe.attention(q, k, v, causal=True, return_lse=True)
        warpipe.attention(q, k, v, causal=True, out=out)
        total = o + out
    for factor in (1.0, -2.0):
        q.mul_(factor)
        o.fill_(7), out.fill_(7), lse.fill_(7)
        graph.replay()
        torch.cuda.synchronize()
        want, sums = warpipe.attention(q, k, v, causal=True, return_lse=True)
        assert torch.equal(o, want) and torch.equal(out, want) and torch.equal(total, want + want)
        assert torch.equal(lse, sums)


def test_a_capture_without_a_warm_up_outlives_many_plans():
    q, k, v = tensors(b=1, s=517, h=3, d=64)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = warpipe.attention(q, k, v, causal=True)
    # More plans than are kept: the graph's own one has to stay.
    for rows in range(1, 301):
        warpipe.attention(q[:, :rows], k, v)
    graph.replay()
    torch.cuda.synchronize()
    close(out, reference(q, k, v, causal=True)[0])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_code_has_one_graph(mode):
    def layer(q, k, v):
        out, lse = warpipe.attention(q * 2, k, v, causal=True, layout="bhsd", return_lse=True)
        return out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1) + 1, lse

    compiled = torch.compile(layer, fullgraph=True, mode=mode)
    q, k, v = (x.transpose(1, 2) for x in tensors(h_kv=2))
    for _ in range(4):
        for mine, theirs in zip(compiled(q, k, v), layer(q, k, v)):
            torch.testing.assert_close(mine, theirs)


def test_bad_calls_write_nothing():
    q, k, v = tensors(b=1, s=64, h=2, d=64)
    out = torch.full_like(q, 7.0)
    for error, text, call in [
        (TypeError, "q has elements of type float32", lambda: warpipe.attention(q.float(), k, v, out=out)),
        (ValueError, "k is on cpu and q is on cuda:0", lambda: warpipe.attention(q, k.cpu(), v, out=out)),
        (ValueError, "overlaps O", lambda: warpipe.attention(q, k, v, out=k)),
        (ValueError, "D is 60", lambda: warpipe.attention(q[..., :60], k[..., :60], v[..., :60])),
        (ValueError, "seq_kv = 0", lambda: warpipe.attention(q, k[:, :0], v[:, :0], out=out)),
    ]:
        with pytest.raises(error, match=text):
            call()
    torch.cuda.synchronize()
    assert (out == 7).all()


def test_a_plan_says_which_kernel():
    q, k, v = tensors(h_kv=2)
    plan = warpipe.plan_attention(q, k, v, causal=True)
    assert plan.describe()["kernel"].startswith("attention_bf16_d128")
    assert torch.equal(plan(q, k, v), warpipe.attention(q, k, v, causal=True))


def test_the_model_and_the_gpu_agree():
    q, k, v = tensors(b=1, s=70, h=2, h_kv=1, d=64, dtype=F16)
    model = warpipe.attention(q.cpu(), k.cpu(), v.cpu(), causal=True)
    torch.testing.assert_close(model, warpipe.attention(q, k, v, causal=True).cpu(), rtol=2e-3, atol=1e-3)
