"""``python -m warpipe.bench``: products in turn with torch."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m warpipe.bench",
        description="Times products on a GPU in turn with torch, in one process.",
    )
    parser.add_argument("--kind", default="gemm", help="kind of kernel (gemm)")
    parser.add_argument("--suite", action="append", default=[], help="square, llm, decode or ragged; repeatable")
    parser.add_argument("--shape", action="append", default=[], help="MxNxK, such as 2048x2048x2048; repeatable")
    parser.add_argument("--mode", choices=("graph", "eager", "both"), default="both", help="how to launch")
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16", help="type of the operands")
    parser.add_argument("--out-dtype", choices=("bf16", "f16", "f32"), help="type of the result; that of the operands")
    parser.add_argument("--rounds", type=int, default=30, help="samples of each contender")
    parser.add_argument("--warmup", type=int, default=10, help="untimed rounds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the operands")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--out", help="write the JSON object to this file, too")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.warmup < 0:
        parser.error(f"{options.rounds} rounds and {options.warmup} untimed ones; at least 1 and 0 are needed")

    try:
        import torch
    except ImportError:
        print("error: torch is needed to time products", file=sys.stderr)
        return 2
    from .suites import SUITES, parse_shape
    from .workload import WORKLOADS

    if options.kind not in WORKLOADS:
        parser.error(f"no kind {options.kind}; there are: {', '.join(WORKLOADS)}")
    shapes = []
    try:
        shapes += [("", parse_shape(text)) for text in options.shape]
    except ValueError as e:
        parser.error(str(e))
    for suite in options.suite or ([] if shapes else ["square"]):
        if suite not in SUITES:
            parser.error(f"no suite {suite}; there are: {', '.join(SUITES)}")
        shapes += [(suite, shape) for shape in SUITES[suite]]
    kind = WORKLOADS[options.kind]
    try:
        workloads = [(s, kind(shape, dtype=options.dtype, out_dtype=options.out_dtype)) for s, shape in shapes]
    except ValueError as e:
        parser.error(str(e))
    if not torch.cuda.is_available():
        print("error: torch finds no CUDA device, and the model's times mean nothing", file=sys.stderr)
        return 2

    from .report import Report
    from .timing import Settings

    settings = Settings(rounds=options.rounds, warmup=options.warmup, seed=options.seed)
    report = Report(_machine(torch), {**dataclasses.asdict(settings), "arguments": arguments or sys.argv[1:]})
    if not options.json:
        print(" ".join(f"{key}: {value};" for key, value in report.machine.items()))
    modes = ("graph", "eager") if options.mode == "both" else (options.mode,)
    for suite, workload in workloads:
        for line in measure(workload, suite, modes, settings):
            report.lines.append(line)
            if not options.json:
                print(line, flush=True)
    if options.json:
        print(json.dumps(report.as_json()))
    else:
        for mode, mean in report.means().items():
            print(f"{mode}: geometric mean of the ratios {mean:.3f} over {len(workloads)} shapes")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report.as_json(), file)
    return 1 if report.wrong() else 0


def measure(workload, suite, modes, settings):
    """Checks every contender's result, then times them in each mode."""
    from .report import Line
    from .timing import interleave, make_sets

    sets = make_sets(workload, settings)
    contenders = workload.contenders()
    errors = {c.name: workload.error(sets[0], c.eager(sets[0])) for c in contenders}
    for mode in modes:
        timings, launches = interleave(contenders, sets, settings, graphs=mode == "graph")
        yield Line(workload, suite, mode, len(sets), launches, timings, errors)


def _machine(torch) -> dict[str, object]:
    from .. import __version__

    properties = torch.cuda.get_device_properties()
    return {
        "warpipe": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": properties.name,
        "sms": properties.multi_processor_count,
    }


if __name__ == "__main__":
    sys.exit(main())
