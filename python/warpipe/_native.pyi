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
) -> _T:
    """``alpha * a @ b + beta * c``, as ``torch.matmul(a, b)`` for matrices.

    ``a`` is [..., M, K] and ``b`` is [K, N], both float16 or both bfloat16. The kernels read rows of K adjacent
    elements, so ``b`` is used in place if it is the transposed view of a [N, K] tensor, such as ``weight.t()``. A
    CUDA tensor of torch that lies otherwise is copied in every call, with a ``CopyWarning``.

    ``c`` has the result's shape and type. ``beta`` is 1 with ``c`` and 0 without it. With ``beta=0``, ``c`` is not
    read. ``out`` is written in place and returned; it may not overlap the operands. ``out_dtype`` is the type of
    ``out``, of ``c`` or of ``a``, in this order; it may be float32.

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

class AttentionPlan:
    """Attention that was planned: which kernel computes it, and how. Printed, it is a text of several lines."""

    def __call__(self, q: _T, k: _Tensor, v: _Tensor, *, out: _Tensor | None = None) -> Any:
        """``attention`` of tensors of the planned sizes and type, with the planned options."""

    def describe(self) -> dict[str, Any]:
        """The plan as a dictionary: sizes, mask, kernel, tile, grid, work."""

# For the modules of this package.

_Options = tuple[bool, Sequence[int | None] | None, float | None, float | None, str, bool]

def attention_fast(q: Any, k: Any, v: Any, options: _Options, out: Any) -> tuple[Any, Any] | None: ...
def attention_describe(
    q: Any, k: Any, v: Any, options: _Options, out: Any, plan: Any
) -> tuple[list[tuple[int, ...]], str, tuple[int, ...], str, list[bool]]: ...
def plan_attention(q: Any, k: Any, v: Any, options: _Options, out: Any) -> AttentionPlan: ...
def attention_run(
    q: Any, k: Any, v: Any, options: _Options, out: Any, lse: Any, stream: int
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
def plan(a: Any, b: Any, c: Any, out: Any, out_dtype: str | None) -> Plan: ...
def doctor() -> str: ...
def register_torch(
    tensor: Any, parameter: Any, grad_enabled: Any, modes: Any, empty: Any, zeros: Any, dtypes: Any
) -> bool: ...
