"""Arrays of numpy: the GPU's kernels on the model of the SM."""

import ml_dtypes
import numpy as np
import pytest
import warpipe
from conftest import assert_close

TYPES = {"float16": (np.float16, 2.0**-11), "bfloat16": (ml_dtypes.bfloat16, 2.0**-8)}


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def f64(x):
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 48, 96), (5, 130, 33), (64, 8, 0), (0, 8, 16)])
def test_products_of_both_types(rng, name, shape):
    (m, n, k), (dtype, eps) = shape, TYPES[name]
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)
    reference = f64(a) @ f64(b)
    same = warpipe.matmul(a, b)
    assert same.dtype == dtype
    assert_close(same, reference, k, eps)
    wide = warpipe.matmul(a, b, out_dtype=np.float32)
    assert wide.dtype == np.float32
    assert_close(wide, reference, k, 2.0**-23)


def test_linear_is_matmul_with_the_transposed_weight(rng):
    x, w = normal(rng, (2, 3, 32), np.float16), normal(rng, (24, 32), np.float16)
    by_linear, by_matmul = warpipe.linear(x, w), warpipe.matmul(x, w.T)
    assert by_linear.shape == (2, 3, 24)
    np.testing.assert_array_equal(by_linear, by_matmul)
    assert_close(by_linear, f64(x) @ f64(w).T, 32, 2.0**-11)


def test_alpha_beta_and_c(rng):
    a, b = normal(rng, (40, 16), np.float16), normal(rng, (16, 24), np.float16)
    c = normal(rng, (40, 24), np.float32)
    product = f64(a) @ f64(b)
    # Without beta, C is added; c decides the result's type.
    added = warpipe.matmul(a, b, c)
    assert added.dtype == np.float32
    assert_close(added, product + c, 16, 2.0**-23)
    scaled = warpipe.matmul(a, b, c, alpha=-0.5, beta=2.0)
    assert_close(scaled, -0.5 * product + 2.0 * f64(c), 16, 2.0**-23)
    # BLAS does not read C when beta is 0.
    c[:] = np.nan
    assert_close(warpipe.matmul(a, b, c, beta=0.0), product, 16, 2.0**-23)


def test_views_and_out(rng):
    whole = normal(rng, (80, 64), np.float16)
    a, b = whole[8:72:2, 16:48], normal(rng, (40, 32), np.float16)[4:36].T
    target = np.full((32, 100), 7, np.float32)
    out = target[:, 10:42]
    assert warpipe.matmul(a, b, out=out) is out
    assert_close(out, f64(a) @ f64(b), 32, 2.0**-23)
    # Nothing outside of the view was written.
    assert (target[:, :10] == 7).all() and (target[:, 42:] == 7).all()


def test_read_only_operands_are_read(rng):
    a, b = normal(rng, (16, 16), np.float16), normal(rng, (16, 16), np.float16)
    a.flags.writeable = b.flags.writeable = False
    assert_close(warpipe.matmul(a, b), f64(a) @ f64(b), 16, 2.0**-11)


def test_batches_of_one_and_vectors(rng):
    a, b = normal(rng, (1, 8, 16), np.float16), normal(rng, (1, 16, 24), np.float16)
    assert warpipe.matmul(a, b).shape == (1, 8, 24)
    assert warpipe.matmul(a[0], b).shape == (1, 8, 24)
    assert warpipe.matmul(a[0, 0], b[0]).shape == (24,)


def test_the_same_product_has_the_same_bits(rng):
    a, b = normal(rng, (70, 96), np.float16), normal(rng, (96, 48), np.float16)
    np.testing.assert_array_equal(warpipe.matmul(a, b), warpipe.matmul(a, b))


def test_a_plan_is_described_and_called(rng):
    a, b = normal(rng, (70, 96), np.float16), normal(rng, (96, 48), np.float16)
    plan = warpipe.plan(a, b)
    info = plan.describe()
    assert [info["m"], info["n"], info["k"]] == [70, 48, 96]
    assert info["kernel"]["name"] in str(plan)
    np.testing.assert_array_equal(plan(a, b), warpipe.matmul(a, b))
    wide = warpipe.plan(a, b, out_dtype="float32")
    assert wide(a, b).dtype == np.float32
    with pytest.raises(ValueError, match="M = 70.*M = 69"):
        plan(a[:69], b)
    with pytest.raises(ValueError, match="with C"):
        plan(a, b, np.zeros((70, 48), np.float16))
    with pytest.raises(ValueError, match="float32"):
        plan(a, b, out=np.empty((70, 48), np.float32))
