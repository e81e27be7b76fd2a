"""The package itself: stubs, doctor, the benchmark's command."""

import ast
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest
import warpipe
from warpipe import _native

PACKAGE = pathlib.Path(warpipe.__file__).parent


def python(*arguments, **more):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **more)


def test_the_stub_has_the_functions_of_the_module_with_their_arguments():
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, node in stubs.items():
        have = [p.name for p in inspect.signature(getattr(_native, name)).parameters.values()]
        args = node.args
        assert [a.arg for a in (*args.args, *args.kwonlyargs)] == have, name
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"}
    public = {name for name in vars(_native) if not name.startswith("__")}
    assert public == set(stubs) | classes
    assert (PACKAGE / "py.typed").exists()


def test_everything_public_is_documented():
    for name in warpipe.__all__:
        if name != "__version__":
            assert getattr(warpipe, name).__doc__, name
    assert inspect.signature(warpipe.matmul).parameters.keys() == {
        "a", "b", "c", "alpha", "beta", "out", "out_dtype", "allow_tf32",
    }  # fmt: skip


def test_attention_has_the_arguments_of_its_plan():
    arguments = [inspect.signature(f).parameters for f in (warpipe.attention, warpipe.plan_attention)]
    assert arguments[0].keys() == arguments[1].keys()
    assert list(arguments[0]) == [
        "q", "k", "v", "causal", "window", "scale", "softcap", "layout", "return_lse", "out",
    ]  # fmt: skip


def test_sequences_have_the_arguments_of_flash_attention():
    more = ["causal", "window", "scale", "softcap", "return_lse", "out"]
    of = lambda function: list(inspect.signature(function).parameters)  # noqa: E731
    assert of(warpipe.attention_varlen) == ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", *more]
    assert of(warpipe.attention_with_kvcache) == ["q", "k_cache", "v_cache", "cache_seqlens", "block_table", *more]


def test_types_are_as_a_checker_sees_them(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    source = tmp_path / "uses.py"
    source.write_text(
        "import numpy as np\n"
        "import warpipe\n"
        "a = np.ones((4, 16), np.float16)\n"
        "reveal_type(warpipe.linear(a, a))\n"
        "warpipe.matmul(a)\n"
        "warpipe.plan(a, a).describe()['kernel']\n"
    )
    # Types of torch are not needed here, and to read them takes a minute.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nfollow_imports = silent\n[mypy-torch.*]\nfollow_imports = skip\n")
    result = python("-m", "mypy", "--config-file", str(config), str(source), cwd=tmp_path)
    shown = [line for line in result.stdout.splitlines() if "Revealed type" in line]
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert len(shown) == 1 and "ndarray" in shown[0], result.stdout
    assert len(errors) == 1 and ":5: error: No overload" in errors[0], result.stdout


def test_doctor_says_what_there_is():
    report = warpipe.doctor()
    assert "sm_90a" in report["image"][0]["detail"]
    printed = python("-m", "warpipe")
    assert printed.returncode == 0 and "image" in printed.stdout
    # Without torch at hand, nothing imports it.
    code = "import sys, warpipe; warpipe.doctor(); assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    assert python("-c", code).returncode == 0


def test_the_benchmark_refuses_what_it_cannot_time():
    pytest.importorskip("torch", reason="torch is not installed")
    for arguments, text in [
        (["--shape", "12x"], "numbers with x between them"),
        (["--shape", "0x1x1"], "at least 1"),
        (["--shape", "5x5"], "M, N, K"),
        (["--suite", "cube"], "square, llm"),
        (["attend"], "no kind attend; there are: gemm, linear, scaled, types, grouped, attention"),
        (["attention", "--suite", "square"], "no suite square of attention; there are: table, gqa, decode"),
        (["attention", "--suite", "decode", "--mask", "causal"], "no shape of suite decode has --mask causal"),
        (["attention", "--shape", "1x64x4x3x64"], "4 heads of queries are no multiple of 3"),
        (["attention", "--shape", "64x64x64"], "B, S, H, Hkv, D"),
        (["attention", "--out-dtype", "f32"], "--out-dtype is for products"),
        (["--mask", "causal"], "--mask is for attention"),
        (["types", "--out-dtype", "f32"], "the types are those of the suite"),
        (["--fast-accum"], "for scaled products"),
        (["--rounds", "0"], "0 rounds"),
        (["--sample-us", "0"], "samples of 0 us; more than 0"),
        (["--sample-us", "nan"], "samples of nan us"),
    ]:
        result = python("-m", "warpipe.bench", *arguments)
        assert result.returncode == 2 and text in result.stderr, result.stderr
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = python("-m", "warpipe.bench", "--shape", "64x64x64", env=hidden)
    assert result.returncode == 2 and "no CUDA device" in result.stderr


def test_a_report_has_ratios_and_finds_wrong_results():
    pytest.importorskip("torch", reason="torch is not installed")
    from warpipe.bench import Gemm, Line, Report, Timing

    work = Gemm((128, 256, 512))
    timings = [Timing("warpipe", [10.0, 8.0, 9.0]), Timing("torch", [18.0], host_us=5.0)]
    good = Line(work, "", "graph", 4, 100, timings, {"warpipe": 0.5, "torch": 2.0})
    nan = Line(work, "", "graph", 4, 100, timings, {"warpipe": float("nan"), "torch": 0.1})
    assert good.ratio == 2.0
    assert "WRONG: torch" in str(good) and "WRONG: warpipe" in str(nan)
    report = Report({}, {}, [good, nan])
    assert report.wrong() == [nan] and report.means() == {"graph": pytest.approx(2.0)}
    assert report.means_of_rivals("graph") == {"torch": (pytest.approx(2.0), 2)}
    table = report.as_markdown()
    assert "| M=128 N=256 K=512 bf16 bf16 | 4 | 2 (2.000) WRONG |" in table and "2.000 (2)" in table
    back = json.loads(json.dumps(report.as_json()))
    assert back["lines"][0]["timings"][0]["median_us"] == 9.0
    assert back["lines"][0]["shape"] == {"M": 128, "N": 256, "K": 512}


def test_attention_is_counted_and_drawn():
    pytest.importorskip("torch", reason="torch is not installed")
    import xml.etree.ElementTree

    from warpipe.bench import Attention, Line, Report, Timing
    from warpipe.bench.picture import svg

    full, causal = Attention((2, 4, 8, 2, 64)), Attention((2, 4, 8, 2, 64), causal=True)
    assert full.flops() == 4 * 64 * 2 * 8 * 16 and causal.flops() == 4 * 64 * 2 * 8 * 10
    assert [len(rows) for rows in Attention.suites.values()] == [36, 24, 16]
    assert all(shape[0] * shape[1] == 16384 for name in ("table", "gqa") for shape, _ in Attention.suites[name])
    timings = [Timing("warpipe", [10.0]), Timing("cudnn", [11.0]), Timing("flash", [15.0])]
    lines = [Line(work, "", "graph", 4, 100, timings, {}) for work in (full, causal)]
    lines.append(Line(full, "", "graph", 4, 100, timings[:2], {}, {"flash": "no kernel"}))
    assert lines[0].ratio == pytest.approx(1.1) and "without flash" in str(lines[2])
    report = Report({"gpu": "none"}, {}, lines)
    picture = xml.etree.ElementTree.fromstring(svg(report, "graph"))
    bars = [bar for bar in picture.iter("{http://www.w3.org/2000/svg}rect") if len(bar)]
    assert len(bars) == 3 + 3 + 2
    assert "| - |" in report.as_markdown()


def test_the_rate_of_a_cache_is_that_of_reading_it():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from warpipe.bench import Attention, Line, Report, Timing
    from warpipe.bench.picture import svg

    work = Attention((2, 1000, 8, 2, 64), queries=1)
    assert work.bytes_read() == 2 * 2 * 1000 * 2 * 64 * 2 and work.flops() == 4 * 64 * 2 * 8 * 1000
    line = Line(work, "", "graph", 4, 100, [Timing("warpipe", [10.0]), Timing("flash", [20.0])], {})
    assert line.unit == "GB/s" and line.rates() == {"warpipe": pytest.approx(102.4), "flash": pytest.approx(51.2)}
    assert "102.4 GB/s" in str(line) and "B=2 S=1000 1 queries" in str(line)
    report = Report({}, {}, [line])
    assert "| warpipe, GB/s |" in report.as_markdown() and "GB/s</text>" in svg(report, "graph")
    assert report.as_json()["lines"][0]["timings"][0]["rate"] == pytest.approx(102.4)
    # What is compared: the first contender's own result, on the CPU.
    q, k, v = (torch.randn(2, rows, heads, 64).half() for rows, heads in ((1, 8), (100, 2), (100, 2)))
    work = Attention((2, 100, 8, 2, 64), dtype="f16", queries=1)
    ours = work.contenders()[0]
    assert ours.name == "warpipe" and work.error((q, k, v, None), ours.eager((q, k, v, None))) < 1
    assert work.error((q, k, v, None), ours.eager((q, k, -v, None))) > 10
    with pytest.raises(ValueError, match="full mask"):
        Attention((2, 100, 8, 2, 64), causal=True, queries=1)


def test_the_benchmark_finds_wrong_attention():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from warpipe.bench import Attention

    q, k, v = (torch.randn(2, 100, heads, 64, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2, 1))
    q, k, v = (x.bfloat16() for x in (q, k, v.expand(-1, -1, 2, -1)))
    for causal in (False, True):
        work = Attention((2, 100, 4, 2, 64), causal=causal)
        right = torch.nn.functional.scaled_dot_product_attention(
            *(x.double().transpose(1, 2) for x in (q, k, v)), is_causal=causal, enable_gqa=True
        ).transpose(1, 2)
        rounded = right.bfloat16()
        assert 0.1 < work.error((q, k, v, None), rounded) < 1
        other = Attention((2, 100, 4, 2, 64), causal=not causal)
        assert other.error((q, k, v, None), rounded) > 10
        rounded[1, 99, 3, 5] = float("nan")
        assert not work.error((q, k, v, None), rounded) <= 1


def test_the_benchmark_of_attention_runs(gpu, tmp_path):
    files = [tmp_path / "table.md", tmp_path / "table.svg"]
    result = python(
        "-m", "warpipe.bench", "attention", "--shape", "2x512x8x2x64", "--rounds", "5", "--json",
        "--markdown", str(files[0]), "--svg", str(files[1]),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = json.loads(result.stdout)["lines"]
    assert [line["causal"] for line in lines] == [False, True]
    for line in lines:
        assert line["errors"]["warpipe"] < 1 and len(line["timings"]) + len(line["missing"]) >= 3
    assert "causal" in files[0].read_text() and files[1].read_text().startswith("<svg")


def test_the_benchmark_runs(gpu):
    result = python("-m", "warpipe.bench", "--shape", "512x512x512", "--rounds", "5", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [line["mode"] for line in report["lines"]] == ["graph", "eager"]
    for line in report["lines"]:
        assert line["errors"]["warpipe"] < 1 and line["ratio"] > 0.2
