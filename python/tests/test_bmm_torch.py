"""bmm with tensors of torch, on the model and on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
def test_views_are_read_in_place(device, a_turned, b_turned):
    generator = torch.Generator().manual_seed(1)
    make = lambda *shape: torch.randn(*shape, generator=generator).to(device, torch.bfloat16)  # noqa: E731
    a = make(3, 40, 136).mT if a_turned else make(3, 136, 40)
    b = make(3, 72, 40).mT if b_turned else make(3, 40, 72)
    result = warpipe.bmm(a, b)
    right = a.double() @ b.double()
    assert (result.shape, result.dtype) == (right.shape, torch.bfloat16)
    assert torch.linalg.norm(result.double() - right) < 3e-3 * torch.linalg.norm(right)
    shared = warpipe.bmm(a, b[:1].expand(3, -1, -1))
    right = a.double() @ b[:1].double()
    assert torch.linalg.norm(shared.double() - right) < 3e-3 * torch.linalg.norm(right)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_capture_follows_a_call_on_any_stream():
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((2, 512, 256), (2, 256, 384)))
    warpipe.bmm(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # torch captures on a stream of its own.
    with torch.cuda.graph(graph):
        result = warpipe.bmm(a, b)
    a.copy_(torch.randn_like(a))
    graph.replay()
    right = a.double() @ b.double()
    assert torch.linalg.norm(result.double() - right) < 3e-3 * torch.linalg.norm(right)


@pytest.mark.parametrize("device", DEVICES)
def test_baddbmm(device):
    generator = torch.Generator().manual_seed(2)
    make = lambda *shape: torch.randn(*shape, generator=generator).to(device, torch.bfloat16)  # noqa: E731
    # Lines of odd lengths are copied.
    for m, n, k in ((136, 72, 40), (35, 71, 37)):
        a, b, c = make(3, m, k), make(3, k, n), make(3, m, n)
        result = warpipe.bmm(a, b, c, alpha=0.5, beta=-2.0)
        right = torch.baddbmm(c.double(), a.double(), b.double(), alpha=0.5, beta=-2.0)
        assert torch.linalg.norm(result.double() - right) < 3e-3 * torch.linalg.norm(right)
    assert torch.equal(warpipe.bmm(a, b, torch.full_like(c, float("nan")), beta=0.0), warpipe.bmm(a, b))


def test_what_torch_gives_and_bmm_refuses():
    a, b = torch.ones(2, 8, 0, dtype=torch.float16), torch.ones(2, 0, 8, dtype=torch.float16)
    assert warpipe.bmm(a, b).eq(0).all()
    a = torch.ones(2, 8, 8, dtype=torch.float16, requires_grad=True)
    with pytest.raises(ValueError, match="no backward pass"):
        warpipe.bmm(a, a)
