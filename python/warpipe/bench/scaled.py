"""Products of quantised operands in turn with torch._scaled_mm, which calls cuBLASLt."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

import warpipe

from .suites import SUITES
from .workload import _TYPES, Contender, Gemm, relative_error

#: What rounding the result leaves, twice; sums in the tensor cores are short.
_BOUNDS = {torch.bfloat16: 4e-3, torch.float16: 1e-3, torch.float32: 2e-4}
_FAST = 1e-2

#: Shapes of DeepGEMM's table, and squares.
_DENSE = [
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 7168, 16384),
    (4096, 4096, 7168),
    (4096, 24576, 1536),
    (4096, 2112, 7168),
]


class Scaled(Gemm):
    """D = (scale_a * x) @ (scale_b * weight.T) of float8_e4m3fn, with weights [N, K] as a Linear layer stores them."""

    kind = "scaled"
    suites = {name: [(shape, {}) for shape in shapes] for name, shapes in {"dense": _DENSE, **SUITES}.items()}

    def __init__(
        self, shape: Sequence[int], out_dtype: str | None = None, scales: str = "tensor", fast_accum: bool = False
    ) -> None:
        super().__init__(shape, dtype="bf16", out_dtype=out_dtype)
        if scales not in ("tensor", "row", "block"):
            raise ValueError(f"scales of a {scales}; tensor, row or block is right")
        if scales == "block" and fast_accum:
            raise ValueError("block scales are applied to each 128 of K; leave --fast-accum out")
        if self.shape[2] % 16:
            raise ValueError(f"K is {self.shape[2]}; torch._scaled_mm needs a multiple of 16")
        self.scales, self.fast_accum = scales, fast_accum
        self.options = {
            "dtype": "e4m3",
            "out_dtype": out_dtype or "bf16",
            "scales": scales,
            "accum": "fast" if fast_accum else "promoted",
        }
        self.dtype, self.out_dtype = torch.float8_e4m3fn, _TYPES[out_dtype or "bf16"]

    def operands(self, seed: int) -> tuple[Tensor, ...]:
        m, n, k = self.shape
        x, weight, out = super().operands(seed)
        generator = torch.Generator("cuda").manual_seed(seed + 1)

        def scale(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device="cuda") + 0.5

        if self.scales == "row":
            return x, weight, out, scale(m, 1), scale(1, n)
        if self.scales == "block":
            # The scales of a block of K lie together, at multiples of 16 bytes.
            blocks, rows = -(-k // 128), -(-m // 4) * 4
            return x, weight, out, scale(blocks, rows)[:, :m].t(), scale(-(-n // 128), blocks).t()
        return x, weight, out, scale(), scale()

    def contenders(self) -> list[Contender]:
        def call(function: Any, o: Any, out: Tensor | None) -> Tensor:
            return function(
                o[0], o[1].t(), o[3], o[4], out_dtype=self.out_dtype, use_fast_accum=self.fast_accum, out=out
            )

        def theirs(o: Any, out: Tensor | None) -> Tensor:
            # Its argument `out` is another overload.
            more = {} if out is None else {"out": out}
            return torch._scaled_mm(
                o[0], o[1].t(), o[3], o[4], out_dtype=self.out_dtype, use_fast_accum=self.fast_accum, **more
            )

        return [
            Contender("warpipe", lambda o: call(warpipe.scaled_mm, o, o[2]), lambda o: call(warpipe.scaled_mm, o, None)),
            Contender("torch", lambda o: theirs(o, o[2]), lambda o: theirs(o, None)),
        ]

    def error(self, operands: Any, result: Tensor) -> float:
        x, weight, _, scale_a, scale_b = operands
        bound = _FAST if self.fast_accum else _BOUNDS[result.dtype]
        scale_b = scale_b.t() if scale_b.dim() else scale_b
        if self.scales == "block":
            k = x.shape[1]
            scale_a = scale_a.repeat_interleave(128, 1)[:, :k]
            scale_b = scale_b.repeat_interleave(128, 0)[: weight.shape[0]].repeat_interleave(128, 1)[:, :k]
        return relative_error(x, weight, result, scale_a, scale_b) / bound
