"""scaled_mm: quantised operands with scales, on the model of the SM and on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402

E4M3 = torch.float8_e4m3fn


def operands(m, n, k, scales, device="cpu"):
    generator = torch.Generator().manual_seed(m + n + k)
    a, weight = (torch.randn(rows, k, generator=generator).to(E4M3) for rows in (m, n))
    if scales == "block":
        # The scales of a block of K lie together, at multiples of 16 bytes.
        blocks, rows = -(-k // 128), -(-m // 4) * 4
        scale_a = (torch.rand(blocks, rows, generator=generator) + 0.5).to(device)[:, :m].t()
        scale_b = (torch.rand(-(-n // 128), blocks, generator=generator) + 0.5).to(device).t()
        return a.to(device), weight.to(device), scale_a, scale_b
    sizes = ((m, 1), (1, n)) if scales == "row" else ((), (1,))
    scale_a, scale_b = (torch.rand(size, generator=generator) + 0.5 for size in sizes)
    return tuple(t.to(device) for t in (a, weight, scale_a, scale_b))


def expanded(scale, *sizes):
    """Scales of a matrix of these sizes, with a block's scale once for each of its values."""
    for dim, size in enumerate(sizes if scale.dim() == 2 else ()):
        if scale.shape[dim] not in (1, size):
            scale = scale.repeat_interleave(128, dim).narrow(dim, 0, size)
    return scale


def reference(a, weight, scale_a, scale_b):
    b = weight.double().t()
    return (a.double() * expanded(scale_a, *a.shape)) @ (b * expanded(scale_b, *b.shape))


def close(result, right, eps):
    error = torch.linalg.norm(result.double() - right) / torch.linalg.norm(right)
    assert error < eps, error


@pytest.mark.parametrize("scales", ["tensor", "row"])
@pytest.mark.parametrize("fast", [False, True])
def test_products_on_the_model(scales, fast):
    a, weight, scale_a, scale_b = operands(20, 48, 272, scales)
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, use_fast_accum=fast)
    assert (result.dtype, result.shape) == (torch.bfloat16, (20, 48))
    close(result, reference(a, weight, scale_a, scale_b), 3e-3)


@pytest.mark.parametrize("shape", [(20, 48, 272), (30, 300, 400), (1, 136, 1024)])
def test_block_scales_on_the_model(shape):
    a, weight, scale_a, scale_b = operands(*shape, "block")
    right = reference(a, weight, scale_a, scale_b)
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b)
    close(result, right, 3e-3)
    # Other layouts of the scales are copied.
    assert torch.equal(warpipe.scaled_mm(a, weight.t(), scale_a.contiguous(), scale_b.contiguous()), result)
    with pytest.raises(ValueError, match="use_fast_accum is True; False, with scales of blocks, is right"):
        warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, use_fast_accum=True)


def test_out_is_written_in_place():
    a, weight, scale_a, scale_b = operands(20, 48, 272, "tensor")
    whole = torch.full((20, 64), 7.0, dtype=torch.bfloat16)
    out = whole[:, 8:56]
    assert warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, out=out) is out
    close(out, reference(a, weight, scale_a, scale_b), 3e-3)
    assert (whole[:, :8] == 7).all() and (whole[:, 56:] == 7).all()


def test_refusals_name_what_is_right():
    a, weight, scale_a, scale_b = operands(20, 48, 272, "row")
    with pytest.raises(TypeError, match="a has elements of type bfloat16; float8_e4m3fn, float8_e5m2 or int8 is right"):
        warpipe.scaled_mm(a.bfloat16(), weight.t(), scale_a, scale_b)
    with pytest.raises(ValueError, match=r"b .*its columns must have adjacent elements"):
        warpipe.scaled_mm(a, weight.t().contiguous(), scale_a, scale_b)
    with pytest.raises(ValueError, match=r"scale_a \[19, 1\]: 1 value for the whole tensor, or 20, is right, or \[20, 3\] for blocks of 128"):
        warpipe.scaled_mm(a, weight.t(), scale_a[1:], scale_b)
    with pytest.raises(TypeError, match="scale_b has elements of type bfloat16; float32 is right"):
        warpipe.scaled_mm(a, weight.t(), scale_a, scale_b.bfloat16())
    with pytest.raises(ValueError, match=r"b \[256, 48\].*must have K = 272"):
        warpipe.scaled_mm(a, weight[:, :256].t(), scale_a, scale_b)
    with pytest.raises(TypeError, match="out has elements of type float64"):
        warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, out=torch.empty(20, 48, dtype=torch.float64))
    with pytest.raises(TypeError, match="tensors of torch are right"):
        warpipe.scaled_mm([1], [2], scale_a, scale_b)


@pytest.mark.parametrize("scales, fast", [("tensor", False), ("tensor", True), ("row", False), ("row", True), ("block", False)])
@pytest.mark.parametrize("shape", [(4096, 2112, 7168), (300, 520, 1040), (128, 7168, 4096), (16, 4096, 4096), (1, 512, 64)])
def test_products_on_a_gpu(gpu, shape, scales, fast):
    a, weight, scale_a, scale_b = operands(*shape, scales, gpu)
    call = lambda out=None: warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, use_fast_accum=fast, out=out)  # noqa: E731
    result = call()
    close(result, reference(a, weight, scale_a, scale_b), 5e-3 if fast else 3e-3)
    graph, out = torch.cuda.CUDAGraph(), torch.zeros_like(result)
    with torch.cuda.graph(graph):
        call(out)
    for _ in range(3):
        out.zero_()
        graph.replay()
        assert torch.equal(out, result)
