"""torch's operators ``warpipe::grouped_mm_array`` and ``warpipe::grouped_mm_array_out``, for pointer arrays."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from . import _native
from .torch import _stream


def _array_eager(
    a: Tensor,
    b: Tensor,
    problems: Tensor,
    expected: Optional[Sequence[int]],
    out: Tensor,
    info: Optional[Tensor],
) -> Tensor:
    """Computes a pointer array of plain tensors."""
    operands = (a.detach(), b.detach(), problems, out, info, expected)
    if a.device.type != "cuda":
        _native.grouped_mm_array(*operands, 0)
        return out
    with torch.cuda.device(a.device.index):
        _native.grouped_mm_array(*operands, _stream(a))
    return out


@torch.library.custom_op("warpipe::grouped_mm_array", mutates_args=())
def _array_op(
    a: Tensor, b: Tensor, problems: Tensor, output_size: int, expected: Optional[Sequence[int]] = None
) -> Tensor:
    out = torch.empty(output_size, dtype=a.dtype, device=a.device)
    return _array_eager(a, b, problems, expected, out, None)


@torch.library.custom_op("warpipe::grouped_mm_array_out", mutates_args=("out", "info"))
def _array_out_op(
    a: Tensor,
    b: Tensor,
    problems: Tensor,
    out: Tensor,
    info: Optional[Tensor],
    expected: Optional[Sequence[int]] = None,
) -> None:
    _array_eager(a, b, problems, expected, out, info)


def _array_check(a: Tensor, b: Tensor, problems: Tensor) -> None:
    """What the operator can check without the tensors' memory."""
    torch._check(a.dtype == b.dtype, lambda: f"grouped_mm_array: operands of {a.dtype} and {b.dtype}")
    torch._check(problems.dim() == 2, lambda: f"grouped_mm_array: problems has {problems.dim()} dimensions; 2 are needed")
    torch._check(problems.shape[1] == 9, lambda: f"grouped_mm_array: lines of {problems.shape[1]} values; 9 are needed")


@_array_op.register_fake
def _(a, b, problems, output_size, expected=None):
    _array_check(a, b, problems)
    return a.new_empty([output_size])


@_array_out_op.register_fake
def _(a, b, problems, out, info, expected=None):
    _array_check(a, b, problems)


def _grouped_mm_array(
    a: Any, b: Any, problems: Any, expected: Any, output_size: Optional[int], out: Any, info: Any
) -> Tensor:
    for tensor in (b, problems, *(t for t in (out, info) if t is not None)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a {type(tensor).__name__} among the operands; tensors of torch are right, as a is")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (a, b)):
        raise ValueError("grouped_mm_array has no backward pass: call it under torch.no_grad()")
    seen = torch._C._len_torch_dispatch_stack() > 0
    if seen and out is None and info is None:
        return _array_op(a, b, problems, output_size, expected)
    if out is None:
        out = torch.empty(output_size, dtype=a.dtype, device=a.device)
    if seen:
        _array_out_op(a, b, problems, out, info, expected)
        return out
    return _array_eager(a, b, problems, expected, out, info)
