"""torch's operators of attention: ``warpipe::attention``, ``attention_varlen`` and ``attention_with_kvcache``.

They have shapes for ``torch.compile``. They have no formula for autograd: the backward pass raises an exception. Lengths of
sequences are tensors for these operators, because compiled code would be compiled again for each list of numbers.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from . import _native
from ._dispatch import read_lengths, warn_copy
from .torch import _DTYPES, _stream

#: Lengths are read when a call is queued, so a graph that inductor captures would keep them.
_TAGS = tuple(filter(None, [getattr(torch.Tag, "cudagraph_unsafe", None)]))


def _eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    options: tuple,
    out: Optional[Tensor],
    sequences: Optional[tuple] = None,
    check: Any = None,
) -> tuple[Tensor, Optional[Tensor]]:
    """Computes attention of plain tensors, with copies where they are needed."""
    if check is None:
        done = _native.attention_fast(q, k, v, options, out, sequences)
        if done is not None:
            return done
    sequences = read_lengths(sequences)
    q, k, v = (t.detach() for t in (q, k, v))
    (shape, strides), element, lse_shape, place, copies = _native.attention_describe(
        q, k, v, options, out, check, sequences
    )
    tensors = []
    for name, tensor, copied in zip(_names(sequences), (q, k, v), copies):
        if copied:
            warn_copy(name, tensor, 5)
            tensor = tensor.contiguous()
        tensors.append(tensor)
    device = q.device
    result = torch.empty_strided(shape, strides, dtype=_DTYPES[element], device=device) if out is None else out
    lse = torch.empty(lse_shape, dtype=torch.float32, device=device) if options[5] else None
    if place == "cpu":
        _native.attention_run(*tensors, options, result, lse, 0, sequences)
    else:
        with torch.cuda.device(device):
            _native.attention_run(*tensors, options, result, lse, _stream(q), sequences)
    return result, lse


def _names(sequences: Optional[tuple]) -> tuple[str, str, str]:
    cache = sequences is not None and sequences[0] == "cache"
    return ("q", "k_cache", "v_cache") if cache else ("q", "k", "v")


def _no_lse(q: Tensor) -> Tensor:
    """What an operator returns for LSE where it is not asked for."""
    return q.new_empty((0,), dtype=torch.float32)


def _run(
    q: Tensor, k: Tensor, v: Tensor, sequences: Optional[tuple], options: tuple, out: Optional[Tensor]
) -> tuple[Tensor, Tensor]:
    result, lse = _eager(q, k, v, options, out, sequences)
    return result, _no_lse(q) if lse is None else lse


@torch.library.custom_op("warpipe::attention", mutates_args=())
def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    layout: str,
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    return _run(q, k, v, None, (causal, window, scale, softcap, layout, return_lse), None)


@torch.library.custom_op("warpipe::attention_out", mutates_args=("out",))
def _attention_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    layout: str,
    return_lse: bool,
    out: Tensor,
) -> Tensor:
    return _run(q, k, v, None, (causal, window, scale, softcap, layout, return_lse), out)[1]


@torch.library.custom_op("warpipe::attention_varlen", mutates_args=(), tags=_TAGS)
def _varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Optional[Tensor],
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    sequences = ("packed", cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    return _run(q, k, v, sequences, (causal, window, scale, softcap, "bshd", return_lse), None)


@torch.library.custom_op("warpipe::attention_varlen_out", mutates_args=("out",), tags=_TAGS)
def _varlen_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Optional[Tensor],
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    return_lse: bool,
    out: Tensor,
) -> Tensor:
    sequences = ("packed", cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    return _run(q, k, v, sequences, (causal, window, scale, softcap, "bshd", return_lse), out)[1]


@torch.library.custom_op("warpipe::attention_with_kvcache", mutates_args=(), tags=_TAGS)
def _with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    cache_seqlens: Tensor,
    block_table: Optional[Tensor],
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    options = (causal, window, scale, softcap, "bshd", return_lse)
    return _run(q, k_cache, v_cache, ("cache", cache_seqlens, block_table), options, None)


@torch.library.custom_op("warpipe::attention_with_kvcache_out", mutates_args=("out",), tags=_TAGS)
def _with_kvcache_out(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    cache_seqlens: Tensor,
    block_table: Optional[Tensor],
    causal: bool,
    window: Optional[Sequence[int]],
    scale: Optional[float],
    softcap: Optional[float],
    return_lse: bool,
    out: Tensor,
) -> Tensor:
    options = (causal, window, scale, softcap, "bshd", return_lse)
    return _run(q, k_cache, v_cache, ("cache", cache_seqlens, block_table), options, out)[1]


def _order(layout: str) -> tuple[int, int]:
    """The dimensions of heads and of rows."""
    return {"bshd": (2, 1), "bhsd": (1, 2), "packed": (1, 0)}[layout]


def _fake_lse(q: Tensor, layout: str, return_lse: bool) -> Tensor:
    if not return_lse:
        return _no_lse(q)
    h, s = _order(layout)
    batch = () if layout == "packed" else (q.shape[0],)
    return q.new_empty((*batch, q.shape[h], q.shape[s]), dtype=torch.float32)


def _fake(op: str, q: Tensor, k: Tensor, v: Tensor, layout: str, return_lse: bool) -> tuple[Tensor, Tensor]:
    count = 3 if layout == "packed" else 4
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        torch._check(
            tensor.dim() == count, lambda: f"{op}: {name} has {tensor.dim()} dimensions; {count} are needed"
        )
        torch._check(tensor.dtype == q.dtype, lambda: f"{op}: {name} of {tensor.dtype} and q of {q.dtype}")
    torch._check_type(q.dtype in (torch.float16, torch.bfloat16), lambda: f"{op}: q of {q.dtype}; float16 or bfloat16")
    # The result has the order of q in memory.
    h, s = _order(layout)
    heads, rows, dim = q.shape[h], q.shape[s], q.shape[-1]
    heads_inside = q.stride(h) < q.stride(s) if heads > 1 and rows > 1 else layout != "bhsd"
    head, row = (dim, heads * dim) if heads_inside else (rows * dim, dim)
    strides = ((row, head) if s < h else (head, row)) + (1,)
    if layout != "packed":
        strides = (heads * rows * dim, *strides)
    return q.new_empty_strided(q.shape, strides), _fake_lse(q, layout, return_lse)


@_attention.register_fake
def _(q, k, v, causal, window, scale, softcap, layout, return_lse):
    torch._check(layout in ("bshd", "bhsd"), lambda: f"attention: layout is {layout!r}; 'bshd' or 'bhsd' is right")
    return _fake("attention", q, k, v, layout, return_lse)


@_attention_out.register_fake
def _(q, k, v, causal, window, scale, softcap, layout, return_lse, out):
    return _fake_lse(q, layout, return_lse)


@_varlen.register_fake
def _(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, scale, softcap, return_lse):
    return _fake("attention_varlen", q, k, v, "packed", return_lse)


@_varlen_out.register_fake
def _(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, scale, softcap, return_lse, out):
    return _fake_lse(q, "packed", return_lse)


@_with_kvcache.register_fake
def _(q, k_cache, v_cache, cache_seqlens, block_table, causal, window, scale, softcap, return_lse):
    return _fake("attention_with_kvcache", q, k_cache, v_cache, "bshd", return_lse)


@_with_kvcache_out.register_fake
def _(q, k_cache, v_cache, cache_seqlens, block_table, causal, window, scale, softcap, return_lse, out):
    return _fake_lse(q, "bshd", return_lse)


def _no_gradient(ctx: Any, *grads: Tensor) -> Any:
    raise NotImplementedError(
        "warpipe.attention has no backward pass; call it under torch.no_grad(), or use torch's attention for training"
    )


for _op in (_attention, _varlen, _with_kvcache):
    _op.register_autograd(_no_gradient)


def _attend(q: Any, k: Any, v: Any, options: tuple, out: Any, check: Any, sequences: Optional[tuple]) -> Any:
    """A call with tensors of torch that the native fast path did not take."""
    tensors = list(zip(_names(sequences), (q, k, v)))
    optional = [("out", out), ("block_table", sequences[2] if _names(sequences)[1] == "k_cache" else None)]
    tensors += [(n, t) for n, t in optional if t is not None]
    for n, tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{n} is a {type(tensor).__name__}; a tensor of torch is needed, as the others are")
    grad = torch.is_grad_enabled() and any(t.requires_grad for _, t in tensors)
    if grad and out is not None:
        raise ValueError("out can't be combined with gradients: a tensor of the call requires one")
    lengths = [("", t) for t in (sequences or ())[1:] if isinstance(t, Tensor)]
    seen = torch._C._len_torch_dispatch_stack() > 0 or any(
        type(t) not in (Tensor, torch.nn.Parameter) or torch._C._functorch.is_functorch_wrapped_tensor(t)
        for _, t in tensors + lengths
    )
    if grad or seen:
        return _by_operator(q, k, v, sequences, options, out)
    result, lse = _eager(q, k, v, options, out, sequences, check)
    return (result, lse) if options[5] else result


def _as_tensor(lengths: Any, count: Any) -> Tensor:
    """Lengths as the operators take them."""
    if isinstance(lengths, Tensor):
        return lengths
    if not isinstance(lengths, (int, list, tuple)):
        lengths = lengths.tolist()
    if isinstance(lengths, int):
        return torch.full((count,), lengths, dtype=torch.int64)
    return torch.tensor(lengths, dtype=torch.int64)


def _by_operator(
    q: Tensor, k: Tensor, v: Tensor, sequences: Optional[tuple], options: tuple, out: Optional[Tensor]
) -> Any:
    """Calls the operator of torch, which all that intercepts operators sees."""
    causal, window, scale, softcap, layout, return_lse = options
    if window is not None:
        window = [-1 if keys is None else keys for keys in window]
    ops = torch.ops.warpipe
    if sequences is None:
        op, into = ops.attention, ops.attention_out
        arguments = (q, k, v, causal, window, scale, softcap, layout, return_lse)
    else:
        kind, first, second = sequences
        first = _as_tensor(first, q.shape[0])
        if kind == "packed":
            op, into = ops.attention_varlen, ops.attention_varlen_out
            second = None if second is None else _as_tensor(second, 0)
        else:
            op, into = ops.attention_with_kvcache, ops.attention_with_kvcache_out
        arguments = (q, k, v, first, second, causal, window, scale, softcap, return_lse)
    if out is None:
        result, lse = op(*arguments)
    else:
        result, lse = out, into(*arguments, out)
    return (result, lse) if return_lse else result


@torch.compiler.substitute_in_graph(_native.attention, skip_signature_check=True)
def _traced_attention(
    q, k, v, *, causal=False, window=None, scale=None, softcap=None, layout="bshd", return_lse=False, out=None
):
    return _by_operator(q, k, v, None, (causal, window, scale, softcap, layout, return_lse), out)


@torch.compiler.substitute_in_graph(_native.attention_varlen, skip_signature_check=True)
def _traced_varlen(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k=None,
    *,
    causal=False,
    window=None,
    scale=None,
    softcap=None,
    return_lse=False,
    out=None,
):
    options = (causal, window, scale, softcap, "bshd", return_lse)
    return _by_operator(q, k, v, ("packed", cu_seqlens_q, cu_seqlens_k), options, out)


@torch.compiler.substitute_in_graph(_native.attention_with_kvcache, skip_signature_check=True)
def _traced_with_kvcache(
    q,
    k_cache,
    v_cache,
    cache_seqlens,
    block_table=None,
    *,
    causal=False,
    window=None,
    scale=None,
    softcap=None,
    return_lse=False,
    out=None,
):
    options = (causal, window, scale, softcap, "bshd", return_lse)
    return _by_operator(q, k_cache, v_cache, ("cache", cache_seqlens, block_table), options, out)
