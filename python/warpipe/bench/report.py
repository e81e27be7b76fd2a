"""The result of a run, as text, as JSON and as Markdown."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .timing import Timing
from .workload import Workload


@dataclass
class Line:
    """One shape, timed in one mode."""

    workload: Workload
    suite: str
    mode: str
    sets: int
    launches: int
    timings: list[Timing]
    #: Error of each contender relative to the allowed one.
    errors: dict[str, float]
    #: Contenders that could not take part, and why.
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Time of the fastest rival over that of the first contender; above 1 the first one is faster."""
        return min(self.ratios().values(), default=None)

    def ratios(self) -> dict[str, float]:
        """Time of each rival over that of the first contender."""
        return {t.name: t.median_us / self.timings[0].median_us for t in self.timings[1:]}

    def tflops(self) -> dict[str, float]:
        """Rate of each contender in TFLOP/s."""
        return {t.name: self.workload.flops() / t.median_us / 1e6 for t in self.timings}

    @property
    def unit(self) -> str:
        """The unit of the rates."""
        return "TFLOP/s" if self.workload.bytes_read() is None else "GB/s"

    def rates(self) -> dict[str, float]:
        """Rate of each contender in TFLOP/s, or in GB/s where the memory bounds it."""
        read = self.workload.bytes_read()
        return self.tflops() if read is None else {t.name: read / t.median_us / 1e3 for t in self.timings}

    def wrong(self) -> list[str]:
        """Contenders whose results are wrong."""
        return [name for name, error in self.errors.items() if not error <= 1.0]

    def as_json(self) -> dict[str, Any]:
        tflops, rates = self.tflops(), self.rates()
        return {
            "kind": self.workload.kind,
            "suite": self.suite,
            "mode": self.mode,
            "shape": dict(zip(self.workload.dimensions, self.workload.shape)),
            **self.workload.options,
            "sets": self.sets,
            "launches": self.launches,
            "unit": self.unit,
            "ratio": self.ratio,
            "ratios": self.ratios(),
            "errors": self.errors,
            "missing": self.missing,
            "timings": [
                {
                    "name": t.name,
                    "median_us": t.median_us,
                    "min_us": t.min_us,
                    "tflops": tflops[t.name],
                    "rate": rates[t.name],
                    "host_us": t.host_us,
                    "samples_us": t.samples_us,
                }
                for t in self.timings
            ],
        }

    def __str__(self) -> str:
        rates, ratios = self.rates(), self.ratios()
        parts = [f"{self.workload.describe():<40} {self.mode:<5}"]
        for t in self.timings:
            host = "" if t.host_us is None else f" host {t.host_us:5.1f} us"
            ratio = f" ({ratios[t.name]:.3f})" if t.name in ratios else ""
            parts.append(f"{t.name} {t.median_us:9.2f} us {rates[t.name]:6.1f} {self.unit}{host}{ratio}")
        parts.append("" if self.ratio is None else f"ratio {self.ratio:.3f}")
        if self.wrong():
            parts.append(f"WRONG: {', '.join(self.wrong())}")
        if self.missing:
            parts.append(f"without {', '.join(self.missing)}")
        return "  ".join(part for part in parts if part)


@dataclass
class Report:
    """All lines, with the machine and the settings."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    lines: list[Line] = field(default_factory=list)

    def wrong(self) -> list[Line]:
        """Lines in which the first contender's result is wrong."""
        return [line for line in self.lines if not line.errors[line.timings[0].name] <= 1.0]

    def means(self) -> dict[str, float]:
        """Geometric mean of the ratios of each mode, to the fastest rival of each line."""
        means = {}
        for mode in dict.fromkeys(line.mode for line in self.lines):
            ratios = [line.ratio for line in self.lines if line.mode == mode and line.ratio is not None]
            if ratios:
                means[mode] = _mean(ratios)
        return means

    def means_of_rivals(self, mode: str) -> dict[str, tuple[float, int]]:
        """Geometric mean of the ratios to each rival, and of how many lines."""
        ratios: dict[str, list[float]] = {}
        for line in self.lines:
            if line.mode == mode:
                for name, ratio in line.ratios().items():
                    ratios.setdefault(name, []).append(ratio)
        return {name: (_mean(values), len(values)) for name, values in ratios.items()}

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "settings": self.settings,
            "lines": [line.as_json() for line in self.lines],
            "means": self.means(),
            "rivals": {mode: self.means_of_rivals(mode) for mode in self.means()},
        }

    def as_markdown(self) -> str:
        """A table of rates, with the ratio to each rival in brackets."""
        unit = " or ".join(dict.fromkeys(line.unit for line in self.lines))
        names = list(dict.fromkeys(t.name for line in self.lines for t in line.timings))
        text = ["; ".join(f"{key} {value}" for key, value in self.machine.items()) + ".", ""]
        for mode in dict.fromkeys(line.mode for line in self.lines):
            text += [f"| {mode} | " + " | ".join(f"{name}, {unit}" for name in names) + " |"]
            text += ["|---|" + "---|" * len(names)]
            for line in self.lines:
                if line.mode == mode:
                    text.append(f"| {line.workload.describe()} | " + " | ".join(_cells(line, names)) + " |")
            rivals = self.means_of_rivals(mode)
            if rivals:
                cells = ("" if name not in rivals else f"{rivals[name][0]:.3f} ({rivals[name][1]})" for name in names)
                text.append("| geometric mean of the ratios (rows) | " + " | ".join(cells) + " |")
            text.append("")
        return "\n".join(text)


def _cells(line: Line, names: list[str]) -> list[str]:
    rates, ratios, wrong = line.rates(), line.ratios(), line.wrong()
    cells = []
    for name in names:
        if name not in rates:
            cells.append("-")
            continue
        ratio = f" ({ratios[name]:.3f})" if name in ratios else ""
        cells.append(f"{rates[name]:.0f}{ratio}" + (" WRONG" if name in wrong else ""))
    return cells


def _mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))
