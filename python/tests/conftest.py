"""What the tests share: a GPU that is there or not, and references in f64."""

import os

import numpy as np
import pytest


def _cuda():
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    major, minor = torch.cuda.get_device_capability()
    return None if major == 9 else f"compute capability {major}.{minor}; 9.0 is needed"


@pytest.fixture(scope="session")
def gpu():
    """Skips a test without a Hopper GPU; with WARPIPE_REQUIRE_GPU=1 it fails."""
    missing = _cuda()
    if missing is not None:
        if os.environ.get("WARPIPE_REQUIRE_GPU") == "1":
            pytest.fail(f"WARPIPE_REQUIRE_GPU=1, and {missing}")
        pytest.skip(missing)
    return "cuda:0"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def assert_close(result, reference, k, eps):
    """Compares with a product in f64: rounding of the result, and of K sums in f32."""
    result = np.asarray(result, dtype=np.float64)
    assert result.shape == reference.shape
    assert np.isfinite(result).all()
    allowed = eps * np.abs(reference) + 4 * k * 2.0**-24 * (1 + np.abs(reference).max(initial=0))
    worst = np.abs(result - reference) - allowed
    assert (worst <= 0).all(), f"error {np.abs(result - reference).max()} of {np.abs(reference).max()}"
