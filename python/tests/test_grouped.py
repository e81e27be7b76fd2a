"""grouped_mm: groups of rows with a matrix of their own, on the model of the SM and on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402


def operands(sizes, n, k, device="cpu"):
    generator = torch.Generator().manual_seed(sum(sizes) + n + k)
    a = torch.randn(sum(sizes), k, generator=generator).bfloat16()
    weight = torch.randn(len(sizes), n, k, generator=generator).bfloat16()
    offs = torch.tensor(sizes).cumsum(0).to(torch.int32)
    return a.to(device), weight.to(device).transpose(1, 2), offs.to(device)


def reference(a, b, offs):
    begin, parts = 0, []
    for of_group, end in zip(b.double(), offs.tolist()):
        parts.append(a[begin:end].double() @ of_group)
        begin = end
    return torch.cat(parts)


def close(result, right):
    error = torch.linalg.norm(result.double() - right) / torch.linalg.norm(right)
    assert error < 4e-3, error


@pytest.mark.parametrize("sizes", [(5, 0, 30, 1), (0, 9), (70, 3, 0)])
def test_groups_on_the_model(sizes):
    a, b, offs = operands(sizes, 72, 136)
    result = warpipe.grouped_mm(a, b, offs)
    assert (result.dtype, result.shape) == (torch.bfloat16, (sum(sizes), 72))
    close(result, reference(a, b, offs))


def test_rows_behind_the_last_group_keep_what_they_have():
    a, b, offs = operands((5, 12), 24, 64)
    offs[-1] = 10
    out = torch.full((17, 24), 3.0, dtype=torch.bfloat16)
    assert warpipe.grouped_mm(a, b, offs, out=out) is out
    close(out[:10], reference(a[:10], b, offs))
    assert (out[10:] == 3.0).all()


def test_refusals():
    a, b, offs = operands((5, 12), 24, 64)
    with pytest.raises(TypeError, match="offs has elements of type int64; int32 is right"):
        warpipe.grouped_mm(a, b, offs.long())
    with pytest.raises(ValueError, match=r"weight.transpose\(1, 2\) of a contiguous weight"):
        warpipe.grouped_mm(a, b.contiguous(), offs)
    with pytest.raises(ValueError, match="one end for each group"):
        warpipe.grouped_mm(a, b, offs[:1])
    with pytest.raises(ValueError, match="N = 20 of 2 bytes; it must be a multiple of 8"):
        warpipe.grouped_mm(*operands((5, 12), 20, 64))
    with pytest.raises(ValueError, match="no backward pass"):
        warpipe.grouped_mm(a.requires_grad_(), b, offs)


def test_the_operator_has_shapes_for_torch_compile():
    a, b, offs = operands((5, 12), 24, 64)
    torch.library.opcheck(torch.ops.warpipe.grouped_mm.default, (a, b, offs))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("sizes", [(5, 0, 300, 1), (64,) * 40, (1000, 3, 0, 2000)])
def test_groups_on_a_gpu(sizes):
    a, b, offs = operands(sizes, 1032, 520, "cuda")
    result = warpipe.grouped_mm(a, b, offs)
    close(result, reference(a, b, offs))
    # A captured product takes other groups when it is replayed.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = warpipe.grouped_mm(a, b, offs)
    offs.copy_(torch.linspace(0, a.shape[0], len(sizes)).to(torch.int32))
    offs[-1] = a.shape[0]
    graph.replay()
    close(captured, reference(a, b, offs))
