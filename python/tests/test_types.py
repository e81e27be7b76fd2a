"""The GEMM's other types: e5m2, results of e4m3, int8, and float32 as tf32, on the model of the SM and on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import warpipe  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def operands(m, n, k, types, device):
    generator = torch.Generator().manual_seed(m + n + k)
    values = (torch.randn(rows, k, generator=generator) for rows in (m, n))
    a, weight = (x.to(dtype) for x, dtype in zip(values, types))
    scale_a, scale_b = (torch.rand(size, generator=generator) + 0.5 for size in ((m, 1), (1, n)))
    return tuple(x.to(device) for x in (a, weight, scale_a, scale_b))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("types", [(E5M2, E4M3), (E4M3, E5M2), (E5M2, E5M2)])
def test_e5m2(types, fast, device):
    a, weight, scale_a, scale_b = operands(20, 48, 272, types, device)
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, use_fast_accum=fast)
    right = (a.double() * scale_a) @ (weight.double().t() * scale_b)
    assert torch.linalg.norm(result.double() - right) < 4e-3 * torch.linalg.norm(right)


@pytest.mark.parametrize("device", DEVICES)
def test_results_of_e4m3(device):
    a, weight, scale_a, scale_b = operands(20, 48, 272, (E4M3, E4M3), device)
    scale, amax = torch.tensor(2.0, device=device), torch.zeros((), device=device)
    more = {"scale_result": scale, "amax": amax, "out_dtype": E4M3}
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, **more)
    right = (a.double() * scale_a) @ (weight.double().t() * scale_b)
    assert result.dtype == E4M3
    assert abs(amax.item() - right.abs().max().item()) < 1e-3 * amax.item()
    error = torch.linalg.norm(result.double() - (2 * right).clamp(-448, 448)) / torch.linalg.norm(2 * right)
    assert error < 5e-2
    with pytest.raises(TypeError, match="scale_result and amax"):
        warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, amax=amax)


@pytest.mark.parametrize("device", DEVICES)
def test_int8(device):
    a, weight = (torch.randint(-128, 128, (rows, 272), dtype=torch.int8).to(device) for rows in (20, 48))
    exact = a.cpu().long() @ weight.cpu().long().t()
    assert torch.equal(warpipe.int_mm(a, weight.t()).cpu().long(), exact)
    scale_a, scale_b = torch.rand(20, 1, device=device) + 0.5, torch.rand(1, 48, device=device) + 0.5
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b).cpu().double()
    right = exact.double() * scale_a.cpu() * scale_b.cpu()
    assert torch.linalg.norm(result - right) < 4e-3 * torch.linalg.norm(right)


@pytest.mark.parametrize("device", DEVICES)
def test_tf32(device):
    a, b = torch.randn(20, 72).to(device), torch.randn(72, 48).to(device)
    with pytest.warns(warpipe.CopyWarning, match="b"):
        result = warpipe.matmul(a, b, allow_tf32=True)
    right = a.double() @ b.double()
    assert torch.linalg.norm(result.double() - right) < 1e-3 * torch.linalg.norm(right)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "silu", "gelu", "gelu-tanh"])
def test_bias_and_activation(device, fast, activation):
    a, weight, scale_a, scale_b = operands(20, 48, 272, (E4M3, E4M3), device)
    bias = torch.randn(48, generator=torch.Generator().manual_seed(3)).to(device, torch.bfloat16)
    layer = {"bias": bias, "activation": activation, "use_fast_accum": fast}
    result = warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, **layer)
    right = (a.double() * scale_a) @ (weight.double().t() * scale_b) + bias.double()
    functions = {
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "gelu-tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }
    right = functions[activation](right) if activation else right
    assert torch.linalg.norm(result.double() - right) < (1e-2 if fast else 4e-3) * torch.linalg.norm(right)


def test_what_a_layer_refuses():
    a, weight, scale_a, scale_b = operands(20, 48, 272, (E4M3, E4M3), "cpu")
    bias = torch.zeros(48, dtype=torch.bfloat16)
    call = lambda **more: warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, **more)  # noqa: E731
    with pytest.raises(ValueError, match="48 values are right, one for each column"):
        call(bias=bias[1:])
    with pytest.raises(TypeError, match="bias has elements of type float32; bfloat16"):
        call(bias=bias.float())
    with pytest.raises(ValueError, match='activation is "tanh"; None, relu, silu, gelu or gelu-tanh is right'):
        call(activation="tanh")
    with pytest.raises(TypeError, match="bias and activation are for a and b of float8_e4m3fn and results of bfloat16"):
        call(bias=bias, out_dtype=torch.float32)


def test_what_is_written_lies_apart():
    a, weight, scale_a, scale_b = operands(20, 48, 272, (E4M3, E4M3), "cpu")
    whole, one = torch.zeros(20, 48, dtype=torch.bfloat16), torch.ones(())
    call = lambda **more: warpipe.scaled_mm(a, weight.t(), scale_a, scale_b, **more)  # noqa: E731
    with pytest.raises(ValueError, match="overlap bias at"):
        call(bias=whole[0], out=whole)
    with pytest.raises(ValueError, match="its memory is that of an operand"):
        call(scale_result=one, amax=one, out_dtype=E4M3)
