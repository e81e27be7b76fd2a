"""torch's operators ``warpipe::matmul`` and ``warpipe::linear``, and those of attention.

Importing this module registers them, with shapes for ``torch.compile`` and formulas for autograd. Calls of
``warpipe.matmul`` in compiled code become these operators; in eager code they run directly, unless a gradient is
recorded or a tensor subclass is involved. Attention is in ``_torch_attention``, pointer arrays are in ``_torch_array``.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _native
from ._dispatch import _GATES, _bmm_shape, dtype_name, warn_copy

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def _zeros(nbytes: int, device: int) -> tuple[int, Tensor]:
    """Zeroed memory of torch's allocator, on the current stream. In a capture it is the graph's own."""
    memory = torch.zeros(nbytes, dtype=torch.uint8, device=f"cuda:{device}")
    return memory.data_ptr(), memory


def _empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(sizes, strides, dtype=dtype, device="cuda")


#: Whether calls with CUDA tensors run without Python.
FAST: bool = _native.register_torch(
    torch.Tensor,
    torch.nn.Parameter,
    torch.is_grad_enabled,
    torch._C._len_torch_dispatch_stack,
    # What compiled code of inductor allocates with: four times as fast as torch.empty.
    getattr(torch._C._dynamo.guards, "_empty_strided_cuda", _empty),
    _zeros,
    [torch.float16, torch.bfloat16, torch.float32],
)


def _stream(tensor: Tensor) -> int:
    return torch.cuda.current_stream(tensor.device).cuda_stream


def _eager(
    op: str,
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: Optional[float],
    out: Optional[Tensor],
    out_dtype: Optional[torch.dtype],
    check: Any = None,
) -> Tensor:
    """Computes a product of plain tensors, with copies where they are needed."""
    if check is None:
        done = _native.fast(op, a, b, c, alpha, beta, out, out_dtype)
        if done is not None:
            return done
    a, b = a.detach(), b.detach()
    c = None if c is None else c.detach()
    name = dtype_name(out_dtype)
    shape, element, place, copies = _native.describe(op, a, b, c, beta, out, name, check)
    if any(copies[:2]) and _DTYPES[element] == a.dtype:
        factors = (alpha, 1.0 if beta is None else beta)
        done = _as_they_lie(a, b if op == "matmul" else b.mT, c, factors, shape, out)
        if done is not None:
            return done
    if copies[0]:
        warn_copy("a" if op == "matmul" else "x", a, 5)
        a = a.contiguous()
    if copies[1]:
        warn_copy("b" if op == "matmul" else "weight", b, 5)
        b = b.mT.contiguous().mT if op == "matmul" else b.contiguous()
    if copies[2]:
        warn_copy("c", c, 5)
        c = c.contiguous()
    result = torch.empty(shape, dtype=_DTYPES[element], device=a.device) if out is None else out
    if place == "cpu":
        _native.run(op, a, b, c, alpha, beta, result, 0, None)
    else:
        index = a.device.index
        with torch.cuda.device(index):
            zeros = lambda nbytes: _zeros(nbytes, index)  # noqa: E731
            _native.run(op, a, b, c, alpha, beta, result, _stream(a), zeros)
    return result


def _as_they_lie(
    a: Tensor, b: Tensor, c: Optional[Tensor], factors: tuple[float, float], shape: list[int], out: Optional[Tensor]
) -> Optional[Tensor]:
    """The product of a matrix ``b`` by ``bmm``, which also reads matrices whose columns lie in memory; ``None`` if not these."""
    if a.dim() < 2 or b.dim() != 2:
        return None
    if c is not None and (list(c.shape) != list(shape) or c.dtype != a.dtype or not c.is_contiguous()):
        return None
    if a.dim() > 2:
        if not a.is_contiguous():
            return None
        a = a.view(-1, a.shape[-1])
    result = torch.empty(shape, dtype=a.dtype, device=a.device) if out is None else out
    if not result.is_contiguous() or result.numel() == 0:
        return None
    matrix = result.view(-1, b.shape[-1])
    c = None if c is None else c.view(-1, b.shape[-1])
    if not all(_tma_reads(x) for x in (a, b, matrix, c) if x is not None):
        return None
    _bmm(a, b, c, *factors, matrix)
    return result


def _tma_reads(x: Tensor) -> bool:
    """Whether a matrix lies in lines of adjacent elements, all of which begin at multiples of 16 bytes."""
    rows, columns = x.stride()
    pitch = rows if columns == 1 else columns if rows == 1 else 0
    line = x.shape[1] if columns == 1 else x.shape[0]
    return x.numel() > 0 and pitch >= line and pitch * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0


def _typed(
    a: Tensor,
    b: Tensor,
    scales: list[Optional[Tensor]],
    out: Tensor,
    types: tuple[str, str, str],
    use_fast_accum: bool = False,
    activation: Optional[str] = None,
) -> Tensor:
    """Computes a product in these types. 8-bit floats go as bytes."""
    small = (torch.float8_e4m3fn, torch.float8_e5m2)
    plain = lambda x: x.detach().view(torch.uint8) if x.dtype in small else x.detach()  # noqa: E731
    values = [None if x is None else x.detach() for x in scales]
    operands = (plain(a), plain(b), values, plain(out), types, use_fast_accum, activation)
    if a.device.type != "cuda":
        _native.typed_mm(*operands, 0)
        return out
    with torch.cuda.device(a.device.index):
        _native.typed_mm(*operands, _stream(a))
    return out


def _int_mm(a: Tensor, b: Tensor, out: Optional[Tensor]) -> Tensor:
    """Computes a product of int8."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype != torch.int8:
            raise TypeError(f"{name} has elements of type {dtype_name(tensor.dtype)}; int8 is right")
    if out is None:
        out = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=torch.int32, device=a.device)
    return _typed(a, b, [None] * 4, out, ("int8", "int8", "int32"))


def _tf32_matmul(a: Tensor, b: Tensor, out: Optional[Tensor]) -> Tensor:
    """Computes a product of float32 in tf32. Operands in other layouts are copied."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise ValueError("matmul with allow_tf32 has no backward pass: call it under torch.no_grad()")
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype != torch.float32:
            raise TypeError(f"{name} has elements of type {dtype_name(tensor.dtype)}; float32 is right with allow_tf32")
        if tensor.dim() != 2:
            raise ValueError(f"{name} has {tensor.dim()} dimensions; 2 are right with allow_tf32")
    if a.stride(-1) != 1 and a.shape[-1] > 1:
        warn_copy("a", a, 5)
        a = a.contiguous()
    if b.stride(0) != 1 and b.shape[0] > 1:
        warn_copy("b", b, 5)
        b = b.mT.contiguous().mT
    if out is None:
        out = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float32, device=a.device)
    return _typed(a, b, [None] * 4, out, ("tf32", "tf32", "float32"))


def _scaled_mm(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    scale_result: Optional[Tensor],
    amax: Optional[Tensor],
    layer: tuple[Optional[Tensor], Optional[str]],
    out_dtype: Optional[torch.dtype],
    use_fast_accum: bool,
    out: Optional[Tensor],
) -> Tensor:
    """Computes a product of quantised tensors."""
    small = (torch.float8_e4m3fn, torch.float8_e5m2)
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in (*small, torch.int8):
            have = dtype_name(tensor.dtype)
            raise TypeError(f"{name} has elements of type {have}; float8_e4m3fn, float8_e5m2 or int8 is right")
    if (a.dtype == torch.int8) != (b.dtype == torch.int8):
        raise TypeError(f"a is {dtype_name(a.dtype)} and b is {dtype_name(b.dtype)}; int8 is multiplied by int8")
    if out is None:
        sizes = (*a.shape[:-1], b.shape[-1])
        out = torch.empty(sizes, dtype=out_dtype or torch.bfloat16, device=a.device)
    elif out_dtype is not None and out.dtype != out_dtype:
        raise TypeError(f"out has elements of type {dtype_name(out.dtype)}; {dtype_name(out_dtype)}, the out_dtype, is right")
    both = a.dtype == b.dtype == torch.float8_e4m3fn
    quantised = both and out.dtype == torch.float8_e4m3fn
    if not quantised and (scale_result is not None or amax is not None):
        raise TypeError("scale_result and amax are for a and b of float8_e4m3fn and results of float8_e4m3fn")
    bias, activation = layer
    if bias is not None or activation is not None:
        if not both or out.dtype != torch.bfloat16:
            raise TypeError("bias and activation are for a and b of float8_e4m3fn and results of bfloat16")
        types = (dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(out.dtype))
        return _typed(a, b, [scale_a, scale_b, None, None, bias], out, types, use_fast_accum, activation)
    if quantised or not both:
        if not quantised and out.dtype != torch.bfloat16:
            raise TypeError(f"out has elements of type {dtype_name(out.dtype)}; bfloat16 is right for these operands")
        if a.dtype == torch.int8 and use_fast_accum:
            raise ValueError("use_fast_accum is True; sums of int8 are exact, so False is right")
        types = (dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(out.dtype))
        return _typed(a, b, [scale_a, scale_b, scale_result, amax], out, types, use_fast_accum)
    bytes_of = lambda tensor: tensor.detach().view(torch.uint8)  # noqa: E731
    scale_a, scale_b = _block_scales(a.shape[-1], scale_a.detach(), scale_b.detach())
    operands = (bytes_of(a), bytes_of(b), scale_a, scale_b, out)
    if a.device.type != "cuda":
        _native.scaled_mm(*operands, use_fast_accum, 0, None)
        return out
    index = a.device.index
    with torch.cuda.device(index):
        zeros = lambda nbytes: _zeros(nbytes, index)  # noqa: E731
        _native.scaled_mm(*operands, use_fast_accum, _stream(a), zeros)
    return out


def _bmm(a: Tensor, b: Tensor, c: Optional[Tensor], alpha: float, beta: float, out: Optional[Tensor]) -> Tensor:
    """Computes products of batches of matrices."""
    c = c if beta else None
    for name, tensor in (("b", b), ("c", c)):
        if not isinstance(tensor, Tensor) and (name == "b" or tensor is not None):
            raise TypeError(f"{name} is a {type(tensor).__name__}; a tensor of torch is needed, as a is")
    if torch.is_grad_enabled() and any(x.requires_grad for x in (a, b, c) if x is not None):
        raise ValueError("bmm has no backward pass: call it under torch.no_grad(), or with detached tensors")
    if out is None:
        out = torch.empty(_bmm_shape(a.shape, b.shape), dtype=a.dtype, device=a.device)
    operands = (a.detach(), b.detach(), None if c is None else c.detach(), (alpha, beta), out)
    if a.device.type != "cuda":
        _native.bmm(*operands, 0)
        return out
    with torch.cuda.device(a.device.index):
        _native.bmm(*operands, _stream(a))
    return out


def _block_scales(k: int, scale_a: Tensor, scale_b: Tensor) -> tuple[Tensor, Tensor]:
    """Scales of blocks in the layout that the kernels read: one in another layout is copied. Others as they are."""
    blocks = -(-k // 128)
    if blocks < 2 or scale_a.dim() != 2 or scale_b.dim() != 2:
        return scale_a, scale_b
    rows = scale_a.shape[0]
    if scale_a.shape[1] == blocks and rows > 0:
        adjacent = rows == 1 or scale_a.stride(0) == 1
        if not adjacent or scale_a.stride(1) % 4 or scale_a.stride(1) < rows or scale_a.data_ptr() % 16:
            # TMA reads the scales of a block of K from a multiple of 16 bytes.
            padded = scale_a.new_empty(blocks, -(-rows // 4) * 4)
            scale_a = padded[:, :rows].copy_(scale_a.t()).t()
        if scale_b.shape[0] == blocks and (scale_b.stride(0) != 1 or scale_b.stride(1) < blocks):
            scale_b = scale_b.t().contiguous().t()
    return scale_a, scale_b


def _fused_eager(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    residual: Optional[Tensor],
    activation: Optional[str],
    out: Optional[Tensor],
) -> Tensor:
    """Computes a layer of plain tensors."""
    if out is None:
        columns = weight.shape[0] // 2 if activation in _GATES else weight.shape[0]
        out = torch.empty((*x.shape[:-1], columns), dtype=x.dtype, device=x.device)
    plain = lambda tensor: None if tensor is None else tensor.detach()  # noqa: E731
    operands = (plain(x), plain(weight), plain(bias), plain(residual), out)
    if x.device.type != "cuda":
        _native.fused_linear(*operands, activation, 0, None)
        return out
    index = x.device.index
    with torch.cuda.device(index):
        zeros = lambda nbytes: _zeros(nbytes, index)  # noqa: E731
        _native.fused_linear(*operands, activation, _stream(x), zeros)
    return out


def _grouped_eager(a: Tensor, b: Tensor, offs: Tensor, out: Optional[Tensor]) -> Tensor:
    """Computes a grouped product of plain tensors."""
    if out is None:
        out = torch.empty((a.shape[0], b.shape[-1]), dtype=a.dtype, device=a.device)
    operands = (a.detach(), b.detach(), offs, out)
    if a.device.type != "cuda":
        _native.grouped_mm(*operands, 0)
        return out
    with torch.cuda.device(a.device.index):
        _native.grouped_mm(*operands, _stream(a))
    return out


@torch.library.custom_op("warpipe::grouped_mm", mutates_args=())
def _grouped_mm_op(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    return _grouped_eager(a, b, offs, None)


@_grouped_mm_op.register_fake
def _(a, b, offs):
    torch._check(a.dim() == 2 and b.dim() == 3, lambda: f"grouped_mm: operands of {a.dim()} and {b.dim()} dimensions")
    torch._check(a.dtype == b.dtype, lambda: f"grouped_mm: operands of {a.dtype} and {b.dtype}")
    torch._check(a.shape[1] == b.shape[1], lambda: f"grouped_mm: K is {a.shape[1]} in a and {b.shape[1]} in b")
    torch._check(offs.shape[0] == b.shape[0], lambda: f"grouped_mm: {offs.shape[0]} ends of {b.shape[0]} groups")
    return a.new_empty([a.shape[0], b.shape[2]])


def _grouped_mm(a: Any, b: Any, offs: Any, out: Any) -> Tensor:
    for tensor in (b, offs):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a {type(tensor).__name__} among the operands; tensors of torch are right, as a is")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (a, b)):
        raise ValueError("grouped_mm has no backward pass: call it under torch.no_grad()")
    if out is None and torch._C._len_torch_dispatch_stack() > 0:
        return _grouped_mm_op(a, b, offs)
    return _grouped_eager(a, b, offs, out)


@torch.library.custom_op("warpipe::fused_linear", mutates_args=())
def _fused_linear_op(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    residual: Optional[Tensor],
    activation: Optional[str],
) -> Tensor:
    return _fused_eager(x, weight, bias, residual, activation, None)


@_fused_linear_op.register_fake
def _(x, weight, bias, residual, activation):
    torch._check(x.dtype == weight.dtype, lambda: f"fused_linear: operands of {x.dtype} and {weight.dtype}")
    *rows, n = _shape("linear", x, weight)
    return x.new_empty([*rows, n // 2 if activation in _GATES else n])


def _fused_linear(
    x: Any, weight: Any, bias: Any, residual: Any, activation: Optional[str], out: Any
) -> Tensor:
    tensors = [t for t in (x, weight, bias, residual) if t is not None]
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a {type(tensor).__name__} among the operands; tensors of torch are right, as x is")
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ValueError("fused_linear has no backward pass: call it under torch.no_grad()")
    if out is None and torch._C._len_torch_dispatch_stack() > 0:
        return _fused_linear_op(x, weight, bias, residual, activation)
    return _fused_eager(x, weight, bias, residual, activation, out)


def _shape(op: str, a: Tensor, b: Tensor) -> list[Any]:
    """The result's shape, which may be symbolic."""
    torch._check(a.dim() >= 1, lambda: f"{op}: the first operand has no dimensions")
    if op == "linear":
        torch._check(b.dim() == 2, lambda: f"linear: weight has {b.dim()} dimensions; 2 are needed")
        n, k, batch = b.shape[0], b.shape[1], []
    else:
        torch._check(b.dim() >= 2, lambda: f"matmul: b has {b.dim()} dimensions; at least 2 are needed")
        k, n = b.shape[-2:]
        batch = [1] * max(0, (b.dim() - 2) - max(0, a.dim() - 2))
    torch._check(a.shape[-1] == k, lambda: f"{op}: K is {a.shape[-1]} and {k}")
    return [*batch, *a.shape[:-1], n]


def _fake(op: str, a: Tensor, b: Tensor, c: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Tensor:
    torch._check(a.dtype == b.dtype, lambda: f"{op}: operands of {a.dtype} and {b.dtype}")
    torch._check_type(
        a.dtype in (torch.float16, torch.bfloat16), lambda: f"{op}: operands of {a.dtype}; float16 or bfloat16"
    )
    dtype = out_dtype if out_dtype is not None else (a.dtype if c is None else c.dtype)
    return a.new_empty(_shape(op, a, b), dtype=dtype)


@torch.library.custom_op("warpipe::matmul", mutates_args=())
def _matmul_op(
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: Optional[float],
    out_dtype: Optional[torch.dtype],
) -> Tensor:
    return _eager("matmul", a, b, c, alpha, beta, None, out_dtype)


@torch.library.custom_op("warpipe::linear", mutates_args=())
def _linear_op(
    x: Tensor,
    weight: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: Optional[float],
    out_dtype: Optional[torch.dtype],
) -> Tensor:
    return _eager("linear", x, weight, c, alpha, beta, None, out_dtype)


@torch.library.custom_op("warpipe::matmul_out", mutates_args=("out",))
def _matmul_out_op(
    a: Tensor, b: Tensor, c: Optional[Tensor], alpha: float, beta: Optional[float], out: Tensor
) -> None:
    _eager("matmul", a, b, c, alpha, beta, out, None)


@torch.library.custom_op("warpipe::linear_out", mutates_args=("out",))
def _linear_out_op(
    x: Tensor, weight: Tensor, c: Optional[Tensor], alpha: float, beta: Optional[float], out: Tensor
) -> None:
    _eager("linear", x, weight, c, alpha, beta, out, None)


@_matmul_op.register_fake
def _(a, b, c, alpha, beta, out_dtype):
    return _fake("matmul", a, b, c, out_dtype)


@_linear_op.register_fake
def _(x, weight, c, alpha, beta, out_dtype):
    return _fake("linear", x, weight, c, out_dtype)


@_matmul_out_op.register_fake
def _(a, b, c, alpha, beta, out):
    return None


@_linear_out_op.register_fake
def _(x, weight, c, alpha, beta, out):
    return None


def _setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, c, alpha, beta, _ = inputs
    ctx.alpha = alpha
    ctx.beta = (0.0 if c is None else 1.0) if beta is None else beta
    ctx.shapes, ctx.dtype = (a.shape, b.shape), a.dtype
    need_a, need_b = ctx.needs_input_grad[:2]
    ctx.save_for_backward(b if need_a else None, a if need_b else None)


def _backward(linear: bool) -> Any:
    """The gradients of alpha * a @ b + beta * c, computed by torch."""

    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        b, a = ctx.saved_tensors
        a_shape, b_shape = ctx.shapes
        # With a float32 result, the gradient is rounded to the type of the operands, as in mixed precision.
        rows = (ctx.alpha * grad).to(ctx.dtype).reshape(-1, grad.shape[-1])
        grad_a = grad_b = grad_c = None
        if ctx.needs_input_grad[0]:
            matrix = b.reshape(b_shape[-2:])
            grad_a = (rows @ (matrix if linear else matrix.t())).reshape(a_shape)
        if ctx.needs_input_grad[1]:
            matrix = a.reshape(-1, a_shape[-1])
            grad_b = (rows.t() @ matrix if linear else matrix.t() @ rows).reshape(b_shape)
        if ctx.needs_input_grad[2]:
            grad_c = ctx.beta * grad
        return grad_a, grad_b, grad_c, None, None, None

    return backward


_matmul_op.register_autograd(_backward(linear=False), setup_context=_setup)
_linear_op.register_autograd(_backward(linear=True), setup_context=_setup)

_OPS = {"matmul": (_matmul_op, _matmul_out_op), "linear": (_linear_op, _linear_out_op)}


def _by_operator(
    op: str,
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: Optional[float],
    out: Optional[Tensor],
    out_dtype: Optional[torch.dtype],
) -> Tensor:
    """Calls the operator of torch, which all that intercepts operators sees."""
    if out is None:
        return _OPS[op][0](a, b, c, alpha, beta, out_dtype)
    if out_dtype is not None and out.dtype != out_dtype:
        raise TypeError(f"out has elements of type {out.dtype}, and out_dtype says {out_dtype}")
    _OPS[op][1](a, b, c, alpha, beta, out)
    return out


def _call(
    op: str,
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: Optional[float],
    out: Any,
    out_dtype: Any,
    check: Any,
) -> Tensor:
    """A call with tensors of torch that the native fast path did not take."""
    name = dtype_name(out_dtype)
    if name is not None and name not in _DTYPES:
        raise TypeError(f"out_dtype is {name}; float16, bfloat16 or float32 is right")
    dtype = None if name is None else _DTYPES[name]
    names = ("a", "b", "c", "out") if op == "matmul" else ("x", "weight", "c", "out")
    tensors = [(n, t) for n, t in zip(names, (a, b, c, out)) if t is not None or n in names[:2]]
    for n, tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{n} is a {type(tensor).__name__}; a tensor of torch is needed, as the others are")
    grad = torch.is_grad_enabled() and any(t.requires_grad for _, t in tensors)
    if grad and out is not None:
        raise ValueError("out can't be combined with gradients: a tensor of the call requires one")
    seen = torch._C._len_torch_dispatch_stack() > 0 or any(
        type(t) not in (Tensor, torch.nn.Parameter) or torch._C._functorch.is_functorch_wrapped_tensor(t)
        for _, t in tensors
    )
    if grad or seen:
        return _by_operator(op, a, b, c, alpha, beta, out, dtype)
    return _eager(op, a, b, c, alpha, beta, out, dtype, check)


@torch.compiler.substitute_in_graph(_native.matmul, skip_signature_check=True)
def _traced_matmul(a, b, c=None, *, alpha=1.0, beta=None, out=None, out_dtype=None):
    return _traced("matmul", a, b, c, alpha, beta, out, out_dtype)


@torch.compiler.substitute_in_graph(_native.linear, skip_signature_check=True)
def _traced_linear(x, weight, c=None, *, alpha=1.0, beta=None, out=None, out_dtype=None):
    return _traced("linear", x, weight, c, alpha, beta, out, out_dtype)


def _traced(op, a, b, c, alpha, beta, out, out_dtype):
    if isinstance(out_dtype, str):
        out_dtype = _DTYPES[out_dtype]
    ops = torch.ops.warpipe
    if out is None:
        return (ops.matmul if op == "matmul" else ops.linear)(a, b, c, alpha, beta, out_dtype)
    (ops.matmul_out if op == "matmul" else ops.linear_out)(a, b, c, alpha, beta, out)
    return out


# Registers the operators of attention and of pointer arrays.
from . import _torch_array, _torch_attention  # noqa: E402, F401
