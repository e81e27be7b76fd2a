"""The extension module. Its public names are those of ``warpipe``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

class _DLPack(Protocol):
    """A tensor that exports DLPack: of torch, cupy, jax, numpy."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

class _CudaArray(Protocol):
    """An array of numba, or of an old cupy."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

_Tensor = _DLPack | _CudaArray
_T = TypeVar("_T", bound=_Tensor)
_Out = TypeVar("_Out", bound=_Tensor)

__version__: str
__file__: str

class Error(RuntimeError):
    """The CUDA driver or the SM model refused or failed a call that was checked."""

@overload
def matmul(
    a: _Tensor,
    b: _Tensor,
    c: _Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    out: _Out,
    out_dtype: Any = None,
    allow_tf32: bool = False,
) -> _Out: ...
@overload
def matmul(
    a: _T,
    b: _Tensor,
    c: _Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    out: None = None,
    out_dtype: Any = None,
    allow_tf32: bool = False,
) -> _T:
    """``alpha * a @ b + beta * c``, as ``torch.matmul(a, b)`` for matrices.

    ``a`` is [..., M, K] and ``b`` is [K, N], both float16 or both bfloat16. The kernels read rows of K adjacent
    elements, so ``b`` is used in place if it is the transposed view of a [N, K] tensor, such as ``weight.t()``. A
    CUDA tensor of torch that lies otherwise is copied in every call, with a ``CopyWarning``.

    ``c`` has the result's shape and type. ``beta`` is 1 with ``c`` and 0 without it. With ``beta=0``, ``c`` is not
    read. ``out`` is written in place and returned; it may not overlap the operands. ``out_dtype`` is the type of
    ``out``, of ``c`` or of ``a``, in this order; it may be float32.

    With ``allow_tf32``, ``a`` and ``b`` are matrices of float32, which are rounded to tf32 (ten bits of fraction), and the
    result is float32. Such a product has no ``c``, no factors and no backward pass.

    CUDA tensors are used on the stream on which their library works. Host tensors are computed on the SM model.

    Raises ``TypeError`` for types, ``ValueError`` for shapes, strides, addresses and devices, before anything is
    written; ``warpipe.Error`` for what the driver or the model reports.
    """

@overload
def linear(
    x: _Tensor,
    weight: _Tensor,
    c: _Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    out: _Out,
    out_dtype: Any = None,
) -> _Out: ...
@overload
def linear(
    x: _T,
    weight: _Tensor,
    c: _Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    out: None = None,
    out_dtype: Any = None,
) -> _T:
    """``alpha * x @ weight.T + beta * c``, as ``torch.nn.functional.linear(x, weight)``.

    ``x`` is [..., K] and ``weight`` is [N, K], as a Linear layer stores it. The rest is as for ``matmul``.
    """

class Plan:
    """A product that was planned: which kernel computes it, and how. Printed, it is a text of several lines."""

    @overload
    def __call__(
        self,
        a: _Tensor,
        b: _Tensor,
        c: _Tensor | None = None,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        out: _Out,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        a: _T,
        b: _Tensor,
        c: _Tensor | None = None,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        out: None = None,
    ) -> _T:
        """``matmul`` of tensors of the planned sizes and types; others raise ``ValueError``."""

    def describe(self) -> dict[str, Any]:
        """The plan as a dictionary: sizes, kernel, tile, cluster, grid, predicted time."""

@overload
def attention(
    q: _T,
    k: _Tensor,
    v: _Tensor,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    layout: Literal["bshd", "bhsd"] = "bshd",
    return_lse: Literal[False] = False,
    out: _Tensor | None = None,
) -> _T: ...
@overload
def attention(
    q: _T,
    k: _Tensor,
    v: _Tensor,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    layout: Literal["bshd", "bhsd"] = "bshd",
    return_lse: Literal[True],
    out: _Tensor | None = None,
) -> tuple[_T, _T]:
    """``softmax(scale * q @ k.T) @ v`` for each head, as ``torch.nn.functional.scaled_dot_product_attention``.

    ``q`` is [B, S, H, D], ``k`` and ``v`` are [B, S_kv, H_kv, D]; with ``layout="bhsd"``, as torch has it, heads come
    before rows. H is a multiple of H_kv: query head h reads head h / (H / H_kv). D is a multiple of 8, at most 256.
    All are float16, or all are bfloat16. Tensors are used in place if the elements of a head are adjacent and all
    other strides are multiples of 8. A CUDA tensor of torch that lies otherwise is copied in every call, with a
    ``CopyWarning``.

    Query i has its diagonal at key i + S_kv - S. ``causal`` hides the keys behind it. ``window`` is (left, right): a
    query sees the keys from ``left`` before its diagonal to ``right`` behind it; None and -1 are no limit. A query
    that sees no key gets zeros, and -inf in LSE. ``scale`` is 1 / sqrt(D) by default. With ``softcap``, a score s,
    after the scale, becomes ``softcap * tanh(s / softcap)``.

    The result has the shape and the type of ``q``, and its order in memory. ``out`` is written in place and returned.
    With ``return_lse``, the result is (out, lse): the natural logarithm of each query's sum of exponentials, float32
    [B, H, S].

    Streams and exceptions are as for ``matmul``. There is no backward pass.
    """

_Lengths = Sequence[int] | _Tensor

@overload
def attention_varlen(
    q: _T,
    k: _Tensor,
    v: _Tensor,
    cu_seqlens_q: _Lengths,
    cu_seqlens_k: _Lengths | None = None,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    return_lse: Literal[False] = False,
    out: _Tensor | None = None,
) -> _T: ...
@overload
def attention_varlen(
    q: _T,
    k: _Tensor,
    v: _Tensor,
    cu_seqlens_q: _Lengths,
    cu_seqlens_k: _Lengths | None = None,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    return_lse: Literal[True],
    out: _Tensor | None = None,
) -> tuple[_T, _T]:
    """``attention`` of packed sequences, as flash-attention's ``flash_attn_varlen_func``.

    ``q`` is [total_q, H, D], ``k`` and ``v`` are [total_k, H_kv, D]. Sequence b has the rows from ``cu_seqlens_q[b]`` to
    ``cu_seqlens_q[b + 1]`` of ``q``, and those of ``cu_seqlens_k`` of ``k`` and ``v``; without ``cu_seqlens_k`` they are
    the same. A list begins with 0 and ends with the number of all rows. A sequence may have no queries, or no keys.

    The lists are lists of Python, or tensors [B + 1] of int32 or int64. The host plans with the numbers: those of a
    CUDA tensor are copied to it, for which the call waits for the stream. A plan is kept for each list.

    Options, result and ``out`` are as for ``attention``; LSE is [H, total_q].
    """

@overload
def attention_with_kvcache(
    q: _T,
    k_cache: _Tensor,
    v_cache: _Tensor,
    cache_seqlens: _Lengths | int | CacheSeqlens,
    block_table: _Tensor | None = None,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    return_lse: Literal[False] = False,
    out: _Tensor | None = None,
) -> _T: ...
@overload
def attention_with_kvcache(
    q: _T,
    k_cache: _Tensor,
    v_cache: _Tensor,
    cache_seqlens: _Lengths | int | CacheSeqlens,
    block_table: _Tensor | None = None,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    return_lse: Literal[True],
    out: _Tensor | None = None,
) -> tuple[_T, _T]:
    """``attention`` of a few queries with a cache, as flash-attention's ``flash_attn_with_kvcache``.

    ``q`` is [B, S, H, D]. ``k_cache`` and ``v_cache`` are [B, capacity, H_kv, D]; the first ``cache_seqlens[b]`` rows of
    sequence b are its keys, and the others are not used. The caller has written the keys of the queries themselves.
    With a ``block_table`` [B, pages of a sequence] of int32, the caches are [pages, rows of a page, H_kv, D]: key j of
    sequence b is row j mod rows of page ``block_table[b, j / rows]``. A page has a multiple of 64 rows. A number that no
    page has, such as -1, stands for a page of zeros.

    ``cache_seqlens`` is a list, one number for all sequences, a tensor [B] of int32 or int64, or a ``CacheSeqlens``. The
    host splits the keys among the CTAs: the numbers of a CUDA tensor are copied to it, for which the call waits for
    the stream. Other lengths of the same tensors need no new plan, but a copy of the lists in the order of the stream.

    Options, result, ``out`` and LSE are as for ``attention``.
    """

class CacheSeqlens:
    """Lengths of a cache's sequences that can be changed, also for CUDA graphs that were captured with them.

    A graph of ``attention_with_kvcache`` has the lengths of its capture. If they were a ``CacheSeqlens``, ``set`` gives
    it others. It serves any number of calls, such as those of all layers of a model.
    """

    def __init__(self, lengths: _Lengths) -> None: ...
    def set(self, lengths: _Lengths, *, stream: int | None = None) -> None:
        """Replaces the lengths for all later calls, and for graphs that are launched behind this in the stream.

        ``stream`` is a ``CUstream``; by default it is torch's current one, or without torch the legacy default stream.
        Launch the graphs on the same stream, or behind it. A ``ValueError`` says that there are more keys than room in one of the caches, or that the stream is being
        captured; then nothing has changed.
        """

    def tolist(self) -> list[int]:
        """The lengths."""

    def __len__(self) -> int: ...

class AttentionPlan:
    """Attention that was planned: which kernel computes it, and how. Printed, it is a text of several lines."""

    def __call__(self, q: _T, k: _Tensor, v: _Tensor, *, out: _Tensor | None = None) -> Any:
        """``attention`` of tensors of the planned sizes and type, with the planned options."""

    def describe(self) -> dict[str, Any]:
        """The plan as a dictionary: sizes, mask, kernel, tile, grid, work."""

# For the modules of this package.

_Options = tuple[bool, Sequence[int | None] | None, float | None, float | None, str, bool]

#: ("packed", cu_seqlens_q, cu_seqlens_k), or ("cache", cache_seqlens, block_table).
_Sequences = tuple[str, Any, Any] | None

def attention_fast(
    q: Any, k: Any, v: Any, options: _Options, out: Any, sequences: _Sequences = None
) -> tuple[Any, Any] | None: ...
def attention_describe(
    q: Any, k: Any, v: Any, options: _Options, out: Any, plan: Any, sequences: _Sequences = None
) -> tuple[list[tuple[int, ...]], str, tuple[int, ...], str, list[bool]]: ...
def sequence_lengths(name: str, lengths: Any) -> Any: ...
def plan_attention(q: Any, k: Any, v: Any, options: _Options, out: Any) -> AttentionPlan: ...
def attention_run(
    q: Any, k: Any, v: Any, options: _Options, out: Any, lse: Any, stream: int, sequences: _Sequences = None
) -> None: ...

def fast(
    op_name: str, a: Any, b: Any, c: Any, alpha: float, beta: float | None, out: Any, out_dtype: Any
) -> Any | None: ...
def describe(
    op_name: str, a: Any, b: Any, c: Any, beta: float | None, out: Any, out_dtype: str | None, plan: Any
) -> tuple[tuple[int, ...], str, str, list[bool]]: ...
def run(
    op_name: str,
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: float | None,
    out: Any,
    stream: int,
    zeros: Callable[[int], tuple[int, Any]] | None,
) -> None: ...
def fused_linear(
    x: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    out: Any,
    activation: str | None,
    stream: int,
    zeros: Callable[[int], tuple[int, Any]] | None,
) -> None: ...
def scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    out: Any,
    use_fast_accum: bool,
    stream: int,
    zeros: Callable[[int], tuple[int, Any]] | None,
) -> None: ...
def typed_mm(
    a: Any,
    b: Any,
    values: list[Any],
    out: Any,
    types: tuple[str, str, str],
    use_fast_accum: bool,
    activation: str | None,
    stream: int,
) -> None: ...
def grouped_mm(a: Any, b: Any, offs: Any, out: Any, stream: int) -> None: ...
def grouped_mm_array(
    a: Any, b: Any, problems: Any, out: Any, info: Any, expected: Sequence[int] | None, stream: int
) -> None: ...
def plan(a: Any, b: Any, c: Any, out: Any, out_dtype: str | None) -> Plan: ...
def tune(a: Any, b: Any, c: Any, out: Any, out_dtype: str | None, seconds: float) -> Plan: ...
def save_tuning(path: str) -> None: ...
def load_tuning(path: str) -> int: ...
def doctor() -> str: ...
def register_torch(
    tensor: Any, parameter: Any, grad_enabled: Any, modes: Any, empty: Any, zeros: Any, dtypes: Any
) -> bool: ...

def bmm(a: Any, b: Any, c: Any, factors: tuple[float, float], out: Any, stream: int) -> None: ...
