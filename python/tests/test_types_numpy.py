"""int8 and float32 as tf32, of numpy, on the model of the SM."""

import numpy as np
import pytest

import warpipe


def test_int8_of_numpy():
    generator = np.random.default_rng(1)
    a, weight = (generator.integers(-128, 128, (rows, 272), dtype=np.int8) for rows in (20, 48))
    result = warpipe.int_mm(a, weight.T)
    assert result.dtype == np.int32
    assert np.array_equal(result, a.astype(np.int64) @ weight.T.astype(np.int64))


def test_tf32_of_numpy():
    generator = np.random.default_rng(2)
    # Whole numbers are tf32, and their sums are exact.
    a, weight = (generator.integers(-9, 10, (rows, 72)).astype(np.float32) for rows in (20, 48))
    result = warpipe.matmul(a, weight.T, allow_tf32=True)
    assert result.dtype == np.float32 and np.array_equal(result, a @ weight.T)
    with pytest.raises(ValueError, match="takes a, b and out only"):
        warpipe.matmul(a, weight.T, alpha=2.0, allow_tf32=True)
    with pytest.raises((TypeError, ValueError), match="float32"):
        warpipe.matmul(a.astype(np.float16), weight.T, allow_tf32=True)
