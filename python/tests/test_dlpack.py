"""Tensors of any library: DLPack's capsules, and the interfaces of numpy and numba."""

import gc
import weakref

import numpy as np
import pytest
import warpipe
from capsules import FakeCuda, FakeHost

A, W = np.ones((4, 16), np.float16), np.full((8, 16), 2, np.float16)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
def test_capsules_of_both_kinds_are_taken_and_given_back(version):
    a, b = FakeHost(A, version=version), FakeHost(W.T, version=version)
    out = np.zeros((4, 8), np.float16)
    warpipe.matmul(a, b, out=out)
    assert (out == 32).all()
    assert (a.lent, b.lent) == (0, 0)


def test_no_strides_means_no_gaps_and_the_offset_counts():
    a = FakeHost(A)
    a.strides, a.addr, a.offset = None, a.addr - 64, 64
    out = np.zeros((4, 8), np.float16)
    assert warpipe.linear(a, W, out=out) is out
    assert (out == 32).all()


def test_another_major_version_is_refused_and_given_back():
    a = FakeHost(A, version=(2, 0))
    with pytest.raises(BufferError, match="version 2"):
        warpipe.linear(a, W)
    assert a.lent == 0


def test_a_read_only_result_is_refused():
    out = FakeHost(np.zeros((4, 8), np.float16), flags=1)
    with pytest.raises(ValueError, match="read-only"):
        warpipe.linear(A, W, out=out)
    assert out.lent == 0 and (out.array == 0).all()


def test_a_capsule_that_was_used_is_refused():
    class Twice(FakeHost):
        def __dlpack__(self, **arguments):
            self.capsule = getattr(self, "capsule", None) or super().__dlpack__(**arguments)
            return self.capsule

    a = Twice(A)
    # The first check takes it, and the run after it finds it used.
    with pytest.raises(TypeError, match="no capsule with an unused tensor"):
        warpipe.linear(a, W)


def test_the_producer_is_told_the_stream_of_a_gpu_and_only_of_a_gpu():
    host = FakeHost(A)
    warpipe.linear(host, W)
    assert set(host.streams) == {None}
    a, b = FakeCuda((4, 16), (16, 1)), FakeCuda((8, 16), (16, 1))
    out = FakeCuda((4, 8), (8, 1), addr=0x80000, flags=1)
    with pytest.raises(ValueError, match="read-only"):
        warpipe.linear(a, b, out=out)
    assert (a.lent, b.lent, out.lent) == (0, 0, 0)


def test_a_cuda_array_is_described_by_its_interface():
    class Array:
        def __init__(self, shape, strides, addr=0x10000):
            self.__cuda_array_interface__ = {
                "shape": shape, "strides": strides, "typestr": "<f2", "data": (addr, False), "version": 3,
            }  # fmt: skip

    with pytest.raises(ValueError, match="starts at 0x10008, which is 8 bytes past"):
        warpipe.linear(Array((4, 16), None, 0x10008), Array((8, 16), None))
    with pytest.raises(ValueError, match="a stride of 3 bytes; its elements have 2"):
        warpipe.linear(Array((4, 16), (3, 2)), Array((8, 16), None))


def test_nothing_keeps_an_operand_alive():
    class Mine(np.ndarray):
        pass

    a = A.view(Mine)
    seen = weakref.ref(a)
    warpipe.linear(a, W)
    del a
    gc.collect()
    assert seen() is None
