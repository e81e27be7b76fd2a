"""Attention of arrays of the host, on the model of the SM, and what is refused."""

import ml_dtypes
import numpy as np
import pytest
import warpipe
from attention_reference import assert_close, assert_lse, reference
from capsules import FakeCuda

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def tensors(rng, b=1, s=70, s_kv=None, h=2, h_kv=None, d=64, dtype=np.float16):
    def normal(rows, heads):
        return rng.standard_normal((b, rows, heads, d)).astype(dtype)

    s_kv, h_kv = s_kv or s, h_kv or h
    return normal(s, h), normal(s_kv, h_kv), normal(s_kv, h_kv)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ({}, {}),
        ({}, {"causal": True}),
        ({"b": 2, "h": 4, "h_kv": 2, "s": 33, "s_kv": 150}, {"causal": True}),
        ({"h": 3, "h_kv": 1, "s": 150, "s_kv": 40, "d": 40}, {"causal": True}),
        ({"s": 200}, {"window": (50, 20)}),
        ({"s": 200}, {"causal": True, "window": (30, -1)}),
        ({}, {"scale": 0.5, "softcap": 3.0}),
        ({"s": 1, "s_kv": 1, "h": 1, "d": 8}, {}),
        ({"s": 20, "h": 1, "d": 256}, {"window": [None, 3]}),
    ],
)
def test_attention_agrees_with_f64(rng, name, sizes, options):
    q, k, v = tensors(rng, **sizes, dtype=TYPES[name])
    want, sums = reference(q, k, v, **options)
    out, lse = warpipe.attention(q, k, v, **options, return_lse=True)
    assert out.dtype == q.dtype and lse.dtype == np.float32
    assert_close(out, want, name)
    assert_lse(lse, sums)
    np.testing.assert_array_equal(warpipe.attention(q, k, v, **options), out)


def test_a_query_that_sees_nothing_gets_zeros(rng):
    q, k, v = tensors(rng, s=40, s_kv=10)
    out, lse = warpipe.attention(q, k, v, causal=True, return_lse=True)
    assert (out[:, :30] == 0).all() and np.isneginf(lse[:, :, :30]).all()
    assert (out[:, 30:] != 0).any() and np.isfinite(lse[:, :, 30:]).all()


def test_both_layouts_and_any_strides_give_the_same_bits(rng):
    q, k, v = tensors(rng, b=2, s=30, s_kv=50, h=4, h_kv=2)
    want = warpipe.attention(q, k, v)
    turned = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    by_heads, lse = warpipe.attention(*turned, layout="bhsd", return_lse=True)
    np.testing.assert_array_equal(by_heads.transpose(0, 2, 1, 3), want)
    assert lse.shape == (2, 4, 30)
    # Side by side, as one projection leaves them.
    both = np.concatenate([k, v], axis=2)
    apart = np.ascontiguousarray(q.transpose(3, 1, 2, 0)).transpose(3, 1, 2, 0)
    np.testing.assert_array_equal(warpipe.attention(apart, both[:, :, :2], both[:, :, 2:]), want)


def test_out_is_written_where_it_lies(rng):
    q, k, v = tensors(rng)
    whole = np.full((1, 70, 6, 64), 7, np.float16)
    out = whole[:, :, 2:4]
    assert warpipe.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, warpipe.attention(q, k, v))
    assert (whole[:, :, :2] == 7).all() and (whole[:, :, 4:] == 7).all()
    same, lse = warpipe.attention(q, k, v, out=out, return_lse=True)
    assert same is out and lse.shape == (1, 2, 70)


def test_nothing_to_compute(rng):
    q, k, v = tensors(rng)
    out, lse = warpipe.attention(q[:, :0], k, v, return_lse=True)
    assert out.shape == (1, 0, 2, 64) and lse.shape == (1, 2, 0)
    assert warpipe.attention(q[:0], k[:0], v[:0]).shape == (0, 70, 2, 64)


def test_a_plan_is_described_and_called(rng):
    q, k, v = tensors(rng, h=4, h_kv=2)
    plan = warpipe.plan_attention(q, k, v, causal=True, return_lse=True)
    info = plan.describe()
    assert [info["heads_q"], info["heads_kv"], info["seq_q"], info["head_dim"]] == [4, 2, 70, 64]
    assert info["kernel"] in str(plan) and "causal" in str(plan)
    for mine, theirs in zip(plan(q, k, v), warpipe.attention(q, k, v, causal=True, return_lse=True)):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="S = 70 and 70.*S = 69 and 70"):
        plan(q[:, :69], k, v)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"q": np.ones((1, 4, 2, 64), np.float32)}, TypeError, "q has elements of type float32; float16 or bfloat16"),
        ({"k": None}, TypeError, "k is a NoneType"),
        ({"v": np.ones((1, 4, 2, 64), np.int16)}, TypeError, "v has elements of type int16; float16, the type of q"),
        ({"q": np.ones((4, 2, 64), np.float16)}, ValueError, "q has 3 dimensions; 4 are needed"),
        ({"k": np.ones((1, 5, 2, 32), np.float16)}, ValueError, r"k \[1, 5, 2, 32\].*D = 64"),
        ({"v": np.ones((1, 5, 2, 64), np.float16)}, ValueError, r"v \[1, 5, 2, 64\]: k is \[1, 4, 2, 64\]"),
        ({"q": np.ones((1, 4, 3, 64), np.float16)}, ValueError, "q has 3 heads, which is no multiple of k's 2"),
        ({"out": np.ones((1, 4, 2, 32), np.float16)}, ValueError, r"out \[1, 4, 2, 32\]: the result is"),
        ({"layout": "sbhd"}, ValueError, 'layout is "sbhd"; "bshd" or "bhsd" is right'),
        ({"window": (1, 2, 3)}, ValueError, r"window is \(1, 2, 3\); \(left, right\)"),
        ({"window": (-5, None)}, ValueError, r"window is \(-5, None\)"),
        ({"scale": 0.0}, ValueError, "scale of 0; it must be positive"),
        ({"softcap": float("nan")}, ValueError, "softcap of NaN"),
        ({"causal": "yes"}, TypeError, "bool"),
    ],
)
def test_an_argument_is_refused(change, error, text):
    q, k, v = (np.ones((1, 4, 2, 64), np.float16) for _ in range(3))
    arguments = {"q": q, "k": k, "v": v, "out": np.full((1, 4, 2, 64), 7, np.float16), **change}
    before = arguments["out"].copy()
    with pytest.raises(error, match=text):
        warpipe.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    np.testing.assert_array_equal(arguments["out"], before)


def test_sizes_that_no_kernel_computes_are_value_errors(rng):
    for d in (100, 264):
        q = np.ones((1, 4, 2, d), np.float16)
        with pytest.raises(ValueError, match=f"D is {d}; it must be a multiple of 8, from 8 to 256"):
            warpipe.attention(q, q, q)
    q, k, v = tensors(rng)
    with pytest.raises(ValueError, match="seq_kv = 0"):
        warpipe.attention(q, k[:, :0], v[:, :0])


def test_memory_of_a_gpu_is_checked_before_the_gpu_is_asked():
    def tensor(strides=(1024, 128, 64, 1), addr=0x10000, **more):
        return FakeCuda((1, 8, 2, 64), strides, addr=addr, **more)

    good = tensor()
    for bad, text in [
        (tensor(addr=0x10004), "q starts at 0x10004, which is 4 bytes past a multiple of 16"),
        (tensor((1024, -128, 64, 1)), "negative"),
        (tensor((1024, 128, 1, 2)), "q must have heads of adjacent elements"),
        (tensor((1024, 132, 64, 1)), "multiples of 8"),
        (tensor(kind=10), "DLPack device type 10"),
    ]:
        with pytest.raises(ValueError, match=text):
            warpipe.attention(bad, good, good)
        assert (bad.lent, good.lent) == (0, 0)
    with pytest.raises(ValueError, match="out is needed"):
        warpipe.attention(good, good, good)
    with pytest.raises(ValueError, match="return_lse can't be had"):
        warpipe.attention(good, good, good, out=tensor(addr=0x80000), return_lse=True)
    with pytest.raises(ValueError, match="in place"):
        warpipe.attention(good, good, good, out=tensor((1024, 132, 64, 1), addr=0x80000))
