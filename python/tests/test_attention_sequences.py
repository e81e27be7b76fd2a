"""Packed sequences and caches of arrays of the host, on the model of the SM, and what is refused."""

import ml_dtypes
import numpy as np
import pytest
import warpipe
from attention_reference import assert_close, assert_lse, cached, in_pages, varlen
from capsules import FakeCuda

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def normal(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("starts_q", "starts_k", "h", "h_kv", "d", "options"),
    [
        ([0, 30, 70], None, 2, 2, 64, {}),
        # No queries, no keys, and more queries than keys.
        ([0, 30, 30, 70, 90], [0, 50, 60, 190, 190], 4, 2, 64, {"causal": True}),
        ([0, 150, 190], [0, 40, 200], 3, 1, 40, {"causal": True, "window": (30, -1)}),
        ([0, 1, 2, 3], [0, 100, 101, 230], 8, 1, 64, {}),
        ([0, 20], [0, 30], 1, 1, 256, {"window": (5, 3), "scale": 0.5}),
        ([0, 40, 70], None, 2, 1, 64, {"softcap": 3.0}),
    ],
)
def test_packed_sequences_agree_with_f64(rng, name, starts_q, starts_k, h, h_kv, d, options):
    q = normal(rng, starts_q[-1], h, d, dtype=TYPES[name])
    k, v = (normal(rng, (starts_k or starts_q)[-1], h_kv, d, dtype=TYPES[name]) for _ in range(2))
    want, sums = varlen(q, k, v, starts_q, starts_k or starts_q, **options)
    out, lse = warpipe.attention_varlen(q, k, v, starts_q, starts_k, **options, return_lse=True)
    assert out.dtype == q.dtype and lse.dtype == np.float32 and lse.shape == (h, starts_q[-1])
    assert_close(out, want, name)
    assert_lse(lse, sums)


def test_starts_are_lists_or_arrays(rng):
    q, starts = normal(rng, 50, 2, 64), [0, 20, 50]
    want = warpipe.attention_varlen(q, q, q, starts)
    for dtype in (np.int32, np.int64, np.uint32):
        array = np.array(starts, dtype)
        np.testing.assert_array_equal(warpipe.attention_varlen(q, q, q, array, tuple(starts)), want)
    apart = np.array([0, 7, 20, 7, 50, 7])[::2]
    np.testing.assert_array_equal(warpipe.attention_varlen(q, q, q, cu_seqlens_q=apart, cu_seqlens_k=apart), want)


def test_packed_tensors_with_any_strides_are_written_in_place(rng):
    starts = [0, 20, 50]
    both = normal(rng, 50, 3, 2, 64)
    q, k, v = (both[:, i] for i in range(3))
    want = warpipe.attention_varlen(*(np.ascontiguousarray(x) for x in (q, k, v)), starts)
    whole = np.full((50, 4, 64), 7, np.float16)
    assert warpipe.attention_varlen(q, k, v, starts, out=whole[:, 1:3]) is not None
    np.testing.assert_array_equal(whole[:, 1:3], want)
    assert (whole[:, 0] == 7).all() and (whole[:, 3] == 7).all()
    # [heads, total, dim] in memory.
    turned = [np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2) for x in (q, k, v)]
    np.testing.assert_array_equal(warpipe.attention_varlen(*turned, starts), want)
    assert warpipe.attention_varlen(q[:0], k, v, [0, 0], [0, 50]).shape == (0, 2, 64)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    ("s", "keys", "h", "h_kv", "d", "options"),
    [
        (1, [150, 7, 0], 8, 1, 64, {}),
        (3, [192, 65], 8, 2, 64, {"causal": True}),
        (2, [1, 190], 2, 2, 40, {"causal": True, "window": (60, 0)}),
        (70, [130], 2, 1, 64, {"causal": True, "softcap": 3.0, "scale": 0.3}),
    ],
)
def test_caches_agree_with_f64(rng, name, paged, s, keys, h, h_kv, d, options):
    dtype, batch, capacity = TYPES[name], len(keys), 192
    q = normal(rng, batch, s, h, d, dtype=dtype)
    k, v = (normal(rng, batch, capacity, h_kv, d, dtype=dtype) for _ in range(2))
    want, sums = cached(q, k, v, keys, **options)
    for cache in (k, v):
        for b, rows in enumerate(keys):
            cache[b, rows:] = np.nan
    table = None
    if paged:
        k, table = in_pages(k, keys, 64)
        v, _ = in_pages(v, keys, 64)
    out, lse = warpipe.attention_with_kvcache(q, k, v, keys, table, **options, return_lse=True)
    assert out.dtype == q.dtype and lse.dtype == np.float32
    assert_close(out, want, name)
    assert_lse(lse, sums)


def test_lengths_are_lists_arrays_or_one_number(rng):
    q, k, v = normal(rng, 2, 1, 2, 64), normal(rng, 2, 100, 1, 64), normal(rng, 2, 100, 1, 64)
    want = warpipe.attention_with_kvcache(q, k, v, [70, 70])
    for lengths in (np.array([70, 70], np.int32), (70, 70), 70, np.int32(70), warpipe.CacheSeqlens([70, 70])):
        np.testing.assert_array_equal(warpipe.attention_with_kvcache(q, k, v, lengths), want)
    out = np.zeros_like(q)
    assert warpipe.attention_with_kvcache(q, k, v, cache_seqlens=70, out=out) is out
    np.testing.assert_array_equal(out, want)


def test_lengths_that_change(rng):
    q, k, v = normal(rng, 2, 1, 2, 64), normal(rng, 2, 100, 1, 64), normal(rng, 2, 100, 1, 64)
    lengths = warpipe.CacheSeqlens(np.array([70, 3]))
    lengths.set([100, 4])
    assert lengths.tolist() == [100, 4] and len(lengths) == 2 and "[100, 4]" in repr(lengths)
    want = warpipe.attention_with_kvcache(q, k, v, [100, 4])
    np.testing.assert_array_equal(warpipe.attention_with_kvcache(q, k, v, lengths), want)
    for bad, text in [([1], "has 1 numbers; there were 2"), ([1, -1], r"cache_seqlens\[1\] is -1")]:
        with pytest.raises(ValueError, match=text):
            lengths.set(bad)
    assert lengths.tolist() == [100, 4]


@pytest.mark.parametrize(
    ("starts", "error", "text"),
    [
        (([0, 49],), ValueError, "cu_seqlens_q ends with 49; q has 50 rows"),
        (([0, 50], [0, 51]), ValueError, "cu_seqlens_k ends with 51; k has 50 rows"),
        (([0, 20, 10, 50],), ValueError, r"cu_seqlens_q\[2\] is 10; it must be at least 20"),
        (([1, 50],), ValueError, "cu_seqlens_q begins with 1; it must begin with 0"),
        (([50],), ValueError, "cu_seqlens_q has 1 numbers; the first row of each"),
        (([0, 50], [0, 20, 50]), ValueError, "cu_seqlens_k has 3 numbers, and cu_seqlens_q 2"),
        (([0, 50.0],), TypeError, r"cu_seqlens_q is a list with \[0, 50.0\]; a list or a tensor \[N\]"),
        ((np.array([[0, 50]]),), TypeError, "cu_seqlens_q is a ndarray with"),
        (("050",), TypeError, "cu_seqlens_q is a str"),
        ((50,), TypeError, "cu_seqlens_q is a int"),
    ],
)
def test_starts_are_refused(starts, error, text):
    q, out = np.ones((50, 2, 64), np.float16), np.full((50, 2, 64), 7, np.float16)
    with pytest.raises(error, match=text):
        warpipe.attention_varlen(q, q.copy(), q, *starts, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"cache_seqlens": [3]}, ValueError, r"cache_seqlens has 1 numbers; q \[2, 1, 2, 64\] has 2 sequences"),
        ({"cache_seqlens": [3, 129]}, ValueError, r"cache_seqlens\[1\] is 129; it must be 0 to 128, the rows of"),
        ({"cache_seqlens": -1}, ValueError, r"cache_seqlens\[0\] is -1; it must be 0 to 128"),
        ({"cache_seqlens": np.array(5)}, TypeError, "cache_seqlens is a ndarray; a list or a tensor"),
        ({"cache_seqlens": None}, TypeError, "cache_seqlens is a NoneType"),
        ({"k_cache": np.ones((2, 128, 2, 32), np.float16)}, ValueError, r"k_cache \[B, capacity, H, D\] must have B = 2"),
        ({"v_cache": np.ones((2, 100, 2, 64), np.float16)}, ValueError, "v_cache .*: k_cache is .*, and v_cache must be"),
        ({"k_cache": np.ones((2, 128, 2, 64), ml_dtypes.bfloat16)}, TypeError, "k_cache has elements of type bfloat16"),
        ({"block_table": np.zeros((1, 2), np.int32)}, ValueError, r"block_table \[1, 2\]: q has 2 sequences"),
        ({"block_table": np.zeros(2, np.int32)}, ValueError, "block_table has 1 dimensions"),
        ({"block_table": np.zeros((2, 2), np.int64)}, TypeError, "block_table has elements of type int64; int32"),
        ({"block_table": [[0], [1]]}, TypeError, "block_table is a list"),
        (
            {"block_table": np.zeros((2, 2), np.int32), "cache_seqlens": 257},
            ValueError,
            "is 257; it must be 0 to 256, 2 pages of 128",
        ),
        (
            {"block_table": np.zeros((2, 9), np.int32), "k_cache": np.ones((3, 48, 2, 64), np.float16)},
            ValueError,
            "pages of 48 rows; a multiple of 64",
        ),
    ],
)
def test_a_cache_is_refused(change, error, text):
    cache = np.ones((2, 128, 2, 64), np.float16)
    out = np.full((2, 1, 2, 64), 7, np.float16)
    arguments = {"q": np.ones((2, 1, 2, 64), np.float16), "k_cache": cache, "v_cache": cache, "cache_seqlens": 5}
    arguments.update(change)
    if arguments["k_cache"].shape[1] == 48:
        arguments["v_cache"] = arguments["k_cache"]
    with pytest.raises(error, match=text):
        warpipe.attention_with_kvcache(**arguments, out=out)
    assert (out == 7).all()


def test_memory_of_a_gpu_is_checked_before_the_gpu_is_asked():
    def cuda(*shape, addr=0x10000, strides=None, **more):
        packed = [1] * len(shape)
        for i in range(len(shape) - 1, 0, -1):
            packed[i - 1] = packed[i] * shape[i]
        return FakeCuda(shape, tuple(strides or packed), addr=addr, **more)

    q, k, v = cuda(2, 1, 2, 64), cuda(9, 64, 1, 64, addr=0x80000), cuda(9, 64, 1, 64, addr=0xC0000)

    def table(**more):
        return cuda(2, 4, addr=0xF0000, **{"dtype": (0, 32), **more})

    for bad, error, text in [
        (table(device=1), ValueError, "block_table is on cuda:1 and q is on cuda:0"),
        (table(strides=(8, 1)), ValueError, "block_table .* its numbers must be adjacent"),
        (table(dtype=(0, 64)), TypeError, "block_table has elements of type int64"),
        (np.zeros((2, 4), np.int32), ValueError, "block_table is on cpu and q is on cuda:0"),
    ]:
        with pytest.raises(error, match=text):
            warpipe.attention_with_kvcache(q, k, v, [1, 2], bad)
    with pytest.raises(ValueError, match="k_cache must have heads of adjacent elements"):
        warpipe.attention_with_kvcache(q, cuda(9, 64, 1, 64, strides=(4096, 1, 64, 64)), v, [1, 2], table())
    with pytest.raises(ValueError, match="out is needed"):
        warpipe.attention_with_kvcache(q, k, v, [1, 2], table())
    assert (q.lent, k.lent, v.lent) == (0, 0, 0)
