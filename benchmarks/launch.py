"""Cost of a launch from Python, against a loop in native code that makes the same launch.

On a GPU, with nothing else on it::

    python benchmarks/launch.py --json benchmarks/results/launch.json

and on any machine, for the CPU's side::

    python benchmarks/launch.py --cpu

The contestants take turns: each sample is a few hundred launches, host time from the first to the
last call, with an idle device before; medians are reported, of times and of their ratios to the
floor in each round. The floor of each row repeats the same launch (function, grid, block,
parameters) from native code. Other libraries are measured where they
are installed. The exit status is 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from launch_floor import body_call, body_loop, driver_loop
from machine import describe_cpu_machine, describe_gpu_machine

import kerneldsl as kd
from kerneldsl.launch.native import machine

#: What a launch may cost, as multiples of the floor of its row.
MAX_OURS, MAX_SIXTEEN, MAX_TORCH = 1.15, 1.5, 1.5
#: On the CPU: microseconds for 16 elements, and multiples of the body's own time for many.
MAX_SMALL_US, MAX_LARGE = 1.0, 1.2
#: Elements of a launch that is large.
LARGE = 1 << 16
#: Elements of one that takes so long that waking threads does not show.
VERY_LARGE = 1 << 20


@dataclass
class Report:
    """Everything that was measured."""

    machine: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    verdicts: dict[str, bool] = field(default_factory=dict)


@kd.kernel
def axpy(a, x, y, out):
    """Take one scalar and three arrays."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def sum16(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, out):
    """Take sixteen arrays."""
    at = kd.grid(1)
    if at < out.size:
        first = a[at] + b[at] + c[at] + d[at] + e[at] + f[at] + g[at] + h[at]
        out[at] = first + i[at] + j[at] + k[at] + m[at] + n[at] + o[at] + p[at]


SCALE, SHIFT, LOW, HIGH = np.float32(2.0), np.float32(0.5), np.float32(-1e6), np.float32(1e6)


@kd.kernel
def captures(x, y, out):
    """Use four captured globals and three arrays."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = min(max(SCALE * x[i] + y[i] + SHIFT, LOW), HIGH)


def take_turns(
    contestants: dict[str, Callable[[int], None]],
    wait: Callable[[], None],
    *,
    calls: int,
    rounds: int,
) -> dict[str, list[float]]:
    """Return seconds of a launch of each, in each round."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run(3 * calls)  # so that whatever is made once has been made
    order = list(contestants.items())
    for number in range(rounds):
        turn = number % len(order)
        for name, run in order[turn:] + order[:turn]:
            wait()
            started = time.perf_counter()
            run(calls)
            samples[name].append((time.perf_counter() - started) / calls)
            wait()
    return samples


def add_rows(
    report: Report,
    samples: dict[str, list[float]],
    floors: dict[str, str],
    bounds: dict[str, float],
) -> None:
    """Write down medians, ratios to the floor of each row, and what had been promised."""
    for name, times in samples.items():
        median = statistics.median(times)
        floor = floors.get(name)
        ratio = None
        if floor is not None:  # in each round, which what else the machine does disturbs alike
            ratio = statistics.median(
                own / least for own, least in zip(times, samples[floor], strict=True)
            )
        row = {"launch": name, "us": 1e6 * median, "floor": floor, "ratio": ratio}
        row["us_low"], row["us_high"] = 1e6 * min(times), 1e6 * max(times)
        report.rows.append(row)
        if name in bounds:
            assert ratio is not None
            limit = bounds[name]
            report.verdicts[f"{name}: {ratio:.2f} of its floor, at most {limit}"] = ratio <= limit
        shown = "" if ratio is None else f"{ratio:6.2f} × {floor}"
        print(f"{name:44} {1e6 * median:9.3f} µs {shown}", flush=True)


# --------------------------------------------------------------------------- GPU


def ours(n: int) -> tuple[dict[str, Callable[[int], None]], dict[str, str], dict[str, float]]:
    """Return our launches with their floors and bounds."""
    host = np.random.default_rng().random(n).astype(np.float32)
    x, y, out = (kd.to_device(host) for _ in range(3))
    many = [kd.to_device(host) for _ in range(16)]
    a = 2.0
    blocks = -(-n // 256)
    bound = axpy.forall(n).bind(a, x, y, out)
    explicit_bound = axpy[blocks, 256].bind(a, x, y, out)

    def planned(count: int) -> None:
        for _ in range(count):
            axpy.forall(out.size)(a, x, y, out)

    def explicit(count: int) -> None:
        for _ in range(count):
            axpy[blocks, 256](a, x, y, out)

    def prepared(count: int) -> None:
        for _ in range(count):
            bound()

    def prepared_explicit(count: int) -> None:
        for _ in range(count):
            explicit_bound()

    def sixteen(count: int) -> None:
        for _ in range(count):
            sum16.forall(n)(*many)

    def captured(count: int) -> None:
        for _ in range(count):
            captures.forall(out.size)(x, y, out)

    def by_python(count: int) -> None:
        with machine.suspended():
            planned(count)

    contestants = {
        "C loop, scalar and 3 arrays": driver_loop(axpy.forall(n), a, x, y, out),
        "C loop, parameters in a buffer": driver_loop(axpy.forall(n), a, x, y, out, by_buffer=True),
        "forall": planned,
        "forall, prepared": prepared,
        "C loop, explicit": driver_loop(axpy[blocks, 256], a, x, y, out),
        "explicit": explicit,
        "explicit, prepared": prepared_explicit,
        "C loop, 16 arrays": driver_loop(sum16.forall(n), *many),
        "forall, 16 arrays": sixteen,
        "C loop, 3 arrays": driver_loop(captures.forall(n), x, y, out),
        "forall, 4 captured globals": captured,
        "forall, through Python": by_python,
    }
    floors = {
        "forall": "C loop, scalar and 3 arrays",
        "forall, prepared": "C loop, scalar and 3 arrays",
        "explicit": "C loop, explicit",
        "explicit, prepared": "C loop, explicit",
        "forall, 16 arrays": "C loop, 16 arrays",
        "forall, 4 captured globals": "C loop, 3 arrays",
        "forall, through Python": "C loop, scalar and 3 arrays",
    }
    bounds = {name: MAX_OURS for name in floors if "Python" not in name}
    bounds["forall, 16 arrays"] = MAX_SIXTEEN
    return contestants, floors, bounds


def measure_gpu(report: Report, n: int, rounds: int, calls: int) -> None:
    """Measure launches of kernels that do next to nothing."""
    from launch_peers import peers

    contestants, floors, bounds = ours(n)
    floor = "C loop, scalar and 3 arrays"
    for name, run in peers(axpy, n).items():
        contestants[name] = run
        floors[name] = floor
        if name == "forall, torch tensors":
            bounds[name] = MAX_TORCH
    samples = take_turns(contestants, kd.synchronize, calls=calls, rounds=rounds)
    add_rows(report, samples, floors, bounds)


# --------------------------------------------------------------------------- CPU


def measure_cpu(report: Report, sizes: tuple[int, ...], rounds: int) -> None:
    """Measure launches with NumPy arrays against the compiled body that they call."""
    for n in sizes:
        host = np.random.default_rng().random(n).astype(np.float32)
        x, y, out = host, host.copy(), host.copy()
        a = 2.0
        bound = axpy.forall(n).bind(a, x, y, out)

        def planned(count: int, a: float = a, x: Any = x, y: Any = y, out: Any = out) -> None:
            for _ in range(count):
                axpy.forall(out.size)(a, x, y, out)

        def prepared(count: int, bound: Any = bound) -> None:
            for _ in range(count):
                bound()

        launch = axpy.forall(n)
        bodies = {
            f"loop over the body, {n} elements": body_loop(launch, a, x, y, out),
            f"loop over the body on the pool, {n} elements": body_loop(
                launch, a, x, y, out, on_pool=True
            ),
            f"body from Python, {n} elements": body_call(launch, a, x, y, out),
            f"body from Python on the pool, {n} elements": body_call(
                launch, a, x, y, out, on_pool=True
            ),
        }
        contestants = {
            **bodies,
            f"forall, {n} elements": planned,
            f"prepared, {n} elements": prepared,
        }
        calls = max(5, min(20_000, 20_000_000 // n))
        samples = take_turns(contestants, lambda: None, calls=calls, rounds=rounds)
        # Threads that have just shared work wait for more a little while: a loop over the body
        # meets them awake, and Python does not. Where that matters, the body is called from there.
        fair = [name for name in bodies if n >= VERY_LARGE or "Python" in name]
        floor = min(fair, key=lambda name: statistics.median(samples[name]))
        floors = {f"{name}, {n} elements": floor for name in ("forall", "prepared")}
        bounds = {f"forall, {n} elements": MAX_LARGE} if n >= LARGE else {}
        add_rows(report, samples, floors, bounds)
        if n == 16:
            us = 1e6 * statistics.median(samples["forall, 16 elements"])
            said = f"forall, 16 elements: {us:.3f} µs, at most {MAX_SMALL_US}"
            report.verdicts[said] = us <= MAX_SMALL_US


def main() -> int:
    """Measure, judge, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--cpu", action="store_true", help="the CPU alone")
    parser.add_argument("--elements", type=int, default=1024, help="of each array on the GPU")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=400, help="launches of a sample on the GPU")
    options = parser.parse_args()
    describe = describe_cpu_machine if options.cpu else describe_gpu_machine
    report = Report(describe(options.commit))
    print(json.dumps(report.machine, indent=1))
    if not options.cpu:
        measure_gpu(report, options.elements, options.rounds, options.calls)
    with kd.use("cpu"):
        measure_cpu(report, (16, 1024, LARGE, 1 << 20, 1 << 24), options.rounds)
    for promise, kept in report.verdicts.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {promise}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
