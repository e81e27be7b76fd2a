"""Pointer arrays: products of sizes and places of their own, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _native
from ._dispatch import _is_torch, _room


def grouped_mm_array(
    a: Any,
    b: Any,
    problems: Any,
    *,
    expected: Sequence[int] | None = None,
    output_size: int | None = None,
    out: Any = None,
    info: Any = None,
) -> Any:
    """``A_i @ B_i.T`` of many problems with sizes and places of their own, in one launch: a pointer array.

    ``a``, ``b`` and ``out`` are bfloat16 of any shape without gaps: the memory in which each A [M, K], B [N, K] and result
    [M, N] lies, row by row. ``problems`` is int64 or uint64 [problems, 9]. A line has M, N and K; the first elements of A, B
    and the result, counted from those of ``a``, ``b`` and ``out``; and the elements from row to row of A, B and the result.
    ``packed_problems`` makes such a table. On a GPU the host does not read it: the device does when the product runs, also
    when a captured call is replayed.

    N, first elements and row pitches are multiples of 8, and K is at least 1; M or N may be 0. The device skips a problem
    that breaks these rules or reaches beyond its memory, and computes the others. ``info``, int32 with one value, becomes 0,
    or 1 + the first problem that was skipped, as that of ``torch.linalg.cholesky_ex``.

    ``out`` is written in place and returned. Without it, ``output_size`` is the number of its elements, which the table does
    not tell the host; elements that no problem has are then not set. ``expected`` is (M, N, K) of a typical problem, for the
    choice of the kernel. Without it, that is the size of equal problems that fill ``a``, ``b`` and ``out``.

    There is no backward pass. The first call with a number of problems, sizes of tensors and a stream allocates, which a CUDA graph
    can't capture: make the same call once before, on the stream of the capture. In compiled code of torch call ``torch.ops.warpipe.grouped_mm_array``.
    """
    if (out is None) == (output_size is None):
        have = "neither out nor output_size is" if out is None else "both out and output_size are"
        raise ValueError(f"{have} given: out, or the number of elements of a new result, is right")
    if _is_torch(a):
        from . import _torch_array as library

        return library._grouped_mm_array(a, b, problems, expected, output_size, out, info)
    out, stream = _room(a, out, lambda: ((output_size,), a.dtype.name))
    _native.grouped_mm_array(a, b, problems, out, info, expected, stream)
    return out


def packed_problems(sizes: Sequence[Sequence[int]], *, device: Any = None) -> tuple[Any, tuple[int, int, int]]:
    """The table of ``grouped_mm_array`` for problems (M, N, K) that lie one behind the other.

    The result is (problems, elements): int64 [problems, 9], and how many elements ``a``, ``b`` and ``out`` have. Rows of A
    and B have K elements, rounded up to a multiple of 8, and rows of the result N. So if K is a multiple of 8, ``a`` is
    ``torch.cat([A.flatten() for A in ...])``.

    The table is a tensor of torch on ``device``, or without a device an array of numpy.
    """
    lines, first = [], (0, 0, 0)
    for i, (m, n, k) in enumerate(sizes):
        if min(m, n, k) < 0 or (m > 0 and n > 0 and (n % 8 != 0 or k == 0)):
            raise ValueError(f"problem {i} has M = {m}, N = {n}, K = {k}; N a multiple of 8 and K from 1 are right")
        pitch = (k + 7) // 8 * 8, (k + 7) // 8 * 8, (n + 7) // 8 * 8
        lines.append((m, n, k, *first, *pitch))
        first = tuple(at + rows * of for at, rows, of in zip(first, (m, n, m), pitch))
    if device is not None:
        import torch

        return torch.tensor(lines, dtype=torch.int64, device=device).reshape(-1, 9), first
    import numpy

    return numpy.array(lines, dtype=numpy.int64).reshape(-1, 9), first
