"""grouped_mm_array with tensors of torch, on the model and on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
SIZES = [(5, 16, 40), (0, 8, 64), (70, 72, 136), (1, 8, 8), (9, 0, 0)]


def operands(sizes, device="cpu"):
    problems, (of_a, of_b, of_out) = warpipe.packed_problems(sizes, device=device)
    generator = torch.Generator().manual_seed(of_a + of_b)
    values = lambda count: torch.randn(count, generator=generator).bfloat16().to(device)  # noqa: E731
    return values(of_a), values(of_b), problems, of_out


def close(result, a, b, problems):
    for m, n, k, *places in problems.tolist():
        first, pitch = places[:3], places[3:]
        matrix = lambda x, i, rows, cols: x.double().as_strided((rows, cols), (pitch[i], 1), first[i])  # noqa: E731
        right = matrix(a, 0, m, k) @ matrix(b, 1, n, k).T
        error = torch.linalg.norm(matrix(result, 2, m, n) - right)
        assert error <= 4e-3 * torch.linalg.norm(right), (m, n, k, error)


@pytest.mark.parametrize("device", DEVICES)
def test_problems_of_different_sizes(device):
    a, b, problems, size = operands(SIZES, device)
    assert (problems.dtype, problems.shape) == (torch.int64, (5, 9))
    info = torch.full((), 77, dtype=torch.int32, device=device)
    result = warpipe.grouped_mm_array(a, b, problems, output_size=size, info=info)
    assert (result.dtype, result.shape, result.device, info.item()) == (torch.bfloat16, (size,), a.device, 0)
    close(result, a, b, problems)
    problems[2, 2] = 0
    out = torch.full((size,), 3.0, dtype=torch.bfloat16, device=device)
    assert warpipe.grouped_mm_array(a, b, problems, out=out, info=info, expected=(70, 72, 136)) is out
    assert info.item() == 3
    keeps = [0, 1, 3, 4]
    close(out, a, b, problems[keeps])
    first = problems[2, 5].item()
    assert (out[first : first + 70 * 72] == 3.0).all()


def test_refusals():
    a, b, problems, size = operands(SIZES)
    with pytest.raises(TypeError, match="problems has elements of type int32; int64 or uint64 is right"):
        warpipe.grouped_mm_array(a, b, problems.int(), output_size=size)
    with pytest.raises(TypeError, match="a list among the operands; tensors of torch are right, as a is"):
        warpipe.grouped_mm_array(a, b, problems.tolist(), output_size=size)
    with pytest.raises(ValueError, match="no backward pass"):
        warpipe.grouped_mm_array(a.requires_grad_(), b, problems, output_size=size)


def test_the_operators_have_shapes_for_torch_compile():
    a, b, problems, size = operands([(5, 16, 40), (7, 8, 8)])
    ops = torch.ops.warpipe
    torch.library.opcheck(ops.grouped_mm_array.default, (a, b, problems, size, None))
    torch.library.opcheck(ops.grouped_mm_array.default, (a, b, problems, size, [5, 16, 40]))
    out, info = a.new_zeros(size), torch.zeros(1, dtype=torch.int32)
    torch.library.opcheck(ops.grouped_mm_array_out.default, (a, b, problems, out, info))
    torch.library.opcheck(ops.grouped_mm_array_out.default, (a, b, problems, out, None))


def test_compiled_code_calls_the_operators():
    a, b, problems, size = operands([(5, 16, 40), (7, 8, 8)])

    @torch.compile(fullgraph=True, backend="aot_eager")
    def twice(a, b, problems):
        out = torch.zeros(size, dtype=a.dtype)
        info = torch.ones(1, dtype=torch.int32)
        torch.ops.warpipe.grouped_mm_array_out(a, b, problems, out, info)
        return out, info, torch.ops.warpipe.grouped_mm_array(a, b, problems, size)

    out, info, result = twice(a, b, problems)
    close(out, a, b, problems)
    assert torch.equal(out, result) and info.item() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_streams_and_captures():
    sizes = [(300, 512, 128), (17, 64, 4096), (1000, 264, 72)] * 20
    a, b, problems, size = operands(sizes, "cuda")
    out, info = torch.empty(size, dtype=torch.bfloat16, device="cuda"), torch.ones(1, dtype=torch.int32, device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with pytest.raises(warpipe.Error, match="captured before a first call"), torch.cuda.graph(graph, stream=stream):
        warpipe.grouped_mm_array(a, b, problems, out=out, info=info)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        warpipe.grouped_mm_array(a, b, problems, out=out, info=info)
    stream.synchronize()
    close(out, a, b, problems)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        warpipe.grouped_mm_array(a, b, problems, out=out, info=info)
    # A replay reads the table as it is then.
    problems[0, 0] = 1 << 40
    out.zero_()
    graph.replay()
    assert info.item() == 1
    close(out, a, b, problems[1:])
