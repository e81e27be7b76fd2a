"""Bad input: an exception with the numbers, and nothing is written."""

import ctypes

import numpy as np
import pytest
import warpipe
from capsules import FakeCuda

A, B = np.ones((4, 16), np.float16), np.ones((16, 8), np.float16)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"a": np.ones((4, 16), np.float32)}, TypeError, "a has elements of type float32; float16 or bfloat16"),
        ({"a": np.ones((4, 16), np.int8)}, TypeError, "int8"),
        ({"a": np.ones((4, 16), ">f2")}, TypeError, ">f2"),
        ({"a": np.ones((4, 16), "S3")}, TypeError, "S3"),
        ({"a": [[1.0] * 16] * 4}, TypeError, "a is a list"),
        ({"b": None}, TypeError, "NoneType"),
        ({"b": np.ones((15, 8), np.float16)}, ValueError, r"b \[15, 8\].*K = 16, not 15"),
        ({"b": np.ones((2, 16, 8), np.float16)}, ValueError, r"\[2, 16, 8\].*leading dimensions must be 1"),
        ({"b": np.ones(16, np.float16)}, ValueError, "b has 1 dimensions"),
        ({"a": np.ones((), np.float16)}, ValueError, "a has 0 dimensions"),
        ({"a": np.ones((1,) * 9, np.float16)}, ValueError, "9 dimensions"),
        ({"a": A[::-1]}, ValueError, r"strides \[-16, 1\].*negative"),
        ({"a": np.lib.stride_tricks.as_strided(A, (4, 16), (8, 2))}, ValueError, r"strides \[4, 1\].*overlap"),
        ({"c": np.ones((8,), np.float16)}, ValueError, r"c \[8\].*\[4, 8\]"),
        ({"c": np.broadcast_to(np.ones(8, np.float16), (4, 8))}, ValueError, "overlap"),
        ({"c": np.ones((4, 8), np.float16), "out_dtype": "float32"}, TypeError, "c has elements of type float16"),
        ({"beta": 2.0}, ValueError, "beta is 2"),
        ({"out_dtype": "int8"}, TypeError, "out_dtype is int8"),
        ({"out": np.ones((4, 9), np.float16)}, ValueError, r"out \[4, 9\].*\[4, 8\]"),
        ({"out": np.ones((8, 4), np.float16).T}, ValueError, "in place"),
        ({"out": np.ones((4, 8), np.int16)}, TypeError, "out has elements of type int16"),
        ({"out": np.ones((4, 8), np.float32), "out_dtype": "float16"}, TypeError, "out has elements of type float32"),
    ],
)
def test_an_argument_is_refused(change, error, text):
    arguments = {"a": A, "b": B, **change}
    out = arguments.setdefault("out", np.full((4, 8), 7, np.float16)) if "out_dtype" not in change else None
    before = None if out is None else out.copy()
    with pytest.raises(error, match=text):
        warpipe.matmul(arguments.pop("a"), arguments.pop("b"), arguments.pop("c", None), **arguments)
    if out is not None:
        np.testing.assert_array_equal(out, before)


def test_out_may_not_be_read_only_or_overlap_an_operand():
    out = np.full((4, 8), 7, np.float16)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        warpipe.matmul(A, B, out=out)
    memory = np.ones(256, np.float16)
    a, out = memory[:64].reshape(4, 16), memory[60:92].reshape(4, 8)
    with pytest.raises(ValueError, match="overlap a at 0x"):
        warpipe.matmul(a, B, out=out)
    c = np.ones((4, 8), np.float16)
    with pytest.raises(ValueError, match="overlap c"):
        warpipe.matmul(A, B, c, out=c)
    assert (memory == 1).all() and (c == 1).all()


def test_memory_of_a_gpu_is_checked_before_the_gpu_is_asked():
    a, b = FakeCuda((4, 16), (16, 1)), FakeCuda((16, 8), (1, 16))
    with pytest.raises(ValueError, match="starts at 0x10002, which is 2 bytes past a multiple of 16"):
        warpipe.matmul(FakeCuda((4, 16), (16, 1), addr=0x10002), b)
    with pytest.raises(ValueError, match="b is on cuda:1 and a is on cuda:0"):
        warpipe.matmul(a, FakeCuda((16, 8), (1, 16), device=1))
    with pytest.raises(ValueError, match="b is on cpu and a is on cuda:0"):
        warpipe.matmul(a, B)
    with pytest.raises(ValueError, match="negative"):
        warpipe.matmul(FakeCuda((4, 16), (-16, 1)), b)
    with pytest.raises(ValueError, match="out is needed"):
        warpipe.matmul(a, b)
    with pytest.raises(ValueError, match="b must have rows of adjacent elements"):
        warpipe.matmul(a, FakeCuda((16, 8), (8, 1)))
    with pytest.raises(ValueError, match="DLPack device type 10"):
        warpipe.matmul(FakeCuda((4, 16), (16, 1), kind=10), FakeCuda((16, 8), (1, 16), kind=10))


def test_a_gpu_that_is_not_there_is_an_error_of_the_package():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("there is a driver, which would get an address that is none")
    a, b = FakeCuda((4, 16), (16, 1)), FakeCuda((16, 8), (1, 16))
    out = FakeCuda((4, 8), (8, 1), addr=0x80000)
    with pytest.raises(warpipe.Error, match="libcuda"):
        warpipe.matmul(a, b, out=out)
    # Whatever happened, every tensor went back to its library.
    assert (a.lent, b.lent, out.lent) == (0, 0, 0)
