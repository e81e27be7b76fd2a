"""bmm: batches of products of tensors in any layout, on the model of the SM."""

import ml_dtypes
import numpy as np
import pytest
import warpipe
from conftest import assert_close

TYPES = {"float16": (np.float16, 2.0**-11), "bfloat16": (ml_dtypes.bfloat16, 2.0**-8)}


def normal(rng, shape, dtype, turned=False):
    """A normal array; if `turned`, the elements of its columns are adjacent."""
    if turned:
        return np.swapaxes(normal(rng, (*shape[:-2], shape[-1], shape[-2]), dtype), -1, -2)
    return rng.standard_normal(shape).astype(dtype)


def f64(x):
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
def test_layouts(rng, name, a_turned, b_turned):
    dtype, eps = TYPES[name]
    a, b = normal(rng, (3, 33, 40), dtype, a_turned), normal(rng, (3, 40, 72), dtype, b_turned)
    result = warpipe.bmm(a, b)
    assert (result.dtype, result.shape) == (dtype, (3, 33, 72))
    assert_close(result, f64(a) @ f64(b), 40, 1.5 * eps)


@pytest.mark.parametrize("name", TYPES)
def test_one_matrix_for_all(rng, name):
    dtype, eps = TYPES[name]
    a, b = normal(rng, (3, 33, 40), dtype), normal(rng, (40, 72), dtype)
    for shared in (b, b[None], np.broadcast_to(b, (3, 40, 72))):
        assert_close(warpipe.bmm(a, shared), f64(a) @ f64(b), 40, 1.5 * eps)
    assert warpipe.bmm(a[0], b).shape == (33, 72)
    assert_close(warpipe.bmm(a[0], b), f64(a[0]) @ f64(b), 40, 1.5 * eps)


def test_a_result_by_columns(rng):
    a, b = normal(rng, (2, 40, 24), np.float16), normal(rng, (2, 24, 33), np.float16)
    out = np.swapaxes(np.zeros((2, 33, 40), np.float16), 1, 2)
    assert warpipe.bmm(a, b, out=out) is out
    assert_close(out, f64(a) @ f64(b), 24, 2.0**-10)


def test_c(rng):
    a, b = normal(rng, (3, 33, 40), np.float16), normal(rng, (3, 40, 72), np.float16)
    c = normal(rng, (3, 33, 72), np.float16)
    right = 0.5 * f64(a) @ f64(b) - 2 * f64(c)
    assert_close(warpipe.bmm(a, b, c, alpha=0.5, beta=-2.0), right, 40, 2.0**-10)
    assert_close(warpipe.bmm(a, b, c[0]), f64(a) @ f64(b) + f64(c[0]), 40, 2.0**-10)
    assert_close(warpipe.bmm(a, b, np.full_like(c, np.nan), beta=0.0), f64(a) @ f64(b), 40, 2.0**-10)
    assert warpipe.bmm(a, b, c, alpha=0.5, beta=-2.0, out=c) is c
    assert_close(c, right, 40, 2.0**-10)


def test_lines_of_any_length(rng):
    a, b = normal(rng, (2, 5, 37), np.float16, True), normal(rng, (2, 37, 11), np.float16)
    assert_close(warpipe.bmm(a, b), f64(a) @ f64(b), 37, 2.0**-10)
    assert (warpipe.bmm(a[:, :, :0], b[:, :0]) == 0).all()


def test_refusals(rng):
    a, b = normal(rng, (2, 16, 24), np.float16), normal(rng, (3, 24, 16), np.float16)
    with pytest.raises(ValueError, match="as many matrices, or one for all"):
        warpipe.bmm(a, b, out=np.zeros((2, 16, 16), np.float16))
    with pytest.raises(ValueError, match="one of its last two strides must be 1"):
        warpipe.bmm(a[:, ::2, ::2], b[:2, :12], out=np.zeros((2, 8, 16), np.float16))
    with pytest.raises(ValueError, match=r"c \[2, 16, 8\]: \[2, 16, 16\], as the result, or one"):
        warpipe.bmm(a, b[:2], np.zeros((2, 16, 8), np.float16))
    with pytest.raises(ValueError, match="its last stride must be 1, as that of the result"):
        warpipe.bmm(a, b[:2], np.swapaxes(np.zeros((2, 16, 16), np.float16), 1, 2))
