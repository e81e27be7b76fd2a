"""Measuring: contenders in turn, from CUDA graphs or as eager calls.

Clock and temperature are alike for contenders that run in turn (A B A B ...), and they share the power limit
(`Settings.sample_us`). The operands rotate over many sets, so that no launch finds its own in the L2 cache.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from .workload import Contender, Workload


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    #: Samples of each contender.
    rounds: int = 30
    #: Untimed rounds before them.
    warmup: int = 10
    #: Shortest sample in microseconds: shorter launches are repeated, up to 1000 times. A graph's own launch takes about 3 us of
    #: it. Contenders with short samples seem to share the power limit: one that needs little power leaves more to the next.
    sample_us: float = 2000.0
    #: Seed of the operands.
    seed: int = 0


@dataclass
class Timing:
    """Times of one contender in microseconds per launch."""

    name: str
    samples_us: list[float] = field(repr=False)
    #: Host time of one call in microseconds, for eager calls.
    host_us: float | None = None

    @property
    def median_us(self) -> float:
        return statistics.median(self.samples_us)

    @property
    def min_us(self) -> float:
        return min(self.samples_us)


def sets_in_rotation(workload: Workload) -> int:
    """Sets of operands that fill the L2 cache twice, so that nothing is left of a set when its turn comes."""
    l2 = torch.cuda.get_device_properties().L2_cache_size
    return max(1, min(256, -(-2 * l2 // max(1, workload.bytes_of_a_set()))))


def make_sets(workload: Workload, settings: Settings) -> list[Any]:
    return [workload.operands(settings.seed + i) for i in range(sets_in_rotation(workload))]


def interleave(
    contenders: list[Contender], sets: list[Any], settings: Settings, graphs: bool
) -> tuple[list[Timing], int]:
    """Times contenders in turn. Returns their times and the launches of a sample."""
    calls: list[Callable[[Any], object]] = [c.into if graphs else c.eager for c in contenders]
    for call in calls:
        for operands in sets[:3]:
            call(operands)
    best = min(_once(call, sets) for call in calls)
    launches = max(1, min(1000, math.ceil(settings.sample_us / max(best, 1.0))))
    if launches > 1:
        launches = max(launches, len(sets))

    def turn(call: Callable[[Any], object]) -> None:
        for i in range(launches):
            call(sets[i % len(sets)])

    work: list[Callable[[], object]] = []
    for call in calls:
        if graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                turn(call)
            work.append(graph.replay)
        else:
            work.append(lambda call=call: turn(call))
    collecting = gc.isenabled()
    gc.disable()
    try:
        marks, host = _rounds(work, settings, graphs)
    finally:
        if collecting:
            gc.enable()
    timings = []
    for i, contender in enumerate(contenders):
        samples = [start.elapsed_time(end) * 1e3 / launches for start, end in marks[i]]
        host_us = None if graphs else statistics.median(host[i]) * 1e6 / launches
        timings.append(Timing(contender.name, samples, host_us))
    return timings, launches


def _rounds(work: list[Callable[[], object]], settings: Settings, graphs: bool) -> tuple[list, list]:
    marks: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in work]
    host: list[list[float]] = [[] for _ in work]
    for i in range(settings.warmup + settings.rounds):
        for marked, times, launch in zip(marks, host, work):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if not graphs:
                # The host's time of a call is of interest, so the queue must not be full.
                torch.cuda.synchronize()
            start.record()
            begin = time.perf_counter()
            launch()
            spent = time.perf_counter() - begin
            end.record()
            if i >= settings.warmup:
                marked.append((start, end))
                times.append(spent)
    torch.cuda.synchronize()
    return marks, host


def _once(call: Callable[[Any], object], sets: list[Any]) -> float:
    """The fastest of five launches, in microseconds."""
    fastest = float("inf")
    for i in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call(sets[i % len(sets)])
        end.record()
        end.synchronize()
        fastest = min(fastest, start.elapsed_time(end) * 1e3)
    return fastest
