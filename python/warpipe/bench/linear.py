"""Linear layers in one kernel, in turn with the product alone and with torch."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

import warpipe

from .workload import _BOUNDS, Contender, Gemm

#: M, N and K of the layers: a square, an expansion, and a small one.
_PLAIN = [(4096, 4096, 4096), (8192, 14336, 4096), (2048, 8192, 2048)]
#: Here N counts the gates and what belongs to them.
_GATED = [(4096, 8192, 4096), (8192, 28672, 4096)]


class Linear(Gemm):
    """activation(x @ weight.T + bias) + residual, or the gates of SwiGLU, with weights [N, K]."""

    kind = "linear"
    epilogues = ("bias", "bias+gelu", "bias+silu+residual", "swiglu")
    suites = {
        "layers": [(shape, {"epilogue": name}) for name in epilogues[:3] for shape in _PLAIN]
        + [(shape, {"epilogue": "swiglu"}) for shape in _GATED]
    }

    def __init__(self, shape: Sequence[int], dtype: str = "bf16", epilogue: str = "bias+gelu") -> None:
        super().__init__(shape, dtype=dtype)
        self.options = {"dtype": dtype, "epilogue": epilogue}
        links = epilogue.split("+")
        self.gated, self.bias, self.residual = epilogue == "swiglu", "bias" in links, "residual" in links
        self.activation = next((name for name in links if name not in ("bias", "residual")), None)
        if self.gated and self.shape[1] % 16:
            raise ValueError(f"N is {self.shape[1]}; gates and what belongs to them come in blocks of 16")

    def operands(self, seed: int) -> dict[str, Any]:
        m, n, k = self.shape
        x, weight, product = super().operands(seed)
        weight *= k**-0.5
        like = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=self.dtype)  # noqa: E731
        columns = n // 2 if self.gated else n
        return {
            "x": x,
            "weight": weight,
            # Gates and the others in blocks of 8, as the kernel takes them.
            "fused": warpipe.interleave_gates(*weight.chunk(2)) if self.gated else weight,
            "bias": like(n) if self.bias else None,
            "residual": like(m, n) if self.residual else None,
            "product": product,
            "out": torch.empty(m, columns, dtype=self.dtype, device="cuda"),
        }

    def contenders(self) -> list[Contender]:
        def ours(o: Any, out: Tensor | None) -> Tensor:
            return warpipe.fused_linear(
                o["x"], o["fused"], o["bias"], activation=self.activation, residual=o["residual"], out=out
            )

        def product(o: Any) -> Tensor:
            return warpipe.linear(o["x"], o["weight"], out=o["product"])

        def steps(o: Any) -> Tensor:
            return self._rest(F.linear(o["x"], o["weight"], o["bias"]), o)

        return [
            Contender("warpipe", self._quiet(lambda o: ours(o, o["out"])), self._quiet(lambda o: ours(o, None))),
            Contender("product", self._quiet(product), self._quiet(product), checked=False),
            Contender("torch", self._quiet(steps), self._quiet(steps)),
        ]

    @staticmethod
    def _quiet(call: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        """The call without autograd, which fused layers don't have."""
        return torch.no_grad()(call)

    def _rest(self, h: Tensor, o: Any) -> Tensor:
        """What comes behind the product and the bias."""
        if self.gated:
            gate, up = h.chunk(2, -1)
            return F.silu(gate) * up
        if self.activation:
            h = getattr(F, self.activation)(h)
        return h if o["residual"] is None else h + o["residual"]

    def error(self, operands: Any, result: Tensor) -> float:
        # 64 whole rows, or all.
        m = self.shape[0]
        rows = torch.linspace(0, m - 1, min(m, 64), device="cuda").long().unique()

        def double(tensor: Tensor | None, which: Any = slice(None)) -> Tensor | None:
            return None if tensor is None else tensor[which].double()

        o = operands
        h = F.linear(double(o["x"], rows), double(o["weight"]), double(o["bias"]))
        right = self._rest(h, {"residual": double(o["residual"], rows)})
        error = torch.linalg.norm(result[rows].double() - right) / torch.linalg.norm(right)
        # torch rounds twice: the product, and what becomes of it.
        return error.item() / (2 * _BOUNDS[result.dtype])
