"""What the GPU side asks of the driver, with a driver that does nothing: plans, tensor maps, workspaces, captures."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent

PRELUDE = """
import ctypes, sys
sys.path.insert(0, {here!r})
driver = ctypes.CDLL("libcuda.so.1")
from capsules import FakeCuda
from warpipe import Error, _native

def count(name):
    return ctypes.c_long.in_dll(driver, name).value

def capture(number):
    ctypes.c_int.in_dll(driver, "capturing").value = number > 0
    ctypes.c_ulonglong.in_dll(driver, "capture_id").value = number

workspaces = []
def zeros(nbytes):
    workspaces.append(nbytes)
    return 0x500000000 + (len(workspaces) << 28), object()

def linear(m, n, k, stream=0, addr=0x100000, pitch=None, zeros=zeros):
    x = FakeCuda((m, k), (pitch or k, 1), addr=addr)
    w, out = FakeCuda((n, k), (k, 1), addr=0x10000000), FakeCuda((m, n), (n, 1), addr=0x20000000)
    try:
        _native.run("linear", x, w, None, 1.0, None, out, stream, zeros)
    finally:
        assert (x.lent, w.lent, out.lent) == (0, 0, 0)

def attention(b, s, h, hkv, d, stream=0, addr=0x100000, causal=False, lse=False, out_addr=0x40000000):
    def tensor(addr, h):
        return FakeCuda((b, s, h, d), (s * h * d, h * d, d, 1), addr=addr)
    q, k, v = tensor(addr, h), tensor(0x10000000, hkv), tensor(0x20000000, hkv)
    out = tensor(out_addr, h)
    options = (causal, None, None, None, "bshd", lse)
    try:
        _native.attention_run(q, k, v, options, out, None, stream)
    finally:
        assert (q.lent, k.lent, v.lent, out.lent) == (0, 0, 0, 0)

SPLIT = (128, 128, 16384)  # its tiles are split along K, so it has a workspace
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, HERE / "fake_driver.c"], check=True)
    return folder


def run(driver, code):
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    code = PRELUDE.format(here=str(HERE)) + code
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stderr


def test_a_second_call_encodes_and_allocates_nothing(driver):
    run(driver, """
linear(512, 512, 512)
before = [count(n) for n in ("launches", "encodes", "allocs")]
linear(512, 512, 512)
assert [count(n) for n in ("launches", "encodes", "allocs")] == [before[0] + 1, *before[1:]]
linear(512, 512, 512, addr=0x200000)
assert count("encodes") == before[1] + 4
assert workspaces == [] and count("allocs") == 0
""")


def test_each_stream_and_each_capture_has_its_own_workspace(driver):
    run(driver, """
linear(*SPLIT)
linear(*SPLIT)
assert count("allocs") == 1
linear(*SPLIT, stream=0x70)
assert count("allocs") == 2 and workspaces == []
for number in (5, 6):
    # The operator of torch gives its workspace back after each call of a capture.
    capture(number)
    linear(*SPLIT)
    linear(*SPLIT)
assert len(workspaces) == 4 and workspaces[0] > 0
capture(0)
linear(*SPLIT)
assert len(workspaces) == 4 and count("allocs") == 2
""")


def test_a_capture_needs_no_warm_up_and_no_allocation_of_the_driver(driver):
    run(driver, """
capture(1)
linear(512, 512, 512)
linear(*SPLIT)
linear(33, 41, 77)  # A, B and D are copied to padded rows
assert len(workspaces) == 4 and count("allocs") == 0 and count("launches") == 3
""")


def test_rows_that_need_a_copy_are_refused_in_a_capture(driver):
    run(driver, """
linear(64, 64, 64)
capture(1)
try:
    linear(64, 64, 64, pitch=67)
except Error as e:
    assert "134 bytes apart" in str(e), e
else:
    raise SystemExit("accepted")
launched = count("launches")
capture(0)
linear(64, 64, 64, pitch=67)
assert count("launches") == launched + 1
""")


def test_an_exception_of_the_allocator_reaches_the_caller(driver):
    run(driver, """
def fails(nbytes):
    raise MemoryError("none left")
capture(1)
for _ in range(2):
    try:
        linear(*SPLIT, zeros=fails)
    except MemoryError as e:
        assert "none left" in str(e)
    else:
        raise SystemExit("accepted")
linear(*SPLIT)
assert count("launches") == 1
""")


def test_plans_are_bounded(driver):
    run(driver, """
for i in range(300):
    linear(16 + i, 64, 64)
encoded = count("encodes")
linear(16 + 299, 64, 64)
assert count("encodes") == encoded  # kept
linear(16, 64, 64)
assert count("encodes") == encoded + 4  # dropped, and planned again
""")


def test_a_second_call_of_attention_encodes_and_copies_nothing(driver):
    run(driver, """
attention(2, 256, 4, 2, 64)
names = ("launches", "encodes", "allocs", "copies")
before = [count(n) for n in names]
assert before == [1, 4, 1, 1], before
attention(2, 256, 4, 2, 64, stream=0x70)
assert [count(n) for n in names] == [2, 4, 1, 1]
attention(2, 256, 4, 2, 64, addr=0x200000)
assert [count(n) for n in names] == [3, 8, 1, 1]
attention(2, 256, 4, 2, 64, causal=True)
assert [count(n) for n in names] == [4, 12, 2, 2]
""")


def test_attention_is_planned_in_a_capture_and_kept_for_its_graph(driver):
    run(driver, """
capture(1)
attention(1, 256, 2, 2, 64)
capture(0)
assert count("launches") == 1 and count("copies") == 1
# More plans than are kept; those after the captured one are freed, it is not.
for i in range(300):
    attention(1, 8 + i, 1, 1, 64)
copied, freed = count("copies"), count("frees")
assert copied == 301 and freed == 300 - 256, (copied, freed)
attention(1, 256, 2, 2, 64)
assert count("copies") == copied
attention(1, 8, 1, 1, 64)
assert count("copies") == copied + 1
""")


def test_what_a_plan_of_attention_refuses_is_a_value_error(driver):
    run(driver, """
for arguments, text in [
    (dict(s=0x20000000 + 8), "seq_q = 536870920"),
    (dict(out_addr=0x10000000), "overlaps O at 0x10000000"),
]:
    shape = dict(b=1, s=16, h=2, hkv=1, d=64) | arguments
    try:
        attention(**shape)
    except ValueError as e:
        assert text in str(e), e
    else:
        raise SystemExit(f"accepted {arguments}")
assert count("launches") == 0
""")
