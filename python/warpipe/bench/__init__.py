"""Times products on a GPU in turn with torch, in one process.

``python -m warpipe.bench --suite square`` is the command. A :class:`~warpipe.bench.workload.Workload` makes
operands and names the contenders, :mod:`~warpipe.bench.timing` runs them in turn, and
:mod:`~warpipe.bench.report` prints the result. Another kind of kernel is one more workload.
"""

from .report import Line, Report
from .timing import Settings, Timing, interleave
from .workload import WORKLOADS, Contender, Gemm, Workload

__all__ = [
    "WORKLOADS",
    "Contender",
    "Gemm",
    "Line",
    "Report",
    "Settings",
    "Timing",
    "Workload",
    "interleave",
]
