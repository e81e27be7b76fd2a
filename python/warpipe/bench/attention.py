"""Attention in turn with torch's backends, and with FlashAttention-3 if it is installed."""

from __future__ import annotations

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


class Attention(Workload):
    """O = softmax(Q K^T) V of sequences of equal lengths, full or causal.

    The tensors are [B, S, H, D] in memory. torch gets them as views [B, H, S, D].
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
    }

    def __init__(self, shape: Sequence[int], dtype: str = "bf16", causal: bool = False) -> None:
        super().__init__(shape, dtype=dtype, causal=causal)
        if dtype not in _TYPES:
            raise ValueError(f"attention of {dtype}; bf16 or f16 is right")
        _, _, heads, heads_kv, _ = self.shape
        if heads % heads_kv:
            raise ValueError(f"{heads} heads of queries are no multiple of {heads_kv} of keys")
        self.dtype, self.causal = _TYPES[dtype], causal

    def operands(self, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batch, rows, heads, heads_kv, dim = self.shape
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(heads: int) -> Tensor:
            # Made in pieces, so that the f32 values do not need three times the memory.
            out = torch.empty(batch, rows, heads, dim, dtype=self.dtype, device="cuda")
            for piece in out.view(-1, dim).split(1 << 20):
                piece.copy_(torch.randn(piece.shape, generator=generator, device="cuda"))
            return out

        q = normal(heads)
        return q, normal(heads_kv), normal(heads_kv), torch.empty_like(q)

    def bytes_of_a_set(self) -> int:
        batch, rows, heads, heads_kv, dim = self.shape
        return batch * rows * (heads + 2 * heads_kv) * dim * self.dtype.itemsize

    def flops(self) -> float:
        batch, rows, heads, _, dim = self.shape
        # Pairs of a query and a key that it sees.
        pairs = rows * (rows + 1) / 2 if self.causal else rows * rows
        return 4.0 * batch * heads * dim * pairs

    def contenders(self) -> list[Contender]:
        causal = self.causal

        def ours(o: Any, out: Tensor | None = None) -> Tensor:
            return warpipe.attention(o[0], o[1], o[2], causal=causal, out=out)

        contenders = [Contender("warpipe", lambda o: ours(o, o[3]), ours)]
        from torch.nn.attention import SDPBackend

        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            call = self._torch(backend)
            contenders.append(Contender(name, call, call))
        fa3 = _flash_attention_3()
        if fa3 is not None:

            def third(o: Any) -> Tensor:
                result = fa3(o[0], o[1], o[2], causal=causal)
                return result[0] if isinstance(result, tuple) else result

            contenders.append(Contender("fa3", third, third))
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
        # The first and the last sequence and head, with 64 queries from the first to the last.
        picked = torch.linspace(0, rows - 1, min(rows, 64), device=q.device).long().unique()
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
        _, rows, heads, heads_kv, dim = self.shape
        mask = "causal" if self.causal else "full"
        shared = f"{heads} heads on {heads_kv}" if heads != heads_kv else f"{heads} heads"
        return f"head dim {dim}, {shared}, {mask}, by S", f"{rows}"

    def describe(self) -> str:
        batch, rows, heads, heads_kv, dim = self.shape
        shared = f"{heads}/{heads_kv}" if heads != heads_kv else str(heads)
        mask = "causal" if self.causal else "full"
        return f"D={dim} H={shared} B={batch} S={rows} {mask} {self.options['dtype']}"


def _flash_attention_3() -> Callable[..., Any] | None:
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        return None
    return flash_attn_func
