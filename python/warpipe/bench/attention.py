"""Attention in turn with torch's backends, and with FlashAttention if it is installed."""

from __future__ import annotations

import importlib
import math
from typing import Any, Callable, Sequence

import torch
from torch import Tensor

import warpipe

from .workload import Contender, Workload

_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
#: Relative Frobenius error that is allowed: twice what rounding of the weights and of the result gives.
_BOUNDS = {torch.bfloat16: 2 * 2**0.5 * 1.66e-3, torch.float16: 2 * 2**0.5 * 2.07e-4}

#: Tokens of a launch, and columns of all heads, as FlashAttention's tables have it.
TOKENS, HIDDEN = 16384, 2048
_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


def _rows(heads: int, heads_kv: int, dim: int, lengths: Sequence[int]) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    """Full and causal rows with `TOKENS` tokens."""
    shapes = [(TOKENS // length, length, heads, heads_kv, dim) for length in lengths]
    return [(shape, {"causal": causal}) for causal in (False, True) for shape in shapes]


def _decode_rows() -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    """One query for each sequence, with a cache of S keys."""
    lengths = (1024, 4096, 16384, 65536)
    return [((batch, length, 64, 8, 128), {"queries": 1}) for batch in (1, 4, 16, 64) for length in lengths]


class Attention(Workload):
    """O = softmax(Q K^T) V of sequences of equal lengths, full or causal.

    The tensors are [B, S, H, D] in memory. torch gets them as views [B, H, S, D]. With ``queries``, a sequence has that many
    of them, and K and V are a cache, which is full; the rate is then that of reading K and V.
    """

    kind = "attention"
    dimensions = ("B", "S", "H", "Hkv", "D")
    modes = ("graph",)
    suites = {
        "table": [row for dim in (64, 128, 256) for row in _rows(HIDDEN // dim, HIDDEN // dim, dim, _LENGTHS)],
        # As many queries' heads with as many of keys, to compare with.
        "gqa": [
            row
            for heads, heads_kv in ((64, 64), (64, 8), (32, 32), (32, 8))
            for row in _rows(heads, heads_kv, 128, (1024, 4096, 16384))
        ],
        "decode": _decode_rows(),
    }

    def __init__(
        self, shape: Sequence[int], dtype: str = "bf16", causal: bool = False, queries: int | None = None
    ) -> None:
        more = {} if queries is None else {"queries": queries}
        super().__init__(shape, dtype=dtype, causal=causal, **more)
        if dtype not in _TYPES:
            raise ValueError(f"attention of {dtype}; bf16 or f16 is right")
        _, _, heads, heads_kv, _ = self.shape
        if heads % heads_kv:
            raise ValueError(f"{heads} heads of queries are no multiple of {heads_kv} of keys")
        if queries is not None and causal:
            raise ValueError("attention of queries with a cache is timed with a full mask")
        self.dtype, self.causal, self.queries = _TYPES[dtype], causal, queries

    def operands(self, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batch, rows, heads, heads_kv, dim = self.shape
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(heads: int, rows: int = rows) -> Tensor:
            # Made in pieces, so that the f32 values do not need three times the memory.
            out = torch.empty(batch, rows, heads, dim, dtype=self.dtype, device="cuda")
            for piece in out.view(-1, dim).split(1 << 20):
                piece.copy_(torch.randn(piece.shape, generator=generator, device="cuda"))
            return out

        q = normal(heads, self.queries or rows)
        return q, normal(heads_kv), normal(heads_kv), torch.empty_like(q)

    def bytes_of_a_set(self) -> int:
        batch, rows, heads, heads_kv, dim = self.shape
        return batch * ((self.queries or rows) * heads + 2 * rows * heads_kv) * dim * self.dtype.itemsize

    def bytes_read(self) -> int | None:
        if self.queries is None:
            return None
        batch, rows, _, heads_kv, dim = self.shape
        return batch * rows * 2 * heads_kv * dim * self.dtype.itemsize

    def flops(self) -> float:
        batch, rows, heads, _, dim = self.shape
        # Pairs of a query and a key that it sees.
        pairs = rows * (rows + 1) / 2 if self.causal else rows * (self.queries or rows)
        return 4.0 * batch * heads * dim * pairs

    def contenders(self) -> list[Contender]:
        causal, keys = self.causal, self.shape[1]

        def ours(o: Any, out: Tensor | None = None) -> Tensor:
            if self.queries is not None:
                return warpipe.attention_with_kvcache(o[0], o[1], o[2], keys, out=out)
            return warpipe.attention(o[0], o[1], o[2], causal=causal, out=out)

        contenders = [Contender("warpipe", lambda o: ours(o, o[3]), ours)]
        from torch.nn.attention import SDPBackend

        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            call = self._torch(backend)
            contenders.append(Contender(name, call, call))
        if self.queries is None:
            libraries = [("fa3", "flash_attn_interface", "flash_attn_func")]
        else:
            libraries = [(name, module, "flash_attn_with_kvcache") for name, module in _WITH_KVCACHE]
        for name, module, function in libraries:
            call = _flash_attention(module, function, causal)
            if call is not None:
                contenders.append(Contender(name, call, call))
        return contenders

    def _torch(self, backend: Any) -> Callable[[Any], Tensor]:
        from torch.nn.attention import sdpa_kernel

        _, _, heads, heads_kv, _ = self.shape

        def call(o: Any) -> Tensor:
            q, k, v = (x.transpose(1, 2) for x in o[:3])
            with sdpa_kernel(backend):
                out = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=self.causal, enable_gqa=heads != heads_kv
                )
            return out.transpose(1, 2)

        return call

    def error(self, operands: Any, result: Tensor) -> float:
        q, k, v, _ = operands
        batch, rows, heads, heads_kv, _ = self.shape
        queries = self.queries or rows
        # The first and the last sequence and head, with 64 queries from the first to the last.
        picked = torch.linspace(0, queries - 1, min(queries, 64), device=q.device).long().unique()
        wrong = right = 0.0
        for b in {0, batch - 1}:
            for h in {0, heads - 1}:
                kv = h // (heads // heads_kv)
                scores = q[b, picked, h].double() @ k[b, :, kv].double().t() / math.sqrt(self.shape[4])
                if self.causal:
                    behind = torch.arange(rows, device=q.device)[None] > picked[:, None]
                    scores.masked_fill_(behind, -math.inf)
                want = torch.softmax(scores, dim=-1) @ v[b, :, kv].double()
                wrong += (result[b, picked, h].double() - want).square().sum().item()
                right += want.square().sum().item()
        return math.sqrt(wrong / right) / _BOUNDS[self.dtype]

    def panel(self) -> tuple[str, str]:
        batch, rows, heads, heads_kv, dim = self.shape
        mask = "causal" if self.causal else "full"
        shared = f"{heads} heads on {heads_kv}" if heads != heads_kv else f"{heads} heads"
        if self.queries is not None:
            return f"head dim {dim}, {shared}, {self.queries} queries with a cache, B={batch}, by S", f"{rows}"
        return f"head dim {dim}, {shared}, {mask}, by S", f"{rows}"

    def describe(self) -> str:
        batch, rows, heads, heads_kv, dim = self.shape
        shared = f"{heads}/{heads_kv}" if heads != heads_kv else str(heads)
        mask = "causal" if self.causal else "full"
        if self.queries is not None:
            mask = f"{self.queries} queries"
        return f"D={dim} H={shared} B={batch} S={rows} {mask} {self.options['dtype']}"


#: Packages with a function for caches: FlashAttention-3 and -2.
_WITH_KVCACHE = (("fa3", "flash_attn_interface"), ("fa2", "flash_attn"))


def _flash_attention(module: str, function: str, causal: bool) -> Callable[[Any], Tensor] | None:
    """A function of FlashAttention on q, k and v, if its package is installed. A whole cache has keys."""
    try:
        loaded = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        return None

    def call(o: Any) -> Tensor:
        result = loaded(o[0], o[1], o[2], causal=causal)
        return result[0] if isinstance(result, tuple) else result

    return call
