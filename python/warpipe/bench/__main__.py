"""``python -m warpipe.bench``: products and attention in turn with torch."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m warpipe.bench",
        description="Times products and attention on a GPU in turn with torch, in one process.",
    )
    parser.add_argument("kind", nargs="?", default="gemm", help="gemm, linear, scaled, types, grouped or attention")
    parser.add_argument(
        "--suite", action="append", default=[], help="gemm: square, llm, decode or ragged; linear: layers; scaled: those, or dense; types: types; grouped: experts; attention: table, gqa or decode; repeatable"
    )
    parser.add_argument(
        "--shape", action="append", default=[], help="MxNxK, GxMxNxK for G groups of about M rows, or BxSxHxHkvxD for attention, such as 2048x2048x2048; repeatable"
    )
    parser.add_argument("--scales", choices=("tensor", "row", "block"), help="scales of a scaled product; tensor")
    parser.add_argument("--fast-accum", action="store_true", help="scaled products, and types, with use_fast_accum=True")
    parser.add_argument("--mask", choices=("full", "causal"), help="only this mask of attention; both")
    parser.add_argument("--mode", choices=("graph", "eager", "both"), help="how to launch; gemm: both, attention: graph")
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16", help="type of the operands")
    parser.add_argument("--out-dtype", choices=("bf16", "f16", "f32"), help="type of a product; that of the operands")
    parser.add_argument("--rounds", type=int, default=30, help="samples of each contender")
    parser.add_argument("--warmup", type=int, default=10, help="untimed rounds")
    parser.add_argument("--sample-us", type=float, default=2000.0, help="shortest sample in microseconds; 2000")
    parser.add_argument("--seed", type=int, default=0, help="seed of the operands")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--out", help="write the JSON object to this file, too")
    parser.add_argument("--markdown", help="write the tables to this file")
    parser.add_argument("--svg", help="write a picture of the rates to this file")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.warmup < 0:
        parser.error(f"{options.rounds} rounds and {options.warmup} untimed ones; at least 1 and 0 are needed")
    if not 0 < options.sample_us <= 1e6:
        parser.error(f"samples of {options.sample_us:g} us; more than 0 and at most 1000000 are needed")

    try:
        import torch
    except ImportError:
        print("error: torch is needed to time anything", file=sys.stderr)
        return 2
    from . import WORKLOADS

    if options.kind not in WORKLOADS:
        parser.error(f"no kind {options.kind}; there are: {', '.join(WORKLOADS)}")
    try:
        workloads = _workloads(WORKLOADS[options.kind], options)
    except ValueError as e:
        parser.error(str(e))
    if not torch.cuda.is_available():
        print("error: torch finds no CUDA device, and the model's times mean nothing", file=sys.stderr)
        return 2

    from .report import Report
    from .timing import Settings

    settings = Settings(
        rounds=options.rounds, warmup=options.warmup, sample_us=options.sample_us, seed=options.seed
    )
    report = Report(_machine(torch), {**dataclasses.asdict(settings), "arguments": arguments or sys.argv[1:]})
    if not options.json:
        print(" ".join(f"{key}: {value};" for key, value in report.machine.items()))
    modes = WORKLOADS[options.kind].modes
    if options.mode is not None:
        modes = ("graph", "eager") if options.mode == "both" else (options.mode,)
    for suite, workload in workloads:
        for line in measure(workload, suite, modes, settings):
            report.lines.append(line)
            if not options.json:
                print(line, flush=True)
    _write(report, modes, options)
    return 1 if report.wrong() else 0


def _workloads(kind, options):
    """The shapes that the command names, by suite. A ValueError says what is wrong with one."""
    from .suites import parse_shape

    shapes = [("", parse_shape(text), {}) for text in options.shape]
    if kind.kind == "attention":
        masks = [options.mask] if options.mask else ["full", "causal"]
        shapes = [(suite, shape, {"causal": mask == "causal"}) for suite, shape, _ in shapes for mask in masks]
    if kind.kind == "linear":
        shapes = [(suite, shape, {"epilogue": name}) for suite, shape, _ in shapes for name in kind.epilogues]
    if kind.kind == "types":
        shapes = [(suite, shape, {"types": name}) for suite, shape, _ in shapes for name in kind.names]
    for suite in options.suite or ([] if shapes else [next(iter(kind.suites))]):
        if suite not in kind.suites:
            raise ValueError(f"no suite {suite} of {kind.kind}; there are: {', '.join(kind.suites)}")
        shapes += [(suite, *row) for row in kind.suites[suite]]
    more = {"dtype": options.dtype}
    if kind.kind == "scaled":
        more = {"out_dtype": options.out_dtype, "scales": options.scales or "tensor", "fast_accum": options.fast_accum}
    elif options.scales or options.fast_accum and kind.kind != "types":
        raise ValueError("--scales and --fast-accum are for scaled products")
    elif kind.kind == "types":
        if options.dtype != "bf16" or options.out_dtype:
            raise ValueError("the types are those of the suite; leave --dtype and --out-dtype out")
        more = {"fast_accum": options.fast_accum}
        if options.fast_accum:
            shapes = [row for row in shapes if row[2]["types"] in kind.accumulating]
    elif kind.kind == "grouped":
        if options.dtype != "bf16" or options.out_dtype:
            raise ValueError("grouped products are of bf16; leave --dtype and --out-dtype out")
        more = {}
    elif kind.kind == "linear":
        if options.out_dtype:
            raise ValueError("the result of a linear layer has the type of its operands; leave --out-dtype out")
    elif kind.kind == "gemm":
        more["out_dtype"] = options.out_dtype
    elif options.out_dtype:
        raise ValueError("--out-dtype is for products; the result of attention has the type of its operands")
    if kind.kind != "attention" and options.mask:
        raise ValueError("--mask is for attention")
    if options.mask:
        shapes = [row for row in shapes if row[2].get("causal", False) == (options.mask == "causal")]
        if not shapes:
            raise ValueError(f"no shape of suite {', '.join(options.suite)} has --mask {options.mask}")
    return [(suite, kind(shape, **more, **row)) for suite, shape, row in shapes]


def measure(workload, suite, modes, settings):
    """Checks every contender's result, then times them in each mode. A rival that can't run is left out."""
    from .report import Line
    from .timing import interleave, make_sets

    sets = make_sets(workload, settings)
    contenders, errors, missing = [], {}, {}
    for contender in workload.contenders():
        try:
            result = contender.eager(sets[0])
        except (RuntimeError, TypeError, ValueError) as e:
            if not contenders:
                raise
            missing[contender.name] = str(e).splitlines()[0]
            continue
        errors[contender.name] = workload.error(sets[0], result) if contender.checked else 0.0
        contenders.append(contender)
    for mode in modes:
        timings, launches = interleave(contenders, sets, settings, graphs=mode == "graph")
        yield Line(workload, suite, mode, len(sets), launches, timings, errors, missing)


def _write(report, modes, options):
    """Prints the means, and writes the files that the command names."""
    if options.json:
        print(json.dumps(report.as_json()))
    else:
        for mode, mean in report.means().items():
            print(f"{mode}: geometric mean of the ratios {mean:.3f} over {len(report.lines) // len(modes)} shapes")
            for name, (of_rival, count) in report.means_of_rivals(mode).items():
                print(f"{mode}: {name} {of_rival:.3f} over {count} shapes")
    texts = {}
    if options.out:
        texts[options.out] = json.dumps(report.as_json())
    if options.markdown:
        texts[options.markdown] = report.as_markdown()
    if options.svg:
        from .picture import svg

        texts[options.svg] = svg(report, modes[0])
    for path, text in texts.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _machine(torch) -> dict[str, object]:
    from .. import __version__

    properties = torch.cuda.get_device_properties()
    return {
        "warpipe": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": properties.name,
        "sms": properties.multi_processor_count,
    }


if __name__ == "__main__":
    sys.exit(main())
