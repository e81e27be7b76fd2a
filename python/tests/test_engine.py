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

def tensor(*shape, addr, dtype=(2, 16)):
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return FakeCuda(shape, tuple(strides), addr=addr, dtype=dtype)

def decode(keys, capacity=256, table=None, stream=0, h=2, hkv=1, softcap=None):
    # A query for each sequence, with a cache; table has (pages, pages of a sequence).
    b, cache = len(keys), (len(keys), capacity) if table is None else (table[0], 64)
    q, out = (tensor(b, 1, h, 64, addr=addr) for addr in (0x100000, 0x40000000))
    k, v = (tensor(*cache, hkv, 64, addr=addr) for addr in (0x10000000, 0x20000000))
    pages = None if table is None else tensor(b, table[1], addr=0x30000000, dtype=(0, 32))
    options = (True, None, None, softcap, "bshd", False)
    _native.attention_run(q, k, v, options, out, None, stream, ("cache", keys, pages))
    assert not any(t.lent for t in (q, k, v, out, pages) if t is not None)

def packed(starts, h=2, hkv=1, stream=0):
    q, out = (tensor(starts[-1], h, 64, addr=addr) for addr in (0x100000, 0x40000000))
    k, v = (tensor(starts[-1], hkv, 64, addr=addr) for addr in (0x10000000, 0x20000000))
    options = (True, None, None, None, "bshd", False)
    _native.attention_run(q, k, v, options, out, None, stream, ("packed", starts, starts))

def counts(names="launches encodes allocs frees copies"):
    return [count(name) for name in names.split()]

def since(before):
    return [now - then for now, then in zip(counts(), before)]

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
# More plans than are kept; those after the captured one are freed, it is not. With at most 64 queries they would have
# workspaces, too.
for i in range(300):
    attention(1, 80 + i, 1, 1, 64)
copied, freed = count("copies"), count("frees")
assert copied == 301 and freed == 300 - 256, (copied, freed)
attention(1, 256, 2, 2, 64)
assert count("copies") == copied
attention(1, 80, 1, 1, 64)
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


def test_other_lengths_of_a_cache_are_one_copy(driver):
    run(driver, """
for table in (None, (9, 4)):
    before = counts()
    decode([5, 7], table=table)
    launches, encodes, allocs, _, copies = since(before)
    assert (launches, encodes, allocs, copies) == (1, 3, 2, 2), since(before)
    before = counts()
    decode([5, 7], table=table)
    assert since(before) == [1, 0, 0, 0, 0], since(before)
    decode([256, 0], table=table)
    assert since(before) == [2, 0, 0, 0, 1], since(before)
    # The lengths are those of the last call, whatever its stream.
    decode([256, 0], table=table, stream=0x7000)
    assert since(before) == [3, 0, 0, 0, 1], since(before)
# Another capacity is another plan.
before = counts()
decode([5, 7], capacity=512)
assert since(before)[2] == 2
""")


def test_a_capture_has_plans_of_its_own(driver):
    run(driver, """
decode([5, 7])
capture(1)
before = counts()
decode([5, 7])
assert since(before)[2:] == [2, 0, 2], since(before)
# Again, and with other lengths, which a plan can't be given in a capture.
decode([5, 7])
assert since(before)[2:] == [2, 0, 2], since(before)
decode([6, 7])
assert since(before)[2:] == [4, 0, 4], since(before)
# Sequences of equal lengths have a workspace, too, if they have few queries.
attention(1, 8, 1, 1, 64)
capture(2)
before = counts()
decode([5, 7])
attention(1, 8, 1, 1, 64)
assert since(before)[2:] == [4, 0, 4], since(before)
capture(0)
# Nothing of that has touched the plan of other calls.
before = counts()
decode([5, 7])
assert since(before)[2:] == [0, 0, 0], since(before)
""")


def test_lengths_of_a_captured_call_can_be_changed(driver):
    run(driver, """
from warpipe import CacheSeqlens
lengths, other = CacheSeqlens([5, 7]), CacheSeqlens((5, 7))
capture(1)
before = counts()
decode(lengths)
decode(lengths)
decode(lengths, softcap=2.0)
decode(other)
assert since(before)[2:] == [6, 0, 6], since(before)
try:
    lengths.set([1, 2])
except ValueError as e:
    assert "in a capture" in str(e), e
else:
    raise SystemExit("changed in a capture")
assert lengths.tolist() == [5, 7]
capture(0)
before = counts()
lengths.set([6, 8], stream=0x7000)
assert since(before) == [0, 0, 0, 0, 2] and lengths.tolist() == [6, 8], since(before)
# A list that one of the plans can't have changes none.
try:
    lengths.set([6, 257])
except ValueError as e:
    assert "sequence 1 has 257 keys" in str(e), e
else:
    raise SystemExit("more keys than there is room for")
assert since(before)[4] == 2 and lengths.tolist() == [6, 8]
# Outside of captures it is a list.
decode(lengths)
decode(other)
decode([5, 7])
assert since(before)[2:] == [2, 0, 2 + 2 + 1], since(before)
""")


def test_plans_of_packed_sequences_and_their_memory_are_bounded(driver):
    run(driver, """
before = counts()
packed([0, 100, 300])
packed([0, 100, 300])
assert since(before)[:3] == [2, 4, 2], since(before)
packed([0, 200, 300])
assert since(before)[2] == 4, since(before)
for i in range(300):
    packed([0, 100 + i, 500])
plans = 302
assert since(before)[2] - since(before)[3] == 2 * 256, since(before)
# A plan for a cache has a workspace of megabytes, so fewer of these are kept.
before = counts()
for i in range(200):
    decode([1, 2], capacity=64 + 8 * i)
assert since(before)[2] == 400
kept = since(before)[2] - since(before)[3] + 2 * 256
assert 10 < kept / 2 < 100, kept
""")
