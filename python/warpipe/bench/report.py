"""The result of a run, as text and as JSON."""

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

    @property
    def ratio(self) -> float | None:
        """Time of the fastest rival over that of the first contender; above 1 the first one is faster."""
        rivals = [t.median_us for t in self.timings[1:]]
        return min(rivals) / self.timings[0].median_us if rivals else None

    def as_json(self) -> dict[str, Any]:
        flops = self.workload.flops()
        return {
            "kind": self.workload.kind,
            "suite": self.suite,
            "mode": self.mode,
            "shape": dict(zip(self.workload.dimensions, self.workload.shape)),
            **self.workload.options,
            "sets": self.sets,
            "launches": self.launches,
            "ratio": self.ratio,
            "errors": self.errors,
            "timings": [
                {
                    "name": t.name,
                    "median_us": t.median_us,
                    "min_us": t.min_us,
                    "tflops": flops / t.median_us / 1e6,
                    "host_us": t.host_us,
                    "samples_us": t.samples_us,
                }
                for t in self.timings
            ],
        }

    def __str__(self) -> str:
        flops = self.workload.flops()
        parts = [f"{self.workload.describe():<34} {self.mode:<5}"]
        for t in self.timings:
            host = "" if t.host_us is None else f" host {t.host_us:5.1f} us"
            parts.append(f"{t.name} {t.median_us:9.2f} us {flops / t.median_us / 1e6:6.1f} TFLOP/s{host}")
        parts.append("" if self.ratio is None else f"ratio {self.ratio:.3f}")
        wrong = [name for name, error in self.errors.items() if not error <= 1.0]
        if wrong:
            parts.append(f"WRONG: {', '.join(wrong)}")
        return "  ".join(parts).rstrip()


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
        """Geometric mean of the ratios of each mode."""
        means = {}
        for mode in dict.fromkeys(line.mode for line in self.lines):
            ratios = [line.ratio for line in self.lines if line.mode == mode and line.ratio is not None]
            if ratios:
                means[mode] = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
        return means

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "settings": self.settings,
            "lines": [line.as_json() for line in self.lines],
            "means": self.means(),
        }
