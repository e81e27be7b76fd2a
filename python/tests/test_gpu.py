"""CUDA tensors of torch: results, streams, graphs, exceptions. Needs a Hopper GPU."""

import threading
import time
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402
import warpipe.torch  # noqa: E402, F401

pytestmark = pytest.mark.usefixtures("gpu")
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def normal(*shape, dtype=BF16, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, device="cuda").to(dtype)


def close(result, reference):
    """Rounding of each element, and, for a float32 result, of the tensor cores' sums."""
    eps = {BF16: 2.0**-8, F16: 2.0**-11, F32: 2.0**-23}[result.dtype]
    assert result.shape == reference.shape and result.isfinite().all()
    if reference.numel() == 0:
        return
    scale = reference.abs().max().item()
    sums = 2.0**-13 if result.dtype == F32 else eps / 16
    torch.testing.assert_close(result.double(), reference, rtol=eps, atol=sums * scale + 1e-30)
    error = (torch.linalg.norm(result.double() - reference) / max(torch.linalg.norm(reference).item(), 1e-300)).item()
    assert error < {BF16: 4e-3, F16: 5e-4, F32: 4e-5}[result.dtype], error


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("out_dtype", [None, F32])
@pytest.mark.parametrize(
    "shape", [(1, 8, 64), (16, 4096, 4096), (128, 128, 16384), (512, 512, 512), (2048, 2048, 2048), (1000, 1000, 1000)]
)
def test_results(shape, dtype, out_dtype):
    m, n, k = shape
    x, w = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype, seed=1)
    y = warpipe.linear(x, w, out_dtype=out_dtype)
    assert y.dtype == (out_dtype or dtype) and y.is_contiguous()
    close(y, x.double() @ w.double().t())
    assert torch.equal(y, warpipe.matmul(x, w.t(), out_dtype=out_dtype))


def test_odd_sizes_and_pitches():
    # Rows that are no multiple of 16 bytes.
    for m, n, k in [(33, 41, 77), (5, 8, 3), (64, 1, 64), (1, 1, 1), (64, 64, 0), (0, 8, 16)]:
        x, w = normal(m, k), normal(n, k, seed=1)
        close(warpipe.linear(x, w), x.double() @ w.double().t())
    # Columns of a wider matrix, in place.
    wide = normal(128, 1024)
    x, w = wide[:, 256:512], normal(64, 512, seed=1)[:, :256]
    target = torch.full((128, 200), 7.0, dtype=BF16, device="cuda")
    out = target[:, 64:128]
    warpipe.linear(x, w, out=out)
    close(out, x.double() @ w.double().t())
    assert (target[:, :64] == 7).all() and (target[:, 128:] == 7).all()


def test_batches_of_one_and_leading_dimensions():
    x, w = normal(1, 4, 32, 128), normal(64, 128, seed=1)
    y = warpipe.matmul(x, w.t())
    assert y.shape == (1, 4, 32, 64)
    close(y, x.double() @ w.double().t())
    assert warpipe.matmul(x[0, 0], w.t()[None]).shape == (1, 32, 64)
    assert warpipe.linear(x[0, 0, 0], w).shape == (64,)


def test_c_alpha_and_beta():
    x, w = normal(256, 512), normal(384, 512, seed=1)
    product = x.double() @ w.double().t()
    for dtype in (BF16, F32):
        c = normal(256, 384, dtype=dtype, seed=2)
        close(warpipe.linear(x, w, c), product + c.double())
        close(warpipe.linear(x, w, c, alpha=0.5, beta=-2.0), 0.5 * product - 2.0 * c.double())
        c.fill_(float("nan"))
        close(warpipe.linear(x, w, c, beta=0.0), product)


def test_a_row_major_b_is_read_as_it_lies():
    a, b = normal(64, 128), normal(128, 96, seed=1)
    want = a.double() @ b.double()
    turned = a.t().contiguous().t()
    with warnings.catch_warnings():
        warnings.simplefilter("error", warpipe.CopyWarning)
        close(warpipe.matmul(a, b), want)
        close(warpipe.matmul(turned, b), want)
        close(warpipe.matmul(turned, b.t().contiguous().t()), want)
        close(warpipe.linear(a, b.t()), want)
        close(warpipe.matmul(a.view(2, 32, 128), b), want.view(2, 32, 96))
        out = torch.empty(64, 96, dtype=BF16, device="cuda")
        assert warpipe.matmul(a, b, out=out) is out
        close(out, want)


def test_a_row_major_b_is_read_in_place_beside_c_and_copied_with_a_warning_if_its_rows_are_odd():
    a, b, c = normal(64, 128), normal(128, 96, seed=1), normal(64, 96, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", warpipe.CopyWarning)
        result = warpipe.matmul(a, b, c)
    close(result, a.double() @ b.double() + c.double())
    # Rows 200 bytes apart.
    odd = normal(128, 100, seed=3)
    with pytest.warns(warpipe.CopyWarning, match=r"copies b \[128, 100\] with strides \[100, 1\]"):
        result = warpipe.matmul(a, odd)
    close(result, a.double() @ odd.double())


def test_it_agrees_with_torch_in_a_network():
    torch.manual_seed(0)
    layer = torch.nn.Linear(512, 256, bias=False, device="cuda", dtype=BF16)
    x = normal(64, 512).requires_grad_()
    warpipe.linear(x, layer.weight).float().square().sum().backward()
    ours = x.grad.clone(), layer.weight.grad.clone()
    x.grad = layer.weight.grad = None
    layer(x).float().square().sum().backward()
    for mine, theirs in zip(ours, (x.grad, layer.weight.grad)):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item())


def test_it_runs_on_the_current_stream():
    x, w = normal(2048, 2048), normal(2048, 2048, seed=1)
    want = warpipe.linear(x, w)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # The operand is ready only after a while on this stream.
        torch.cuda._sleep(50_000_000)
        late = x.clone()
        got = warpipe.linear(late, w)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(got, want)


def test_streams_and_threads_do_not_disturb_each_other():
    # 128 x 128 x 16384 splits tiles along K, so its runs have workspaces.
    shapes = [(128, 128, 16384), (512, 512, 512), (16, 4096, 4096)]
    tensors = [(normal(m, k), normal(n, k, seed=1)) for m, n, k in shapes]
    wants = [warpipe.linear(x, w) for x, w in tensors]
    torch.cuda.synchronize()
    failures = []

    def work(i):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for j in range(200):
                (x, w), want = tensors[(i + j) % 3], wants[(i + j) % 3]
                if not torch.equal(warpipe.linear(x, w), want):
                    failures.append((i, j))
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


@pytest.mark.parametrize("shape", [(512, 512, 512), (128, 128, 16384), (16, 4096, 4096), (33, 41, 77)])
def test_cuda_graphs(shape):
    m, n, k = shape
    x, w = normal(m, k), normal(n, k, seed=1)
    out = torch.empty(m, n, dtype=BF16, device="cuda")
    want = warpipe.linear(x, w)  # loads the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = warpipe.linear(x, w)
        warpipe.linear(x, w, out=out)
        z = y + out
    for factor in (1.0, -2.0):
        x.mul_(factor)
        y.fill_(7), out.fill_(7)
        graph.replay()
        torch.cuda.synchronize()
        want = warpipe.linear(x, w)
        assert torch.equal(y, want) and torch.equal(out, want) and torch.equal(z, want + want)
    # Two graphs and eager calls at the same time: each has its own workspaces.
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second):
        other = warpipe.linear(x, w)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(200):
        for s, g in zip(streams, (graph, second)):
            with torch.cuda.stream(s):
                g.replay()
        eager = warpipe.linear(x, w)
    torch.cuda.synchronize()
    assert torch.equal(y, want) and torch.equal(other, want) and torch.equal(eager, want)


def test_a_capture_without_a_warm_up():
    x, w = normal(72, 1088), normal(328, 1088, seed=1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = warpipe.linear(x, w)
    graph.replay()
    close(y, x.double() @ w.double().t())


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_code_has_one_graph(mode):
    w = normal(1024, 1024, seed=1)

    def layer(x):
        return torch.relu(warpipe.linear(x + 1, w)) * 2

    compiled = torch.compile(layer, fullgraph=True, mode=mode)
    x = normal(256, 1024)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), layer(x))


def test_bad_calls_write_nothing():
    x, w = normal(64, 128), normal(32, 128, seed=1)
    out = torch.full((64, 32), 7.0, dtype=BF16, device="cuda")
    flat = torch.zeros(64 * 128 + 8, dtype=BF16, device="cuda")
    for error, text, call in [
        (TypeError, "x has elements of type float32", lambda: warpipe.linear(x.float(), w, out=out)),
        (TypeError, "weight has elements of type float16", lambda: warpipe.linear(x, w.half(), out=out)),
        (ValueError, "weight is on cpu and x is on cuda:0", lambda: warpipe.linear(x, w.cpu(), out=out)),
        (ValueError, "out is on cpu", lambda: warpipe.linear(x, w, out=out.cpu())),
        (ValueError, "past a multiple of 16", lambda: warpipe.linear(flat[1 : 1 + 64 * 128].view(64, 128), w, out=out)),
        (ValueError, "its elements overlap", lambda: warpipe.linear(x[:1].expand(64, 128), w, out=out)),
        (ValueError, "overlap x", lambda: warpipe.linear(x, w, out=x[:, :32])),
        (ValueError, "K = 128, not 127", lambda: warpipe.linear(x, w[:, :127], out=out)),
        (ValueError, r"\[64, 32\]", lambda: warpipe.linear(x, w, out=out[:63])),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            call()
    torch.cuda.synchronize()
    assert (out == 7).all() and x.isfinite().all()


def test_another_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    x, w = normal(64, 128), normal(32, 128, seed=1)
    with pytest.raises(ValueError, match="weight is on cuda:1"):
        warpipe.linear(x, w.to("cuda:1"))
    there = warpipe.linear(x.to("cuda:1"), w.to("cuda:1"))
    assert there.device.index == 1
    assert torch.equal(there.cpu(), warpipe.linear(x, w).cpu())


def test_a_cuda_array_without_torchs_fast_path():
    class Array:
        """What numba shows of an array."""

        def __init__(self, tensor):
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    x, w = normal(64, 128, dtype=F16), normal(32, 128, dtype=F16, seed=1)
    out = torch.zeros(64, 32, dtype=F16, device="cuda")
    torch.cuda.synchronize()
    warpipe.linear(Array(x), Array(w), out=Array(out))
    torch.cuda.synchronize()
    assert torch.equal(out, warpipe.linear(x, w))


def test_a_call_costs_little_more_than_torchs():
    """The bar is 3 us more than torch.matmul; on a busy machine a retry may be needed, so the best of five counts."""
    x, w = normal(64, 64), normal(64, 64, seed=1).t()

    def cost(f):
        f(x, w)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(2000):
            f(x, w)
        host = time.perf_counter() - start
        torch.cuda.synchronize()
        return host / 2000 * 1e6

    pairs = [(cost(torch.matmul), cost(warpipe.matmul)) for _ in range(5)]
    print("us per call, torch and warpipe:", pairs)
    assert min(ours - theirs for theirs, ours in pairs) < 3.0


def test_many_shapes_do_not_fill_the_memory():
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for i in range(600):
        x, w = normal(16 + i, 64), normal(64, 64, seed=1)
        y = warpipe.linear(x, w)
    close(y, x.double() @ w.double().t())
    assert free - torch.cuda.mem_get_info()[0] < 4 << 30


def test_host_arrays_still_go_to_the_model():
    x, w = normal(20, 64, dtype=F16), normal(24, 64, dtype=F16, seed=1)
    model = warpipe.linear(x.cpu(), w.cpu(), out_dtype=F32)
    torch.testing.assert_close(model, warpipe.linear(x, w, out_dtype=F32).cpu(), rtol=1e-5, atol=1e-4)
