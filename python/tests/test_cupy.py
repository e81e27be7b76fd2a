"""Arrays of cupy: a result of cupy's, on cupy's current stream. A stand-in for cupy and for the native calls; no GPU."""

import sys
import types

import ml_dtypes
import numpy as np
import pytest
import warpipe
from warpipe import _dispatch

STREAM = 0x51


class Array:
    """As much of an array of cupy as a call looks at."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)


Array.__module__ = "cupy"


@pytest.fixture
def calls(monkeypatch):
    """The native calls: the name, the result and the stream of each."""
    made = []

    def record(name, out, stream):
        return lambda *arguments: made.append((name, arguments[out], arguments[stream]))

    places = [("bmm", 4, 5), ("typed_mm", 3, 7), ("grouped_mm", 3, 4), ("grouped_mm_array", 3, 6), ("fused_linear", 4, 6)]
    for name, out, stream in places:
        monkeypatch.setattr(_dispatch._native, name, record(name, out, stream))
    cupy = types.ModuleType("cupy")
    cupy.empty = lambda shape, dtype: Array(shape, dtype)
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=STREAM))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return made


BF16, INT8, F32 = ml_dtypes.bfloat16, np.int8, np.float32
CALLS = [
    ("bmm", lambda out: warpipe.bmm(Array((3, 4, 16), BF16), Array((3, 16, 8), BF16), out=out), (3, 4, 8), BF16),
    ("typed_mm", lambda out: warpipe.int_mm(Array((4, 16), INT8), Array((16, 8), INT8), out=out), (4, 8), np.int32),
    ("typed_mm", lambda out: _dispatch.tf32_matmul(Array((4, 16), F32), Array((16, 8), F32), out), (4, 8), F32),
    (
        "grouped_mm",
        lambda out: warpipe.grouped_mm(Array((4, 16), BF16), Array((2, 16, 8), BF16), Array((2,), np.int32), out=out),
        (4, 8),
        BF16,
    ),
    (
        "grouped_mm_array",
        lambda out: warpipe.grouped_mm_array(
            Array((64,), BF16), Array((4, 8), BF16), Array((2, 9), np.int64),
            out=out, output_size=24 if out is None else None,
        ),
        (24,),
        BF16,
    ),
    (
        "fused_linear",
        lambda out: warpipe.fused_linear(Array((5, 4, 16), BF16), Array((32, 16), BF16), activation="swiglu", out=out),
        (5, 4, 16),
        BF16,
    ),
]


@pytest.mark.parametrize("name,call,shape,dtype", CALLS)
def test_results_and_streams(calls, name, call, shape, dtype):
    result = call(None)
    assert (type(result), result.shape, result.dtype) == (Array, shape, np.dtype(dtype))
    assert call(out := Array(shape, dtype)) is out
    assert calls == [(name, result, STREAM), (name, out, STREAM)]
