"""Products of other types in turn with torch: results of e4m3, e5m2, int8 and tf32."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

import warpipe

from .workload import Contender, Gemm, relative_error

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

#: Operands, result, and the relative error that rounding the result leaves, twice.
_TYPES: dict[str, tuple[tuple[torch.dtype, torch.dtype], torch.dtype, float]] = {
    "e4m3": ((E4M3, E4M3), E4M3, 6e-2),
    "e4m3+amax": ((E4M3, E4M3), E4M3, 6e-2),
    "e5m2": ((E5M2, E4M3), torch.bfloat16, 4e-3),
    "int8": ((torch.int8, torch.int8), torch.int32, 1e-12),
    "tf32": ((torch.float32, torch.float32), torch.float32, 1e-3),
}
_SHAPES = [(4096, 4096, 4096), (8192, 14336, 4096), (4096, 7168, 2048), (128, 7168, 16384)]


class Types(Gemm):
    """D = x @ weight.T, with weights [N, K]. Results of e4m3 have a scale, and their maximum with ``amax``; scales of e5m2
    are of tensors. ``product`` is the same product with a result of bf16, for comparison."""

    kind = "types"
    #: What the command times, and what of it has fast accumulation.
    names = tuple(_TYPES)
    accumulating = ("e4m3", "e4m3+amax", "e5m2")
    suites = {"types": [(shape, {"types": name}) for name in _TYPES for shape in _SHAPES]}

    def __init__(self, shape: Sequence[int], types: str = "e4m3", fast_accum: bool = False) -> None:
        super().__init__(shape)
        if fast_accum and types not in self.accumulating:
            raise ValueError(f"sums of {types} are never short; leave --fast-accum out")
        if self.shape[2] % 16:
            raise ValueError(f"K is {self.shape[2]}; torch._scaled_mm needs a multiple of 16")
        self.types, self.fast_accum = types, fast_accum
        self.pair, self.out_dtype, self.bound = _TYPES[types]
        self.dtype = self.pair[0]
        self.scaled = self.out_dtype in (E4M3, torch.bfloat16)
        self.options = {"types": types} | ({"accum": "fast" if fast_accum else "promoted"} if self.scaled else {})

    def operands(self, seed: int) -> dict[str, Any]:
        m, n, k = self.shape
        generator = torch.Generator("cuda").manual_seed(seed)

        def random(rows: int, dtype: torch.dtype) -> Tensor:
            if dtype == torch.int8:
                return torch.randint(-128, 128, (rows, k), dtype=dtype, device="cuda", generator=generator)
            return torch.randn(rows, k, device="cuda", generator=generator).to(dtype)

        def one(value: float) -> Tensor:
            return torch.tensor(value, device="cuda")

        return {
            "x": random(m, self.pair[0]),
            "weight": random(n, self.pair[1]),
            "scales": (one(0.75), one(1.25)),
            # The largest results come near the largest e4m3, and none beyond it.
            "scale_result": one(50 * k**-0.5),
            "amax": one(0.0),
            "out": torch.empty(m, n, dtype=self.out_dtype, device="cuda"),
            "product": torch.empty(m, n, dtype=torch.bfloat16, device="cuda"),
        }

    def contenders(self) -> list[Contender]:
        ours = Contender("warpipe", lambda o: self._ours(o, o["out"]), lambda o: self._ours(o, None))
        # torch 2.11 takes a scale_result, and does nothing with it.
        theirs = Contender(
            "torch", lambda o: self._theirs(o, o["out"]), lambda o: self._theirs(o, None), checked=self.out_dtype != E4M3
        )
        if self.out_dtype != E4M3:
            return [ours, theirs]
        product = Contender(
            "product", lambda o: self._product(o, o["product"]), lambda o: self._product(o, None), checked=False
        )
        return [ours, product, theirs]

    def _ours(self, o: dict[str, Any], out: Tensor | None) -> Tensor:
        x, weight = o["x"], o["weight"].t()
        if self.types == "int8":
            return warpipe.int_mm(x, weight, out=out)
        if self.types == "tf32":
            return warpipe.matmul(x, weight, out=out, allow_tf32=True)
        more: dict[str, Any] = {"use_fast_accum": self.fast_accum, "out": out, "out_dtype": self.out_dtype}
        if self.out_dtype == E4M3:
            more["scale_result"] = o["scale_result"]
        if self.types == "e4m3+amax":
            more["amax"] = o["amax"]
        return warpipe.scaled_mm(x, weight, *o["scales"], **more)

    def _product(self, o: dict[str, Any], out: Tensor | None) -> Tensor:
        return warpipe.scaled_mm(o["x"], o["weight"].t(), *o["scales"], use_fast_accum=self.fast_accum, out=out)

    def _theirs(self, o: dict[str, Any], out: Tensor | None) -> Tensor:
        x, weight = o["x"], o["weight"].t()
        # Their argument `out` is another overload.
        more: dict[str, Any] = {} if out is None else {"out": out}
        if self.types == "int8":
            return torch._int_mm(x, weight, **more)
        if self.types == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
            return torch.matmul(x, weight, **more)
        if self.out_dtype == E4M3:
            more["scale_result"] = o["scale_result"]
        return torch._scaled_mm(
            x, weight, *o["scales"], out_dtype=self.out_dtype, use_fast_accum=self.fast_accum, **more
        )

    def error(self, operands: dict[str, Any], result: Tensor) -> float:
        o, scales = operands, (1.0, 1.0)
        if self.scaled:
            scales = tuple(scale.item() for scale in o["scales"])
        if self.out_dtype == E4M3:
            scales = (scales[0] * o["scale_result"].item(), scales[1])
            # Types of 8 bits can't be indexed.
            result = result.bfloat16()
        return relative_error(o["x"], o["weight"], result, *scales) / self.bound
