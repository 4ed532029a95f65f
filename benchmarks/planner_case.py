"""One kernel of ``benchmarks/planner.py``, in processes of its own: every plan of every size.

Before and after each size a kernel that does nothing is timed. Where that takes longer than at
other times, something else keeps the machine busy, and the size is measured again; the results say
how often.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from planner_kernels import CASES

import kerneldsl as kd
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, max_potential_block_size

__all__ = ["STREAMING_FROM", "check_case", "measure_case"]

_FINALISTS = 5
#: Device time of a graph that is timed once, µs; its launches are as many as fill that.
_SAMPLE_US = 300.0
_MOST_LAUNCHES = 20
#: Predicted time from which a graph has one launch, ns.
_LONG_NS = 300_000
#: Graphs that are run before the first is timed.
_WARM_UP = 40
#: How much longer than the shortest a launch of nothing may take where nothing disturbs.
_QUIET = 1.4
#: How often a process measures a size again, and after how long, in seconds.
_MOST_AGAIN, _PAUSE_S = 4, 1.0
#: Exponent of the size from which streaming kernels are compared with the driver's block.
STREAMING_FROM = 24


@kd.kernel
def nothing(x):
    """Return what a launch costs that does nothing."""


class Stopwatch:
    """Times launches on the device.

    Parameters
    ----------
    quietest_us : float
        The shortest time of a launch of nothing that others have seen.
    """

    def __init__(self, quietest_us: float) -> None:
        self.stream = kd.Stream()
        self.quietest_us = quietest_us
        x = kd.zeros(1, np.float32)
        nothing[1, 32](x)
        self._nothing = self.graph(lambda: nothing[1, 32](x), _MOST_LAUNCHES)
        for _ in range(_WARM_UP):
            self.microseconds(self._nothing, _MOST_LAUNCHES)

    def pulse_us(self) -> float:
        """Return the device time of a launch of nothing."""
        samples = [self.microseconds(self._nothing, _MOST_LAUNCHES) for _ in range(9)]
        pulse = statistics.median(samples)
        self.quietest_us = min(self.quietest_us, pulse)
        return pulse

    def graph(self, launch: Callable[[], None], count: int) -> Any:
        """Return a graph of so many launches."""
        with self.stream.capture() as graph:
            for _ in range(count):
                launch()
        return graph

    def microseconds(self, graph: Any, count: int) -> float:
        """Return the device time of one launch of a graph of them."""
        begin = self.stream.record()
        graph.launch(self.stream)
        end = self.stream.record()
        return 1e3 * float(begin.elapsed_ms(end)) / count


def check_case(name: str) -> None:
    """Compile every plan, which the cache keeps, and compare what each computes."""
    case = find_case(name)
    started = time.perf_counter()
    problem = check(case)
    say({"name": name, "problem": problem, "sizes": [], "compiled_s": since(started)})


def measure_case(name: str, exponents: tuple[int, ...], rounds: int, quietest_us: float) -> None:
    """Measure every size of one kernel."""
    case = find_case(name)
    watch = Stopwatch(quietest_us)
    started = time.perf_counter()
    sizes = measure_sizes(watch, case, exponents, rounds)
    result = {
        "name": name,
        "is_streaming": case.is_streaming,
        "measured_s": since(started),
        "quietest_us": watch.quietest_us,
        "sizes": sizes,
    }
    if name == "axpy f32":
        result["torch"] = compare_with_torch(case, max(exponents))
    say(result)


def find_case(name: str) -> Any:
    """Return a kernel by its name."""
    return next(each for each in CASES if each.name == name)


def since(started: float) -> float:
    """Return the seconds since a time."""
    return time.perf_counter() - started


def say(result: dict[str, Any]) -> None:
    """Print a line of JSON for the process that waits for it."""
    print("RESULT" + json.dumps(result), flush=True)


def check(case: Any) -> str | None:
    """Run every plan over an awkward number of indices; say what came out wrong."""
    prepared = case.prepare(14)
    expected = prepared.expected()
    launch = case.kernel.forall(*prepared.extent)
    for plan in launch.plans(*prepared.args):
        prepared.out.fill(prepared.initial)
        case.kernel.forall(*prepared.extent, plan=plan)(*prepared.args)
        found = prepared.out.copy_to_host()
        error = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
        if not error <= case.tolerance * max(1.0, float(np.abs(expected).max())):
            return f"{describe(plan)}: off by {error:.3g}"
    return None


def describe(plan: Any) -> str:
    """Return a plan in few letters."""
    return f"{plan.block_dim} × {plan.items} v{plan.vector} {dict(plan.parameters)}"


def measure_sizes(
    watch: Stopwatch, case: Any, exponents: tuple[int, ...], rounds: int
) -> list[dict[str, Any]]:
    """Measure every size, and again those that something else has disturbed."""
    sizes = []
    left = _MOST_AGAIN
    for exponent in exponents:
        disturbed: list[float] = []
        while True:
            before = watch.pulse_us()
            found = measure_size(watch, case, exponent, rounds)
            pulse = max(before, watch.pulse_us())
            if pulse <= _QUIET * watch.quietest_us or not left:
                break
            disturbed.append(pulse)
            left -= 1
            time.sleep(_PAUSE_S)
        is_quiet = pulse <= _QUIET * watch.quietest_us
        sizes.append({**found, "pulse_us": pulse, "is_quiet": is_quiet, "disturbed_us": disturbed})
    return sizes


def measure_size(watch: Stopwatch, case: Any, exponent: int, rounds: int) -> dict[str, Any]:
    """Sweep all plans of one size, and measure the best and the chosen again."""
    prepared = case.prepare(exponent)
    args, extent = prepared.args, prepared.extent
    forall = case.kernel.forall
    plans = list(forall(*extent).plans(*args))
    chosen = forall(*extent).plan(*args)
    started = time.perf_counter()
    times, graphs = [], []
    for plan in plans:
        launch = forall(*extent, plan=plan)
        launch(*args)
        fewest = 1 if plan.predicted_ns > _LONG_NS else 2
        count = max(fewest, min(_MOST_LAUNCHES, int(_SAMPLE_US * 1e3 / plan.predicted_ns)))
        graph = watch.graph(lambda launch=launch: launch(*args), count)
        for _ in range(1 if graphs else _WARM_UP):
            watch.microseconds(graph, count)
        samples = [watch.microseconds(graph, count) for _ in range(3 if count > 3 else 1)]
        times.append(statistics.median(samples))
        graphs.append((graph, count))
    order = sorted(range(len(plans)), key=times.__getitem__)[:_FINALISTS]
    mine = find(plans, chosen)
    finalists = [*order, *([mine] if mine not in order else [])]
    by_occupancy = None
    if case.is_streaming and exponent >= STREAMING_FROM:
        by_occupancy = find_by_occupancy(plans)
        finalists += [by_occupancy] if by_occupancy not in finalists else []
    again: dict[int, list[float]] = {each: [] for each in finalists}
    for turn in range(rounds):
        for each in finalists if turn % 2 == 0 else reversed(finalists):
            again[each].append(watch.microseconds(*graphs[each]))
    medians = {each: statistics.median(samples) for each, samples in again.items()}
    best = min(medians, key=medians.__getitem__)
    return {
        "exponent": exponent,
        "extent": extent,
        "plans": len(plans),
        "swept_s": time.perf_counter() - started,
        "chosen": row(plans[mine], times[mine], medians[mine]),
        "best": row(plans[best], times[best], medians[best]),
        "ratio": medians[best] / medians[mine],
        "by_occupancy": by_occupancy
        and row(plans[by_occupancy], times[by_occupancy], medians[by_occupancy]),
        "swept": [row(plan, us) for plan, us in zip(plans, times, strict=True)],
    }


def row(plan: Any, us: float, again_us: float | None = None) -> dict[str, Any]:
    """Return what is kept of a plan and its time."""
    kept = {
        "block": plan.block_dim,
        "items": plan.items,
        "vector": plan.vector,
        "parameters": dict(plan.parameters),
        "registers": plan.registers,
        "spill_bytes": plan.spill_bytes,
        "active_blocks": plan.active_blocks,
        "predicted_us": plan.predicted_ns / 1e3,
        "us": us,
    }
    return kept if again_us is None else {**kept, "again_us": again_us}


def find(plans: list[Any], wanted: Any) -> int:
    """Return where a plan stands among all."""
    for i, plan in enumerate(plans):
        if all(
            getattr(plan, name) == getattr(wanted, name)
            for name in ("block_dim", "mapping", "parameters")
        ):
            return i
    raise AssertionError(f"{describe(wanted)} is not among the plans")


def find_by_occupancy(plans: list[Any]) -> int:
    """Return the plan with one index a thread and the block that the driver's calculator gives."""
    one_each = [plan for plan in plans if plan.mapping.item_count == 1]
    (place,) = {plan.device for plan in one_each}
    device = next(each.device for each in kd.devices() if str(each) == place)
    limits = DeviceOccupancyLimits.from_device(device)
    block = max_potential_block_size(limits, KernelResources(one_each[0].registers)).block_threads
    return next(i for i, plan in enumerate(plans) if plan in one_each
                and plan.block_dim == (block, 1, 1))  # fmt: skip


def compare_with_torch(case: Any, exponent: int) -> dict[str, float]:
    """Measure the same axpy by torch, in turns."""
    import torch

    prepared = case.prepare(exponent)
    a, x, y, out = prepared.args
    tensors = [torch.as_tensor(each, device="cuda") for each in (x, y, out)]
    launch = case.kernel.forall(*prepared.extent)
    sides = {
        "kerneldsl": lambda: launch(a, x, y, out),
        "torch": lambda: torch.add(tensors[1], tensors[0], alpha=float(a), out=tensors[2]),
    }
    stream = kd.default_stream()
    samples: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(12):
        for side in sides if turn % 2 == 0 else reversed(sides):
            begin = stream.record()
            for _ in range(4):
                sides[side]()
            end = stream.record()
            samples[side].append(1e3 * begin.elapsed_ms(end) / 4)
    return {side: statistics.median(found[2:]) for side, found in samples.items()}
