"""What is timed: operands, contenders, and the reference for their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, ClassVar, NamedTuple, Sequence

import torch
from torch import Tensor

import warpipe

from .suites import SUITES

#: Relative Frobenius error that rounding the result to its type leaves, with room for the sums in f32.
_BOUNDS = {torch.bfloat16: 4e-3, torch.float16: 5e-4, torch.float32: 1e-6}
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Contender(NamedTuple):
    """One way to compute the result from a set of operands."""

    name: str
    #: Computes the result of a set of operands, into the set's output where the library can. In a CUDA graph, an
    #: allocation costs nothing.
    into: Callable[[Any], object]
    #: Returns the result in a new tensor, as eager code does.
    eager: Callable[[Any], Tensor]
    #: Whether it computes the workload's result. What does less is timed for comparison, and not checked.
    checked: bool = True


class Workload(ABC):
    """A kind of kernel with a shape. A subclass per kind; its contenders are those libraries that have it."""

    #: Name for the command line.
    kind: ClassVar[str]
    #: Names of the numbers of a shape.
    dimensions: ClassVar[tuple[str, ...]]
    #: How to launch if the command does not say.
    modes: ClassVar[tuple[str, ...]] = ("graph", "eager")
    #: Shapes with their options, by the name of the suite; the first is the default one.
    suites: ClassVar[dict[str, list[tuple[tuple[int, ...], dict[str, Any]]]]]

    def __init__(self, shape: Sequence[int], **options: Any) -> None:
        if len(shape) != len(self.dimensions):
            raise ValueError(f"shape {tuple(shape)}: {self.kind} has the sizes {', '.join(self.dimensions)}")
        self.shape = tuple(shape)
        self.options = options

    @abstractmethod
    def operands(self, seed: int) -> Any:
        """One set of operands with its output, on the current device."""

    @abstractmethod
    def bytes_of_a_set(self) -> int:
        """Bytes that a launch reads, which decide how many sets are in rotation."""

    @abstractmethod
    def flops(self) -> float:
        """Floating-point operations of one launch."""

    def bytes_read(self) -> int | None:
        """Bytes that one launch has to read, for a kernel whose rate is that of the memory."""
        return None

    @abstractmethod
    def contenders(self) -> list[Contender]:
        """Who takes part; warpipe is the first. A contender whose call raises an exception is left out."""

    @abstractmethod
    def error(self, operands: Any, result: Tensor) -> float:
        """Error of a result relative to the allowed one; above 1, and with NaN, it is wrong."""

    def panel(self) -> tuple[str, str]:
        """Of the picture with this line: the title, and what the line is called in it."""
        return " ".join(str(value) for value in self.options.values()), "x".join(str(size) for size in self.shape)

    def describe(self) -> str:
        """The shape and the options in words."""
        sizes = " ".join(f"{name}={size}" for name, size in zip(self.dimensions, self.shape))
        return f"{sizes} {' '.join(str(value) for value in self.options.values())}".strip()


class Gemm(Workload):
    """D = x @ weight.T, with weights [N, K] as a Linear layer stores them."""

    kind = "gemm"
    dimensions = ("M", "N", "K")
    suites = {name: [(shape, {}) for shape in shapes] for name, shapes in SUITES.items()}

    def __init__(self, shape: Sequence[int], dtype: str = "bf16", out_dtype: str | None = None) -> None:
        super().__init__(shape, dtype=dtype, out_dtype=out_dtype or dtype)
        self.dtype, self.out_dtype = _TYPES[dtype], _TYPES[out_dtype or dtype]

    def operands(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        m, n, k = self.shape
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            # Made in pieces, so that the f32 values of a large matrix do not need four times its memory.
            out = torch.empty(*shape, dtype=self.dtype, device="cuda")
            for piece in out.split(max(1, (1 << 26) // max(1, shape[1]))):
                piece.copy_(torch.randn(piece.shape, generator=generator, device="cuda"))
            return out

        return normal(m, k), normal(n, k), torch.empty(m, n, dtype=self.out_dtype, device="cuda")

    def bytes_of_a_set(self) -> int:
        m, n, k = self.shape
        return (m + n) * k * self.dtype.itemsize

    def flops(self) -> float:
        m, n, k = self.shape
        return 2.0 * m * n * k

    def contenders(self) -> list[Contender]:
        out_dtype = None if self.out_dtype == self.dtype else self.out_dtype
        ours = Contender(
            "warpipe",
            lambda o: warpipe.matmul(o[0], o[1].t(), out=o[2]),
            lambda o: warpipe.matmul(o[0], o[1].t(), out_dtype=out_dtype),
        )
        if out_dtype is None:
            theirs = Contender(
                "torch",
                lambda o: torch.matmul(o[0], o[1].t(), out=o[2]),
                lambda o: torch.matmul(o[0], o[1].t()),
            )
        else:
            # torch.mm has a result of another type since 2.8.
            theirs = Contender(
                "torch",
                lambda o: torch.mm(o[0], o[1].t(), out_dtype=out_dtype, out=o[2]),
                lambda o: torch.mm(o[0], o[1].t(), out_dtype=out_dtype),
            )
        return [ours, theirs]

    def error(self, operands: Any, result: Tensor) -> float:
        bound = _BOUNDS[result.dtype]
        if result.dtype == torch.float32:
            # The tensor core truncates, so the error grows with the number of partial sums.
            bound *= max(1.0, self.shape[2] / 512)
        return relative_error(operands[0], operands[1], result) / bound


def relative_error(x: Tensor, weight: Tensor, result: Tensor, scale_x: Any = 1.0, scale_weight: Any = 1.0) -> float:
    """Relative Frobenius error of a product with scales of tensors, of rows as columns [rows, 1], or of all elements."""
    # Whole rows and whole columns: all of a small product, 64 of each of a large one.
    rows = torch.linspace(0, x.shape[0] - 1, min(x.shape[0], 64), device="cuda").long().unique()
    columns = torch.linspace(0, weight.shape[0] - 1, min(weight.shape[0], 64), device="cuda").long().unique()

    def of(tensor: Tensor, scale: Any, which: Tensor | slice) -> Tensor:
        # Types of 8 bits can't be indexed.
        values = tensor.view(torch.uint8)[which].view(tensor.dtype) if tensor.dtype.itemsize == 1 else tensor[which]
        picked = scale[which] if isinstance(scale, Tensor) and scale.dim() else scale
        return values.double() * picked

    every = slice(None)
    worst = 0.0
    for reference, part in (
        (of(x, scale_x, rows) @ of(weight, scale_weight, every).t(), result[rows]),
        (of(x, scale_x, every) @ of(weight, scale_weight, columns).t(), result[:, columns]),
    ):
        error = torch.linalg.norm(part.double() - reference) / torch.linalg.norm(reference)
        worst = max(worst, error.item())
    return worst
