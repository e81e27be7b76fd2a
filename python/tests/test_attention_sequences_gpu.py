"""Packed sequences and caches of CUDA tensors of torch: results, lengths, streams, graphs. Needs a Hopper GPU."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401
from test_attention_gpu import close, reference  # noqa: E402

pytestmark = pytest.mark.usefixtures("gpu")
BF16, F16 = torch.bfloat16, torch.float16


def normal(*shape, dtype=BF16, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, device="cuda").to(dtype)


def starts_of(lengths):
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


def varlen(q, k, v, starts_q, starts_k, **options):
    """O [total_q, H, D] and LSE [H, total_q] in f64."""
    out = torch.zeros(q.shape, dtype=torch.float64, device="cuda")
    lse = torch.full((q.shape[1], q.shape[0]), -math.inf, dtype=torch.float64, device="cuda")
    for (s, e), (a, z) in zip(zip(starts_q, starts_q[1:]), zip(starts_k, starts_k[1:])):
        if s < e and a < z:
            o, sums = reference(q[None, s:e], k[None, a:z], v[None, a:z], **options)
            out[s:e], lse[:, s:e] = o[0], sums[0]
    return out, lse


def cached(q, k, v, keys, **options):
    """O [B, S, H, D] and LSE [B, H, S] in f64."""
    out, lse = [], []
    for b, rows in enumerate(keys):
        o, sums = varlen(q[b], k[b, :rows], v[b, :rows], [0, q.shape[1]], [0, rows], **options)
        out.append(o), lse.append(sums)
    return torch.stack(out), torch.stack(lse)


def caches(keys, s=1, capacity=1024, h=8, h_kv=1, d=128, dtype=BF16):
    """Q and a cache, with NaN behind the keys."""
    q = normal(len(keys), s, h, d, dtype=dtype)
    k, v = (normal(len(keys), capacity, h_kv, d, dtype=dtype, seed=i) for i in (1, 2))
    for b, rows in enumerate(keys):
        k[b, rows:], v[b, rows:] = math.nan, math.nan
    return q, k, v


def in_pages(k, v, page_rows):
    """The same caches as parts of one tensor of pages in a random order, and the block table."""
    batch, capacity, heads, dim = k.shape
    per = capacity // page_rows
    order = torch.randperm(batch * per + 3, device="cuda")[: batch * per]
    both = torch.full((batch * per + 3, 2, page_rows, heads, dim), math.nan, dtype=k.dtype, device="cuda")
    both[order, 0] = k.view(batch * per, page_rows, heads, dim)
    both[order, 1] = v.view(batch * per, page_rows, heads, dim)
    return both[:, 0], both[:, 1], order.view(batch, per).int()


def check(got, want):
    (out, lse), (right, sums) = got, want
    close(out, right)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [64, 80, 128, 256])
@pytest.mark.parametrize(
    ("lengths", "h", "h_kv", "options"),
    [
        ([(300, 300), (1, 1), (1000, 1000), (17, 17)], 4, 4, {"causal": True}),
        ([(300, 500), (0, 70), (129, 0), (700, 64), (1, 2000)], 8, 2, {"causal": True}),
        ([(500, 500), (64, 800)], 4, 1, {"window": (100, 30)}),
        ([(1, 900), (1, 3), (1, 2000)], 8, 1, {}),
        ([(300, 300), (200, 400)], 2, 2, {"scale": 0.3, "softcap": 5.0}),
    ],
)
def test_packed_sequences(lengths, h, h_kv, options, d, dtype):
    starts_q, starts_k = (starts_of(list(rows)) for rows in zip(*lengths))
    q = normal(starts_q[-1], h, d, dtype=dtype)
    k, v = (normal(starts_k[-1], h_kv, d, dtype=dtype, seed=i) for i in (1, 2))
    got = warpipe.attention_varlen(q, k, v, starts_q, starts_k, **options, return_lse=True)
    check(got, varlen(q, k, v, starts_q, starts_k, **options))
    on_gpu = (torch.tensor(starts, dtype=torch.int32, device="cuda") for starts in (starts_q, starts_k))
    again = warpipe.attention_varlen(q, k, v, *on_gpu, **options)
    assert torch.equal(again, got[0]), "the same bits in every run"


@pytest.mark.parametrize("page_rows", [None, 64, 128])
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [64, 80, 128, 256])
@pytest.mark.parametrize(
    ("s", "keys", "h", "h_kv", "options"),
    [
        (1, [1000, 1, 0, 513], 8, 1, {}),
        (1, [1024] * 3, 64, 8, {"causal": True}),
        (4, [4, 700], 16, 2, {"causal": True, "window": (300, 0)}),
        (1, [77, 640], 2, 2, {"scale": 0.3, "softcap": 5.0}),
        (100, [100, 1000], 4, 1, {"causal": True}),
    ],
)
def test_caches(s, keys, h, h_kv, options, d, dtype, page_rows):
    q, k, v = caches(keys, s, h=h, h_kv=h_kv, d=d, dtype=dtype)
    want, table = cached(q, k, v, keys, **options), None
    if page_rows is not None:
        k, v, table = in_pages(k, v, page_rows)
    got = warpipe.attention_with_kvcache(q, k, v, keys, table, **options, return_lse=True)
    check(got, want)
    on_gpu = torch.tensor(keys, device="cuda")
    assert torch.equal(warpipe.attention_with_kvcache(q, k, v, on_gpu, table, **options), got[0])
    out = torch.empty_like(q)
    assert warpipe.attention_with_kvcache(q, k, v, keys, table, **options, out=out) is out
    assert torch.equal(out, got[0])


def test_lengths_on_the_gpu_are_waited_for():
    q, k, v = caches([800, 400])
    want = warpipe.attention_with_kvcache(q, k, v, [800, 400])
    lengths, later = torch.zeros(2, dtype=torch.int32, device="cuda"), torch.tensor([800, 400], device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        lengths.copy_(later)
        got = warpipe.attention_with_kvcache(q, k, v, lengths)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(got, want)


def test_lengths_change_in_the_order_of_calls_on_any_stream():
    q, k, v = (normal(4, rows, h, 128, seed=i) for i, (rows, h) in enumerate([(1, 16), (4096, 2), (4096, 2)]))
    lists = [[1 + (i * 977 + b * 331) % 4096 for b in range(4)] for i in range(24)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    got = []
    for i, lengths in enumerate(lists):
        with torch.cuda.stream(streams[i % 3]):
            got.append(warpipe.attention_with_kvcache(q, k, v, lengths, return_lse=True))
    torch.cuda.synchronize()
    for lengths, results in zip(lists, got):
        check(results, cached(q, k, v, lengths))
        # A plan that was made for these lengths gives the same bits as one that they were given to.
        again = warpipe.attention_with_kvcache(q, k[:, : max(lengths)].clone(), v[:, : max(lengths)].clone(), lengths)
        assert torch.equal(results[0], again)


@pytest.mark.parametrize("paged", [False, True])
def test_a_graph_follows_its_lengths_and_nothing_else(paged):
    q, k, v = (normal(3, rows, h, 128, seed=i) for i, (rows, h) in enumerate([(1, 16), (2048, 2), (2048, 2)]))
    keys_of, table = (k, v), None
    if paged:
        *keys_of, table = in_pages(k, v, 64)
    out, lengths = torch.empty_like(q), warpipe.CacheSeqlens([5, 600, 2000])
    call = lambda lengths, out=None: warpipe.attention_with_kvcache(q, *keys_of, lengths, table, out=out)  # noqa: E731
    call(lengths)
    on_gpu = torch.tensor([1, 2, 3], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(lengths, out)
        fixed = call([7, 8, 9])
        with pytest.raises(ValueError, match="cache_seqlens is on cuda:0, and a capture can't wait"):
            call(on_gpu)
    want_fixed = call([7, 8, 9])
    for step in range(6):
        now = [5 + step, 600 + 200 * step, 2000 - 300 * step]
        lengths.set(now)
        # Calls with other lengths in between are others' business.
        call([1, 2, 3])
        out.fill_(7), fixed.fill_(7)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, call(now)) and torch.equal(fixed, want_fixed)
        close(out, cached(q, k, v, now)[0])
        if paged:
            # The block table and the queries are read by each replay.
            order = torch.randperm(3, device="cuda")
            table.copy_(table[order].clone()), q.copy_(q[order].clone())
            k, v = k[order].clone(), v[order].clone()
            want_fixed = call([7, 8, 9])


def test_graphs_and_calls_at_the_same_time():
    q, k, v = (normal(2, rows, h, 128, seed=i) for i, (rows, h) in enumerate([(1, 64), (8192, 8), (8192, 8)]))
    want = warpipe.attention_with_kvcache(q, k, v, [8000, 5000])
    plain = warpipe.attention(q, k, v)
    graphs = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = warpipe.attention_with_kvcache(q, k, v, [8000, 5000])
            few = warpipe.attention(q, k, v)
        graphs.append((graph, out, few, torch.cuda.Stream()))
    for _ in range(100):
        for graph, _, _, stream in graphs:
            with torch.cuda.stream(stream):
                graph.replay()
        mine = warpipe.attention_with_kvcache(q, k, v, [8000, 5000])
        own = warpipe.attention(q, k, v)
        torch.cuda.synchronize()
        assert torch.equal(mine, want) and torch.equal(own, plain)
        for _, out, few, _ in graphs:
            assert torch.equal(out, want) and torch.equal(few, plain)
            out.fill_(7), few.fill_(7)
        torch.cuda.synchronize()


def test_packed_sequences_in_a_graph():
    starts = [0, 100, 101, 700]
    q, k, v = (normal(700, 4, 64, seed=i) for i in range(3))
    warpipe.attention_varlen(q, k, v, starts, causal=True)
    on_gpu = torch.tensor(starts, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = warpipe.attention_varlen(q, k, v, starts, causal=True)
        with pytest.raises(ValueError, match="cu_seqlens_q is on cuda:0"):
            warpipe.attention_varlen(q, k, v, on_gpu, causal=True)
    # More lists than plans are kept: the graph's own one has to stay.
    for row in range(1, 300):
        warpipe.attention_varlen(q, k, v, [0, row, 700])
    q.mul_(-2.0)
    graph.replay()
    torch.cuda.synchronize()
    close(out, varlen(q, k, v, starts, starts, causal=True)[0])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_compiled_code_follows_the_lengths(mode, device):
    def step(q, k, v, lengths, table):
        out, lse = warpipe.attention_with_kvcache(q * 2, k, v, lengths, table, causal=True, return_lse=True)
        return out + 1, lse

    def layer(q, k, v, starts):
        return warpipe.attention_varlen(q * 2, k, v, starts, causal=True) + 1

    q, k, v = caches([1000, 1000], h=16, h_kv=2)
    k_pages, v_pages, table = in_pages(k, v, 64)
    packed = [normal(300, 4, 64, seed=i) for i in range(3)]
    torch._dynamo.reset()
    compiled = [torch.compile(f, fullgraph=True, mode=mode) for f in (step, layer)]
    for i in range(5):
        lengths = torch.tensor([1000 - i, 5 + 100 * i], dtype=torch.int32, device=device)
        for mine, theirs in zip(
            compiled[0](q, k_pages, v_pages, lengths, table), step(q, k_pages, v_pages, lengths, table)
        ):
            torch.testing.assert_close(mine, theirs)
        starts = torch.tensor([0, 10 + i, 300], dtype=torch.int32, device=device)
        torch.testing.assert_close(compiled[1](*packed, starts), layer(*packed, starts))


def test_views_are_used_in_place_or_copied():
    # K and V side by side, and heads before rows.
    q, both = normal(2, 1, 8, 64), normal(2, 256, 2, 2, 64)
    k, v = both.unbind(2)
    want = warpipe.attention_with_kvcache(q, k.contiguous(), v.contiguous(), [200, 100])
    assert torch.equal(warpipe.attention_with_kvcache(q, k, v, [200, 100]), want)
    apart = k.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    with pytest.warns(warpipe.CopyWarning, match="copies k_cache"):
        assert torch.equal(warpipe.attention_with_kvcache(q, apart, v, [200, 100]), want)
    packed = normal(3, 4, 500, 64).transpose(1, 2)
    plain = [x.contiguous() for x in packed]
    starts = torch.tensor([0, 200, 500])
    out = warpipe.attention_varlen(*packed, starts)
    assert torch.equal(out, warpipe.attention_varlen(*plain, starts))
    assert out.transpose(0, 1).is_contiguous(), "the order of q in memory"


def test_bad_calls_write_nothing():
    q, k, v = caches([100, 100], capacity=128)
    out, table = torch.full_like(q, 7.0), torch.zeros(2, 2, dtype=torch.int32, device="cuda")
    call = lambda *more, k=k, v=v: warpipe.attention_with_kvcache(q, k, v, *more, out=out)  # noqa: E731
    for error, text, bad in [
        (ValueError, r"cache_seqlens\[1\] is 129", lambda: call(torch.tensor([1, 129], device="cuda"))),
        (ValueError, "block_table is on cpu and q is on cuda:0", lambda: call(5, table.cpu())),
        (TypeError, "block_table has elements of type int64", lambda: call(5, table.long())),
        (ValueError, "numbers must be adjacent", lambda: call(5, table.t())),
        (ValueError, "multiple of the seq stride", lambda: call(5, k=odd(k), v=v)),
        (ValueError, "overlaps O", lambda: warpipe.attention_with_kvcache(k[:, :1], k, v, 5, out=v[:, 9:10])),
    ]:
        with pytest.raises(error, match=text):
            bad()
    torch.cuda.synchronize()
    assert (out == 7).all()


def odd(k):
    """The same cache with sequences that are not whole rows apart."""
    batch, rows, heads, dim = k.shape
    whole = torch.zeros(batch * rows * heads * dim + batch * 8, dtype=k.dtype, device="cuda")
    return whole.as_strided(k.shape, (rows * heads * dim + 8, heads * dim, dim, 1))


def test_the_model_and_the_gpu_agree():
    q, k, v = caches([70, 3], s=2, capacity=128, h=2, h_kv=1, d=64, dtype=F16)
    model = warpipe.attention_with_kvcache(q.cpu(), k.cpu(), v.cpu(), [70, 3], causal=True)
    torch.testing.assert_close(
        model, warpipe.attention_with_kvcache(q, k, v, [70, 3], causal=True).cpu(), rtol=2e-3, atol=1e-3
    )
