"""Attention in f64 with numpy, and the error that rounding allows."""

import numpy as np

#: Root mean square of the relative error of rounding to the type.
ROUNDING = {"bfloat16": 1.66e-3, "float16": 2.07e-4}


def reference(q, k, v, *, causal=False, window=None, scale=None, softcap=None):
    """O and LSE of q [B, S, H, D], and k and v [B, S_kv, H_kv, D]."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    heads, (rows, keys) = q.shape[2] // k.shape[2], (q.shape[1], k.shape[1])
    k, v = (np.repeat(x, heads, axis=2) for x in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    left, right = (None, None) if window is None else window
    # How far a key is behind the query's diagonal.
    behind = np.arange(keys)[None, :] - (np.arange(rows)[:, None] + keys - rows)
    seen = np.ones((rows, keys), bool)
    if causal:
        right = 0
    if right is not None and right >= 0:
        seen &= behind <= right
    if left is not None and left >= 0:
        seen &= -behind <= left
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(axis=-1, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    weights = np.exp(scores - most)
    sums = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + most)[..., 0]
    return np.einsum("bhqk,bkhd->bqhd", weights / np.where(sums == 0, 1, sums), v), lse


def assert_close(result, want, element):
    """The relative error may be three times what rounding of the weights and of the result gives."""
    result = np.asarray(result, dtype=np.float64)
    assert result.shape == want.shape and np.isfinite(result).all()
    norm = np.linalg.norm(want)
    error = np.linalg.norm(result - want)
    assert error <= 3 * 2**0.5 * ROUNDING[element] * norm, f"relative error {error / norm}"


def assert_lse(lse, want):
    lse = np.asarray(lse, dtype=np.float64)
    assert lse.shape == want.shape and (np.isneginf(lse) == np.isneginf(want)).all()
    np.testing.assert_allclose(lse, want, rtol=1e-5, atol=1e-4)


def varlen(q, k, v, starts_q, starts_k, **options):
    """O [total_q, H, D] and LSE [H, total_q] of packed sequences."""
    out, lse = np.zeros(q.shape), np.full((q.shape[1], q.shape[0]), -np.inf)
    for (s, e), (a, z) in zip(zip(starts_q, starts_q[1:]), zip(starts_k, starts_k[1:])):
        if s < e and a < z:
            o, sums = reference(q[None, s:e], k[None, a:z], v[None, a:z], **options)
            out[s:e], lse[:, s:e] = o[0], sums[0]
    return out, lse


def cached(q, k, v, keys, **options):
    """O [B, S, H, D] and LSE [B, H, S] of queries with the first keys of a cache."""
    out, lse = np.zeros(q.shape), np.full((q.shape[0], q.shape[2], q.shape[1]), -np.inf)
    for b, rows in enumerate(keys):
        if rows > 0:
            o, sums = reference(q[b : b + 1], k[b : b + 1, :rows], v[b : b + 1, :rows], **options)
            out[b], lse[b] = o[0], sums[0]
    return out, lse


def in_pages(cache, keys, page_rows):
    """The keys of a cache in pages, and the block table. What is no key is NaN, and pages that nobody has are -1."""
    batch, per = cache.shape[0], -(-cache.shape[1] // page_rows)
    pages = np.full((batch * per + 2, page_rows, *cache.shape[2:]), np.nan, cache.dtype)
    table = np.full((batch, per), -1, np.int32)
    order = np.random.default_rng(3).permutation(len(pages))
    for b, rows in enumerate(keys):
        for i in range(-(-rows // page_rows)):
            part = cache[b, i * page_rows : min(rows, (i + 1) * page_rows)]
            table[b, i] = order[b * per + i]
            pages[table[b, i], : len(part)] = part
    return pages, table
