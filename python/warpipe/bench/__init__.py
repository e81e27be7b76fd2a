"""Times products and attention on a GPU in turn with torch, in one process.

``python -m warpipe.bench --suite square`` is the command; ``linear``, ``scaled``, ``types``, ``grouped`` and ``attention``
behind ``warpipe.bench`` are other kinds. A :class:`~warpipe.bench.workload.Workload` makes operands and names the
contenders, :mod:`~warpipe.bench.timing` runs them in turn, and :mod:`~warpipe.bench.report` prints the result. Another kind
of kernel is one more workload.
"""

from .attention import Attention
from .grouped import Grouped
from .linear import Linear
from .report import Line, Report
from .scaled import Scaled
from .timing import Settings, Timing, interleave
from .types import Types
from .workload import Contender, Gemm, Workload

#: All kinds by name.
WORKLOADS: dict[str, type[Workload]] = {kind.kind: kind for kind in (Gemm, Linear, Scaled, Types, Grouped, Attention)}

__all__ = [
    "WORKLOADS",
    "Attention",
    "Contender",
    "Gemm",
    "Grouped",
    "Line",
    "Linear",
    "Report",
    "Scaled",
    "Settings",
    "Timing",
    "Types",
    "Workload",
    "interleave",
]
