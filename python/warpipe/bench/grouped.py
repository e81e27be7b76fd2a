"""Products of groups of rows in turn with torch._grouped_mm, which calls CUTLASS's grouped GEMM."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

import warpipe

from .workload import _BOUNDS, Contender, Workload, relative_error

#: Groups, mean rows of a group, N and K; and how the rows are divided.
_EXPERTS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    # DeepGEMM's shapes for prefill and for decoding.
    ((4, 8192, 4096, 7168), {"rows": "even"}),
    ((8, 4096, 7168, 2048), {"rows": "even"}),
    ((128, 64, 1536, 2048), {"rows": "even"}),
    ((64, 256, 4096, 2048), {"rows": "even"}),
    # Some experts get many rows, and some get none.
    ((8, 1000, 4096, 7168), {"rows": "uneven"}),
    ((64, 100, 4096, 2048), {"rows": "uneven"}),
    ((128, 20, 1536, 2048), {"rows": "uneven"}),
    ((32, 5, 7168, 2048), {"rows": "uneven"}),
]


class Grouped(Workload):
    """D[rows of group g] = x[rows of group g] @ weight[g].T of bf16, with weights [G, N, K]."""

    kind = "grouped"
    dimensions = ("G", "M", "N", "K")
    suites = {"experts": _EXPERTS}

    def __init__(self, shape: Sequence[int], rows: str = "even") -> None:
        super().__init__(shape, dtype="bf16", rows=rows)
        self.uneven = rows == "uneven"

    def sizes(self) -> list[int]:
        """Rows of each group. Uneven ones rise from 0 to three times the mean, with an empty group among each four."""
        groups, mean, _, _ = self.shape
        if not self.uneven:
            return [mean] * groups
        sizes = [0 if g % 4 == 0 else (g * 37 % groups) * 3 * mean // groups for g in range(groups)]
        sizes[-1] += max(0, groups * mean - sum(sizes))
        return sizes

    def operands(self, seed: int) -> tuple[Tensor, ...]:
        groups, _, n, k = self.shape
        generator = torch.Generator("cuda").manual_seed(seed)
        sizes = torch.tensor(self.sizes(), device="cuda")
        offs = sizes.cumsum(0).to(torch.int32)
        rows = int(offs[-1])
        x = torch.randn(rows, k, generator=generator, device="cuda").bfloat16()
        weight = torch.empty(groups, n, k, dtype=torch.bfloat16, device="cuda")
        for of_group in weight:
            of_group.copy_(torch.randn(n, k, generator=generator, device="cuda"))
        return x, weight, offs, torch.empty(rows, n, dtype=torch.bfloat16, device="cuda")

    def bytes_of_a_set(self) -> int:
        _, _, n, k = self.shape
        sizes = self.sizes()
        return 2 * k * (sum(sizes) + n * sum(size > 0 for size in sizes))

    def flops(self) -> float:
        _, _, n, k = self.shape
        return 2.0 * sum(self.sizes()) * n * k

    def contenders(self) -> list[Contender]:
        ours = Contender(
            "warpipe",
            lambda o: warpipe.grouped_mm(o[0], o[1].transpose(1, 2), o[2], out=o[3]),
            lambda o: warpipe.grouped_mm(o[0], o[1].transpose(1, 2), o[2]),
        )
        # It takes no output.
        theirs = lambda o: torch._grouped_mm(o[0], o[1].transpose(1, 2), offs=o[2])  # noqa: E731
        return [ours, Contender("torch", theirs, theirs)]

    def error(self, operands: Any, result: Tensor) -> float:
        x, weight, offs, _ = operands
        worst, begin = 0.0, 0
        for of_group, end in zip(weight, offs.tolist()):
            if end > begin:
                worst = max(worst, relative_error(x[begin:end], of_group, result[begin:end]))
            begin = end
        return worst / _BOUNDS[torch.bfloat16]
