"""Times products and attention on a GPU in turn with torch, in one process.

``python -m warpipe.bench --suite square``, ``python -m warpipe.bench scaled``, ``grouped`` and ``attention``
are the commands. A :class:`~warpipe.bench.workload.Workload` makes
operands and names the contenders, :mod:`~warpipe.bench.timing` runs them in turn, and
:mod:`~warpipe.bench.report` prints the result. Another kind of kernel is one more workload.
"""

from .attention import Attention
from .grouped import Grouped
from .report import Line, Report
from .scaled import Scaled
from .timing import Settings, Timing, interleave
from .workload import Contender, Gemm, Workload

#: All kinds by name.
WORKLOADS: dict[str, type[Workload]] = {kind.kind: kind for kind in (Gemm, Scaled, Grouped, Attention)}

__all__ = [
    "WORKLOADS",
    "Attention",
    "Contender",
    "Gemm",
    "Grouped",
    "Line",
    "Report",
    "Scaled",
    "Settings",
    "Timing",
    "Workload",
    "interleave",
]
