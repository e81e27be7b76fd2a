"""Calls that the native fast path does not take: other libraries, copies, gradients, the SM model."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from . import _native


#: Operands of attention.
_HEADS = ("q", "k", "v", "k_cache", "v_cache")


class CopyWarning(UserWarning):
    """An operand on a GPU was copied, because TMA can't read it as it lies."""


def call(
    op: str,
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: float | None,
    out: Any,
    out_dtype: Any,
    check: Any = None,
) -> Any:
    """Computes a product of tensors of any library."""
    if _is_torch(a) or _is_torch(b):
        from . import torch as library

        return library._call(op, a, b, c, alpha, beta, out, out_dtype, check)
    dtype = dtype_name(out_dtype)
    if out is not None and _module(out) in ("jax", "jaxlib"):
        raise ValueError("out is an array of jax, which nobody may write")
    shape, element, place, copies = _native.describe(op, a, b, c, beta, out, dtype, check)
    if place == "cpu":
        result = _numpy_empty(shape, element) if out is None else out
        _native.run(op, a, b, c, alpha, beta, result, 0, None)
        return result if out is not None else _like(a, result)
    names = ("a", "b", "c") if op == "matmul" else ("x", "weight", "c")
    for name, copied in zip(names, copies):
        if copied:
            raise ValueError(
                f"{name} must have rows of adjacent elements: copy it in its own library first"
                + ("; for b [K, N] that is the transposed view of a [N, K] array" if name == "b" else "")
            )
    if _module(a) == "cupy":
        import cupy

        result = cupy.empty(shape, dtype=_numpy_dtype(element)) if out is None else out
        _native.run(op, a, b, c, alpha, beta, result, cupy.cuda.get_current_stream().ptr, None)
        return result
    if out is None:
        raise ValueError(f"out is needed: warpipe does not allocate arrays of {_module(a)}")
    _native.run(op, a, b, c, alpha, beta, out, 0, None)
    return out


def attend(
    q: Any, k: Any, v: Any, options: tuple, out: Any, check: Any = None, sequences: tuple | None = None
) -> Any:
    """Computes attention of tensors of any library. The options are causal, window, scale, softcap, layout, lse.

    The sequences are ("packed", cu_seqlens_q, cu_seqlens_k), ("cache", cache_seqlens, block_table), or None.
    """
    if _is_torch(q) or _is_torch(k) or _is_torch(v):
        from . import _torch_attention as library

        return library._attend(q, k, v, options, out, check, sequences)
    if out is not None and _module(out) in ("jax", "jaxlib"):
        raise ValueError("out is an array of jax, which nobody may write")
    sequences = read_lengths(sequences)
    (shape, _), element, lse_shape, place, copies = _native.attention_describe(q, k, v, options, out, check, sequences)
    return_lse = options[5]
    stream, lse = 0, None
    if place == "cpu":
        result = _numpy_empty(shape, element) if out is None else out
        lse = _numpy_empty(lse_shape, "float32") if return_lse else None
    else:
        cache = sequences is not None and sequences[0] == "cache"
        for name, copied in zip(("q", "k_cache", "v_cache") if cache else ("q", "k", "v"), copies):
            if copied:
                raise ValueError(
                    f"{name} must have heads of adjacent elements, and strides that are multiples of 8: copy it in its "
                    "own library first"
                )
        if _module(q) == "cupy":
            import cupy

            result = cupy.empty(shape, dtype=_numpy_dtype(element)) if out is None else out
            lse = cupy.empty(lse_shape, dtype="float32") if return_lse else None
            stream = cupy.cuda.get_current_stream().ptr
        elif out is None or return_lse:
            what = "return_lse can't be had" if return_lse else "out is needed"
            raise ValueError(f"{what}: warpipe does not allocate arrays of {_module(q)}")
        else:
            result = out
    _native.attention_run(q, k, v, options, result, lse, stream, sequences)
    if place == "cpu":
        result = _like(q, result) if out is None else out
        lse = _like(q, lse)
    return (result, lse) if return_lse else result


def read_lengths(sequences: tuple | None) -> tuple | None:
    """The same with lists of numbers, for which this waits if they are on a GPU."""
    if sequences is None:
        return None
    kind, first, second = sequences
    if kind == "packed":
        starts = _native.sequence_lengths("cu_seqlens_q", first)
        return kind, starts, starts if first is second else _native.sequence_lengths("cu_seqlens_k", second)
    return kind, _native.sequence_lengths("cache_seqlens", first), second


def scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    *,
    scale_result: Any = None,
    amax: Any = None,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
    out: Any = None,
) -> Any:
    """(scale_a * a) @ (scale_b * b) for matrices of 8-bit floats or integers, as ``torch._scaled_mm``.

    ``a`` and ``b`` are ``torch.float8_e4m3fn`` or ``torch.float8_e5m2``, in any mix, or both ``torch.int8``.

    ``a`` is [M, K] with adjacent rows, and ``b`` [K, N] has adjacent columns, as ``weight.t()`` of a weight [N, K]. A scale
    is a tensor of float32 with one value, or one for each row of ``a`` (for each column of ``b``). The result has
    ``out_dtype``, bfloat16 by default; for two float8_e4m3fn also float16, float32 and float8_e4m3fn.

    A result of float8_e4m3fn is multiplied by ``scale_result`` (float32, one value) before it is rounded, and becomes at
    most 448. ``amax`` (float32, one value) is raised to the largest magnitude of the result before that: set it to 0 first.

    ``bias`` [N], of bfloat16, is added to each row, and ``activation`` is applied to the sum: "relu", "silu", "gelu" or
    "gelu-tanh". They are for two float8_e4m3fn, a result of bfloat16, and scales of tensors or rows.

    Block scales are DeepSeek's: ``scale_a`` is [M, K/128], one value for each 128 of K of a row, and ``scale_b`` is
    [K/128, N/128], one for each block of 128 x 128 (the transposed scales of a weight). As for torch, their columns have
    adjacent elements (``stride(0) == 1``); scales in another layout are copied. They need ``use_fast_accum=False``.

    The tensor cores keep sums of 8-bit floats short. With ``use_fast_accum`` they sum all of K; without it, every 128 of
    K are added to sums in float32, which is more exact.
    """
    if not (_is_torch(a) and _is_torch(b)):
        raise TypeError(f"a and b are {_module(a)} and {_module(b)}; tensors of torch are right")
    from . import torch as library

    layer = (bias, activation)
    return library._scaled_mm(a, b, scale_a, scale_b, scale_result, amax, layer, out_dtype, use_fast_accum, out)


def int_mm(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a @ b`` of matrices of int8, exactly in int32, as ``torch._int_mm``.

    ``a`` is [M, K] with adjacent rows, and ``b`` [K, N] has adjacent columns, as ``weight.t()`` of a weight [N, K]. Sums
    beyond 2^31 wrap around. The first call of a size allocates, which a CUDA graph can't capture: call once before.
    """
    if _is_torch(a):
        from . import torch as library

        return library._int_mm(a, b, out)
    out, stream = _room(a, out, lambda: ((a.shape[0], b.shape[-1]), "int32"))
    _native.typed_mm(a, b, [None] * 4, out, ("int8", "int8", "int32"), False, None, stream)
    return out


def tf32_matmul(a: Any, b: Any, out: Any) -> Any:
    """``matmul`` of matrices of float32 with ``allow_tf32=True``."""
    if _is_torch(a):
        from . import torch as library

        return library._tf32_matmul(a, b, out)
    out, stream = _room(a, out, lambda: ((a.shape[0], b.shape[-1]), "float32"))
    _native.typed_mm(a, b, [None] * 4, out, ("tf32", "tf32", "float32"), False, None, stream)
    return out


def bmm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, out: Any = None) -> Any:
    """``alpha * a @ b + beta * c`` for each matrix of a batch, as ``torch.bmm`` and ``torch.baddbmm``.

    ``a`` is [batch, M, K] and ``b`` is [batch, K, N], of bfloat16 or float16, and the result is [batch, M, N]. Each tensor
    is read as it lies: in each, one of the last two dimensions has adjacent elements, so transposed views are as good as
    contiguous tensors. An operand with one matrix, [1, M, K] or [M, K], and an expanded one serve all products. Two
    matrices [M, K] and [K, N] have the result [M, N]. ``c`` lies as the result does, and may be ``out`` itself. It has as many
    matrices, or one for all, and is not read if ``beta`` is 0.

    On a GPU, a tensor is used in place if its address and its strides other than 1 are multiples of 16 bytes, and so is a line
    of the result. Otherwise each call copies it, and the package keeps memory for the copy. ``out`` is written in place and
    returned. There is no backward pass.
    """
    if _is_torch(a):
        from . import torch as library

        return library._bmm(a, b, c, alpha, beta, out)
    out, stream = _room(a, out, lambda: (_bmm_shape(a.shape, b.shape), a.dtype.name))
    _native.bmm(a, b, c if beta else None, (alpha, beta), out, stream)
    return out


def _room(like: Any, out: Any, what: Callable[[], tuple[tuple[int, ...], str]]) -> tuple[Any, int]:
    """The result and the stream: cupy's current one, or the legacy default stream. Without ``out``, the result is made, of a
    shape and a type."""
    if _module(like) == "cupy":
        import cupy

        if out is None:
            shape, dtype = what()
            out = cupy.empty(shape, dtype=_numpy_dtype(dtype))
        return out, cupy.cuda.get_current_stream().ptr
    if out is None:
        if _module(like) not in ("numpy", "ml_dtypes"):
            raise ValueError(f"out is needed: warpipe does not allocate arrays of {_module(like)}")
        out = _numpy_empty(*what())
    return out, 0


def _bmm_shape(a: Any, b: Any) -> tuple[int, ...]:
    """The shape of a result of ``bmm``. What does not fit is refused later."""
    sizes = (a[-2], b[-1]) if min(len(a), len(b)) >= 2 else ()
    if max(len(a), len(b)) < 3:
        return tuple(sizes)
    batches = [shape[0] for shape in (a, b) if len(shape) == 3]
    return (next((size for size in batches if size != 1), 1), *sizes)


def grouped_mm(a: Any, b: Any, offs: Any, *, out: Any = None) -> Any:
    """``a[rows of group g] @ b[g]`` for all groups in one kernel, as ``torch._grouped_mm``: the experts of a mixture.

    ``a`` is [rows, K] and ``b`` [groups, K, N], ``weight.transpose(1, 2)`` of a contiguous weight [groups, N, K]. ``offs``
    is int32 [groups]: one past the last row of each group, which begins where the group before ends. The device reads it
    when the product runs, and the host does not wait for it. All others are bfloat16; K and N are multiples of 8.

    The result is [rows, N]. Rows behind the last group are not written. An end before that of the group before, below 0
    or beyond the rows counts as the nearest one that is not.

    ``out`` is written in place and returned. There is no backward pass. The first call of a size allocates, which a CUDA
    graph can't capture: call once before. In compiled code of torch call ``torch.ops.warpipe.grouped_mm``.
    """
    if _is_torch(a):
        from . import torch as library

        return library._grouped_mm(a, b, offs, out)
    out, stream = _room(a, out, lambda: ((a.shape[0], b.shape[-1]), a.dtype.name))
    _native.grouped_mm(a, b, offs, out, stream)
    return out


#: The activations whose result has half as many columns.
_GATES = ("swiglu", "geglu", "geglu-tanh")


def fused_linear(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: str | None = None,
    residual: Any = None,
    out: Any = None,
) -> Any:
    """``activation(x @ weight.T + bias) + residual``, in one kernel.

    ``x`` is [..., K] and ``weight`` is [N, K], as a Linear layer stores it; ``bias`` is [N]. The result and ``residual``
    are [..., N]. All have one type, float16 or bfloat16. ``activation`` is None, "relu", "silu", "gelu" or "gelu-tanh"
    (``torch.nn.functional.gelu`` with ``approximate="tanh"``).

    With "swiglu", "geglu" and "geglu-tanh" the result is ``silu(gate) * up`` (or GELU), [..., N / 2], and there is no
    residual. ``weight`` and ``bias`` then have gates and what belongs to them in the order of ``interleave_gates``.

    ``out`` is written in place and returned. There is no backward pass. In compiled code of torch call
    ``torch.ops.warpipe.fused_linear``.
    """
    if _is_torch(x):
        from . import torch as library

        return library._fused_linear(x, weight, bias, residual, activation, out)
    rows = lambda: weight.shape[0] // 2 if activation in _GATES else weight.shape[0]  # noqa: E731
    out, stream = _room(x, out, lambda: ((*x.shape[:-1], rows()), x.dtype.name))
    _native.fused_linear(x, weight, bias, residual, out, activation, stream, None)
    return out


def interleave_gates(gate: Any, up: Any) -> Any:
    """The rows of ``gate`` and ``up`` in the order of a gated ``fused_linear``: 8 of each in turn.

    For weights [N, K], or biases [N], of torch or numpy. N is a multiple of 8. The result has 2 N rows; make it once.
    """
    rows = gate.shape[0]
    if tuple(gate.shape) != tuple(up.shape) or rows % 8 != 0:
        have = f"gate {tuple(gate.shape)} and up {tuple(up.shape)}"
        raise ValueError(f"{have}: equal shapes, with a multiple of 8 rows, are right")
    blocks = (rows // 8, 8, *gate.shape[1:])
    if _is_torch(gate):
        import torch

        both = torch.stack((gate.reshape(blocks), up.reshape(blocks)), 1)
    else:
        import numpy

        both = numpy.stack((gate.reshape(blocks), up.reshape(blocks)), 1)
    return both.reshape((2 * rows, *gate.shape[1:]))


def plan(a: Any, b: Any, c: Any = None, *, out: Any = None, out_dtype: Any = None) -> _native.Plan:
    """Plans the product of these tensors, or of any tensors of their sizes and types.

    The result can be printed (kernel, tile, cluster, grid, predicted time), has ``describe()`` for the same
    as a dictionary, and is called as ``matmul``. A call with other sizes or types raises ``ValueError``.
    """
    tensors = [a, b, c, out]
    if _is_torch(a) or _is_torch(b):
        tensors = [t.detach() if _is_torch(t) else t for t in tensors]
    return _native.plan(*tensors, dtype_name(out_dtype))


def tune(
    a: Any, b: Any, c: Any = None, *, out: Any = None, out_dtype: Any = None, seconds: float = 2.0
) -> _native.Plan:
    """Times the kernels of the product of these tensors on their GPU, and uses the fastest in this process from now on.

    That is the product ``matmul(a, b, c, out=out, out_dtype=out_dtype)``, and ``linear(x, weight)`` if ``b`` is ``weight.t()``.
    Any later call with tensors of these sizes and types uses the kernel. Only sizes, types and device of the tensors matter:
    the search has operands of its own, twice as large as the L2 cache or as large as the tensors, and neither reads nor
    writes these. It takes about ``seconds`` (0.01 to 3600), and the first search of a process some more, because the driver
    loads the kernels. The kernel is never slower than the one that was used before, in the same measurement.

    The result is the plan, as of ``plan``. ``save_tuning`` keeps it for other processes. Call this once for each product,
    before CUDA graphs are captured; a graph keeps the kernels of its capture.

    Raises ``ValueError`` for tensors of the host, because the SM model has no times, and for an empty product.
    """
    tensors = [a, b, c, out]
    if _is_torch(a) or _is_torch(b):
        tensors = [t.detach() if _is_torch(t) else t for t in tensors]
    return _native.tune(*tensors, dtype_name(out_dtype), seconds)


def save_tuning(path: str | os.PathLike[str]) -> None:
    """Writes what ``tune`` found in this process to a file, and what ``load_tuning`` read.

    Entries of the file that this process has not are kept, so a file may have those of several GPUs. It is replaced as a
    whole. It is the file of ``warpipe gemm --tune-cache``. Raises ``ValueError`` for a file that is no tune cache, which
    stays as it is, and ``OSError``.
    """
    _native.save_tuning(os.fspath(path))


def load_tuning(path: str | os.PathLike[str]) -> int:
    """Reads a file of ``save_tuning``, or of ``warpipe gemm --tune-cache``, and returns its number of entries.

    An entry is used for products of its sizes and types on its kind of GPU with its driver. Raises ``ValueError`` for a
    file that is no tune cache, and ``OSError``. If an entry names a kernel that this version has not, a call of its product
    raises ``ValueError`` until it is tuned again.
    """
    return _native.load_tuning(os.fspath(path))


def plan_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    layout: Literal["bshd", "bhsd"] = "bshd",
    return_lse: bool = False,
    out: Any = None,
) -> _native.AttentionPlan:
    """Plans ``attention`` of these tensors, or of any tensors of their sizes and type.

    The result can be printed (kernel, tile, grid, work), has ``describe()`` for the same as a dictionary, and is
    called with q, k and v. A call with other sizes or types raises ``ValueError``.
    """
    tensors = [t.detach() if _is_torch(t) else t for t in (q, k, v, out)]
    options = (causal, window, scale, softcap, layout, return_lse)
    return _native.plan_attention(*tensors[:3], options, tensors[3])


class Doctor(dict):
    """What this machine has: one entry per component. It prints as text."""

    def __str__(self) -> str:
        lines = []
        for what, findings in self.items():
            for finding in findings:
                lines.append(f"{'+' if finding['good'] else '-'} {what:<10} {finding['detail']}")
        return "\n".join(lines)

    __repr__ = __str__


def doctor() -> Doctor:
    """Says what this machine has: the kernels of this package, GPUs, libraries."""
    report = Doctor({"warpipe": [{"good": True, "detail": f"{_native.__version__}, {_native.__file__}"}]})
    for finding in json.loads(_native.doctor()):
        what = finding.pop("what")
        report.setdefault(what, []).append(finding)
    report["python"] = [{"good": sys.version_info >= (3, 10), "detail": sys.version.split()[0]}]
    for name in ("torch", "numpy", "ml_dtypes", "cupy", "jax"):
        found = _version(name)
        if found is not None:
            report[name] = [{"good": True, "detail": found}]
    if "torch" in sys.modules:
        from . import torch as library

        fast = library.FAST
        detail = "calls with CUDA tensors run without Python" if fast else (
            "no DLPack exchange table (torch 2.10 and later have one): calls go through Python"
        )
        report["torch"].append({"good": fast, "detail": detail})
    return report


def dtype_name(dtype: Any) -> str | None:
    """The name of a type of torch, numpy or ml_dtypes: float16, bfloat16, float32."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if "numpy" in sys.modules:
        import numpy

        try:
            return numpy.dtype(dtype).name
        except TypeError:
            pass
    return text


def warn_copy(name: str, tensor: Any, depth: int) -> None:
    """Says that an operand is copied in every call."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    rows = "heads of adjacent elements at multiples of 8" if name in _HEADS else "rows of adjacent K elements"
    advice = "pass w.t() of a weight w [N, K]" if name == "b" else "pass it contiguous"
    warnings.warn(
        f"warpipe copies {name} {shape} with strides {strides} in every call, because TMA reads {rows}; {advice}",
        CopyWarning,
        stacklevel=depth,
    )


def _is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _module(tensor: Any) -> str:
    return type(tensor).__module__.split(".")[0]


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numpy_dtype(element: str) -> Any:
    if element == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as e:
            raise ValueError("a result of bfloat16 needs the package ml_dtypes, or out_dtype='float32'") from e
        return ml_dtypes.bfloat16
    return element


def _numpy_empty(shape: tuple[int, ...], element: str) -> Any:
    import numpy

    return numpy.empty(shape, dtype=_numpy_dtype(element))


def _like(a: Any, result: Any) -> Any:
    """The result as an array of the library of `a`."""
    if result is not None and _module(a) in ("jax", "jaxlib"):
        import jax.numpy

        return jax.numpy.asarray(result)
    return result
