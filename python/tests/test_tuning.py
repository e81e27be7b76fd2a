"""Tuned products: files, and the plans that come of them. What needs a GPU is skipped without one."""

import json
import subprocess
import sys

import numpy as np
import pytest
import warpipe
from test_engine import driver, run  # noqa: F401

ROWS, B = np.ones((1100, 64), np.float16), np.ones((64, 64), np.float16)
A = ROWS[:512]
KERNEL = "gemm_f16_f16_64x128_1x1"


def entry(m, instance=KERNEL, clusters=3, **changes):
    """A tuned product of the model, which only a test has."""
    return {
        "gpu": "SM model", "driver": "none", "sms": 132, "m": m, "n": 64, "k": 64, "ab": "f16", "out": "f16", "c": False,
        "kernels": "gemm_f16_f16", "instance": instance, "schedule": {"clusters": clusters, "streamed": 0}, "us": 3.5,
    } | changes  # fmt: skip


def file(path, *entries, **changes):
    path.write_text(json.dumps({"format": "warpipe tune cache 2", "entries": list(entries)} | changes))
    return path


def kernel(*tensors, **arguments):
    return warpipe.plan(*tensors, **arguments).describe()["kernel"]


def python(code, *arguments):
    result = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_loaded_entry_is_planned_and_computed(tmp_path):
    assert "predicted" in kernel(A, B)["why"]
    assert warpipe.load_tuning(file(tmp_path / "tuned.json", entry(512), entry(7, gpu="NVIDIA H200"))) == 2
    tuned = kernel(A, B)
    assert (tuned["name"], tuned["ctas"], tuned["why"]) == (KERNEL, 3, "the tune cache has it, with 3.50 us")
    np.testing.assert_array_equal(warpipe.matmul(A, B), np.full((512, 64), 64, np.float16))
    # Another size, type or GPU is another product.
    assert "predicted" in kernel(A[:511], B)["why"] and "predicted" in kernel(A, B, out_dtype="float32")["why"]
    assert "predicted" in kernel(A[:7], B)["why"]
    # Entries of the file that this process has not stay.
    both = file(tmp_path / "both.json", entry(9), entry(512, clusters=1))
    warpipe.save_tuning(both)
    saved = json.loads(both.read_text())["entries"]
    assert [(e["m"], e["schedule"]["clusters"]) for e in saved] == [(9, 3), (512, 3), (7, 3)]
    warpipe.save_tuning(str(tmp_path / "new.json"))
    code = "import sys, warpipe; print(warpipe.load_tuning(sys.argv[1]))"
    assert python(code, tmp_path / "new.json") == "2\n"


def test_a_stale_entry_is_a_line_that_says_what_to_do(tmp_path):
    stale = [entry(1013, "gemm_of_last_year"), entry(1014, clusters=5000)]
    warpipe.load_tuning(file(tmp_path / "stale.json", *stale))
    for m, text in [(1013, "gemm_of_last_year 3/0 for 1013x64x64"), (1014, "1 to 132 clusters")]:
        for call in (warpipe.plan, warpipe.matmul):
            with pytest.raises(ValueError, match=text) as raised:
                call(ROWS[:m], B)
            assert "tune the product again" in str(raised.value) and "\n" not in str(raised.value)


def test_what_is_no_cache_is_refused_and_stays(tmp_path):
    path = tmp_path / "tuned.json"
    for text, word in [
        ("", "EOF"),
        ("[1]", "invalid"),
        ('{"format": "warpipe tune cache 1", "entries": []}', "name another file"),
        ('{"format": "warpipe tune cache 2", "entries": [{"gpu": "H200"}]}', "missing field"),
    ]:
        path.write_text(text)
        for call in (warpipe.load_tuning, warpipe.save_tuning):
            with pytest.raises(ValueError, match=f"tuned.json: not a tune cache: .*{word}") as raised:
                call(path)
            assert "\n" not in str(raised.value)
        assert path.read_text() == text
    with pytest.raises(FileNotFoundError, match="none.json"):
        warpipe.load_tuning(tmp_path / "none.json")
    with pytest.raises(OSError, match="cannot write"):
        warpipe.save_tuning(tmp_path / "no" / "folder" / "tuned.json")
    with pytest.raises(TypeError):
        warpipe.load_tuning(3)


def test_the_model_has_no_times():
    with pytest.raises(ValueError, match="a is on cpu; tuning needs a CUDA device"):
        warpipe.tune(A, B)
    for seconds in (0, -1, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match="0.01 to 3600"):
            warpipe.tune(A, B, seconds=seconds)
    with pytest.raises(ValueError, match="K = 64, not 63"):
        warpipe.tune(A, B[:63])


def tf32(a, weight):
    return warpipe.matmul(a, weight.T, allow_tf32=True)


@pytest.mark.parametrize(
    ("types", "kernels", "call"),
    [
        (("i8", "i32"), "gemm_s8_s32", lambda a, w: warpipe.int_mm(a.astype(np.int8), w.astype(np.int8).T)),
        (("f16", "f16"), "gemm_fused_f16", lambda a, w: warpipe.fused_linear(a, w, activation="gelu")),
        (("f16", "f16"), "gemm_gated_f16", lambda a, w: warpipe.fused_linear(a, w, activation="swiglu")),
        (("tf32", "f32"), "gemm_tf32_f32", lambda a, w: tf32(a.astype(np.float32), w.astype(np.float32))),
    ],
)
def test_entries_of_all_products_are_used(tmp_path, types, kernels, call):
    stale = entry(23, "gemm_of_last_year", ab=types[0], out=types[1], kernels=kernels)
    call(ROWS[:23], B)
    warpipe.load_tuning(file(tmp_path / "tuned.json", stale))
    with pytest.raises(ValueError, match="gemm_of_last_year 3/0 for 23x64x64"):
        call(ROWS[:23], B)


def test_later_calls_use_what_was_tuned(driver, tmp_path):  # noqa: F811
    """With a driver that does nothing: each launch takes a millisecond, so that the picker's choice is never slower."""
    run(driver, f"""
import warpipe
path = {str(tmp_path / "tuned.json")!r}
x = FakeCuda((512, 64), (64, 1), addr=0x100000)
w = FakeCuda((64, 512), (1, 64), addr=0x10000000)
linear(512, 512, 64)
before = count("encodes")
plan = warpipe.tune(x, w, seconds=0.5)
why = plan.describe()["kernel"]["why"]
assert "pairs that were timed" in why and "1000.00 us" in why, why
assert (x.lent, w.lent) == (0, 0)
again = warpipe.plan(x, w).describe()["kernel"]
assert again["why"] == "the tune cache has it, with 1000.00 us", again
assert again["name"] == plan.describe()["kernel"]["name"]
# The call plans again, once.
before, allocs = count("encodes"), count("allocs") - count("frees")
linear(512, 512, 64)
linear(512, 512, 64)
assert count("encodes") == before + 4
# The scratch operands were given back.
warpipe.tune(x, w, seconds=0.1)
assert count("allocs") - count("frees") <= allocs, (allocs, count("allocs"), count("frees"))
warpipe.save_tuning(path)
import json
[entry] = json.load(open(path))["entries"]
assert (entry["gpu"], entry["m"], entry["n"], entry["k"]) == ("FAKE", 512, 512, 64), entry
try:
    warpipe.tune(FakeCuda((512, 0), (1, 1), addr=0x100000), FakeCuda((0, 64), (1, 1), addr=0x200000))
except ValueError as e:
    assert "512x64x0 is an empty product" in str(e), e
else:
    raise SystemExit("accepted")
""")


def test_tuning_on_a_gpu_is_bounded_and_correct(gpu, tmp_path):
    import time

    import torch

    generator = torch.Generator("cuda").manual_seed(3)
    x, w = (torch.randn(rows, 4096, generator=generator, device="cuda").bfloat16() for rows in (300, 1024))
    kept = x.clone(), w.clone()
    before = warpipe.linear(x, w)
    start = time.monotonic()
    plan = warpipe.tune(x, w.t())
    assert time.monotonic() - start < 3
    print(plan)
    assert torch.equal(x, kept[0]) and torch.equal(w, kept[1])
    after = warpipe.linear(x, w)
    torch.testing.assert_close(after, before, rtol=2**-7, atol=0.5)
    assert kernel(x, w.t())["name"] == plan.describe()["kernel"]["name"]
    # Another process plans it from the file.
    path = tmp_path / "tuned.json"
    warpipe.save_tuning(path)
    code = (
        "import sys, torch, warpipe\n"
        "warpipe.load_tuning(sys.argv[1])\n"
        "x, w = (torch.empty(rows, 4096, device='cuda', dtype=torch.bfloat16) for rows in (300, 1024))\n"
        "print(warpipe.plan(x, w.t()).describe()['kernel']['why'])\n"
    )
    assert python(code, path).startswith("the tune cache has it, with ")

