"""GEMM and attention for NVIDIA Hopper GPUs, for torch, cupy, jax and numpy.

``matmul(a, b)`` is ``torch.matmul`` for matrices, ``linear(x, weight)`` is
``torch.nn.functional.linear``, ``bmm(a, b)`` is ``torch.bmm``, of tensors in any layout, ``fused_linear`` adds a bias, an
activation, a residual or the gates of SwiGLU to it, ``attention(q, k, v)`` is
``torch.nn.functional.scaled_dot_product_attention``, ``attention_varlen`` and
``attention_with_kvcache`` are flash-attention's for packed sequences and caches, ``scaled_mm(a, b, scale_a, scale_b)`` is
``torch._scaled_mm`` for 8-bit floats, ``int_mm(a, b)`` is ``torch._int_mm``, ``grouped_mm(a, b, offs)`` is
``torch._grouped_mm``, and ``grouped_mm_array(a, b, problems)`` computes products of different sizes in one launch. Tensors
on a GPU are read and written in place, on the stream on which their library works. Arrays of the host are computed on the
SM model: the GPU's kernels, run on the CPU, which is slow and finds every violation of their protocol.

``plan(a, b)`` and ``plan_attention(q, k, v)`` say which kernel computes it and how; ``tune(a, b)`` finds
the fastest kernel by timing; ``doctor()`` says what this machine has.
"""

from __future__ import annotations

import sys as _sys

from ._array import grouped_mm_array, packed_problems
from ._dispatch import (
    CopyWarning,
    Doctor,
    bmm,
    doctor,
    fused_linear,
    grouped_mm,
    int_mm,
    interleave_gates,
    load_tuning,
    plan,
    plan_attention,
    save_tuning,
    scaled_mm,
    tune,
)
from ._native import (
    AttentionPlan,
    CacheSeqlens,
    Error,
    Plan,
    __version__,
    attention,
    attention_varlen,
    attention_with_kvcache,
    linear,
    matmul,
)

__all__ = [
    "AttentionPlan",
    "CacheSeqlens",
    "CopyWarning",
    "Doctor",
    "Error",
    "Plan",
    "__version__",
    "attention",
    "attention_varlen",
    "attention_with_kvcache",
    "bmm",
    "doctor",
    "fused_linear",
    "grouped_mm",
    "grouped_mm_array",
    "int_mm",
    "interleave_gates",
    "linear",
    "load_tuning",
    "matmul",
    "packed_problems",
    "plan",
    "plan_attention",
    "save_tuning",
    "scaled_mm",
    "tune",
]

# With torch at hand, its operators are registered now, so that torch.compile knows them before the
# first call. Otherwise the first call with a tensor of torch does it, or `import warpipe.torch`.
if "torch" in _sys.modules:
    from . import torch as _torch  # noqa: F401
