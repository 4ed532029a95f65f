"""The planner's first choice against the best of all plans, kernel by kernel and size by size.

On a machine with a GPU, and nothing else on it::

    python benchmarks/planner.py --json benchmarks/results/planner.json --record sweep.json

Each kernel has a process of its own: they compile side by side and measure one after the other.
Every legal plan (block, items a thread, vector) is timed on the device through a graph of launches;
the five best and the planner's choice are then measured again, in turns, and compared by medians.
``--record`` keeps every time, to which the constants of the model can be fitted elsewhere
(``benchmarks/planner_fit.py``). On the CPU::

    python benchmarks/planner.py --cpu

Lines that begin with BROKEN say which bound is missed; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_cpu_machine, describe_gpu_machine

_ROOT = Path(__file__).resolve().parents[1]
#: Exponents of the sizes, in indices.
_EXPONENTS = (10, 14, 18, 22, 24, 26, 28)
_FINALISTS = 5
#: Device time of a graph that is timed once, µs; its launches are as many as fill that.
_SAMPLE_US = 300.0
_MOST_LAUNCHES = 20
#: Predicted time from which a graph has one launch, ns.
_LONG_NS = 300_000
#: Graphs that are run before the first is timed.
_WARM_UP = 40
#: A kernel with fewer plans is shown, and not counted.
_FEWEST_PLANS = 64

# The bounds of the issue.
_GEOMEAN, _WORST, _LONG_US, _WITHIN_US = 0.95, 0.8, 10.0, 1.0
_OVER_OCCUPANCY, _STREAMING_FROM = 1.1, 24
_OF_TORCH = 0.99


# ----------------------------------------------------------------- one kernel's process


class Stopwatch:
    """Times launches on the device."""

    def __init__(self) -> None:
        import kerneldsl as kd

        self.stream = kd.Stream()
        self._kd = kd

    def graph(self, launch: Callable[[], None], count: int) -> Any:
        """A graph of so many launches."""
        with self.stream.capture() as graph:
            for _ in range(count):
                launch()
        return graph

    def microseconds(self, graph: Any, count: int) -> float:
        """Device time of one launch of a graph of them."""
        begin = self.stream.record()
        graph.launch(self.stream)
        end = self.stream.record()
        return 1e3 * float(begin.elapsed_ms(end)) / count


def run_case(name: str, exponents: tuple[int, ...], rounds: int) -> None:
    """Measure one kernel; say when it is compiled, wait for the word, print one line of JSON."""
    from planner_kernels import CASES

    case = next(each for each in CASES if each.name == name)
    started = time.perf_counter()
    prepared = case.prepare(min(exponents))
    for ready in case.kernel.forall(*prepared.extent).plans(*prepared.args):
        case.kernel.forall(*prepared.extent, plan=ready)(*prepared.args)
    problem = check(case)
    compiled_s = time.perf_counter() - started
    print("READY", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    sizes = [measure_size(case, exponent, rounds) for exponent in exponents]
    result = {
        "name": name,
        "is_streaming": case.is_streaming,
        "compiled_s": compiled_s,
        "measured_s": time.perf_counter() - started,
        "problem": problem,
        "sizes": sizes,
    }
    if name == "axpy f32":
        result["torch"] = compare_with_torch(case, max(exponents))
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
    """A plan in few letters."""
    return f"{plan.block_dim} × {plan.items} v{plan.vector} {dict(plan.parameters)}"


def measure_size(case: Any, exponent: int, rounds: int) -> dict[str, Any]:
    """Sweep all plans of one size, and measure the best and the chosen again."""
    watch = Stopwatch()
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
    if case.is_streaming and exponent >= _STREAMING_FROM:
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
    """What is kept of a plan and its time."""
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
    """Where a plan stands among all."""
    for i, plan in enumerate(plans):
        if all(
            getattr(plan, name) == getattr(wanted, name)
            for name in ("block_dim", "mapping", "parameters")
        ):
            return i
    raise AssertionError(f"{describe(wanted)} is not among the plans")


def find_by_occupancy(plans: list[Any]) -> int:
    """The plan with one index a thread and the block that the driver's calculator gives."""
    import kerneldsl as kd
    from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, max_potential_block_size

    one_each = [plan for plan in plans if plan.mapping.item_count == 1]
    (place,) = {plan.device for plan in one_each}
    device = next(each.device for each in kd.devices() if str(each) == place)
    limits = DeviceOccupancyLimits.from_device(device)
    block = max_potential_block_size(limits, KernelResources(one_each[0].registers)).block_threads
    return next(i for i, plan in enumerate(plans) if plan in one_each
                and plan.block_dim == (block, 1, 1))  # fmt: skip


def compare_with_torch(case: Any, exponent: int) -> dict[str, float]:
    """The same axpy by torch, in turns."""
    import torch

    import kerneldsl as kd

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


# ----------------------------------------------------------------------- all of them


def run_all(arguments: argparse.Namespace) -> dict[str, Any]:
    """A process for each kernel: all compile at once, and measure in turn."""
    from planner_kernels import CASES

    names = [c.name for c in CASES if not arguments.only or c.name in arguments.only]
    width = max(1, (os.cpu_count() or 2) - 1)
    waiting, running = list(names), []
    results = []
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(_ROOT), *sys.path[:1]]))
    while waiting or running:
        while waiting and len(running) < width:
            command = [sys.executable, __file__, "--case", waiting[0]]
            command += ["--exponents", ",".join(map(str, arguments.exponents))]
            command += ["--rounds", str(arguments.rounds)]
            log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=environment,
            )  # fmt: skip
            running.append((waiting.pop(0), child, log))
        name, child, log = running.pop(0)
        results.append(finish(name, child, log))
    return {"kernels": results}


def finish(name: str, child: subprocess.Popen[str], log: Any) -> dict[str, Any]:
    """Let a process measure, now that it is its turn, and take what it found."""
    assert child.stdin is not None
    assert child.stdout is not None
    found = None
    for line in child.stdout:
        if line.startswith("READY"):
            child.stdin.write("go\n")
            child.stdin.flush()
        elif line.startswith("RESULT"):
            found = json.loads(line[len("RESULT") :])
            show(found)
    child.wait()
    if found is None:
        log.seek(0)
        text = log.read().strip().splitlines()
        found = {"name": name, "problem": " / ".join(text[-3:]) or "it ended early", "sizes": []}
        print(f"{name}: {found['problem']}")
    return found


def show(found: dict[str, Any]) -> None:
    """One line for each size of a kernel."""
    timing = f"compiled in {found['compiled_s']:.1f} s, measured in {found['measured_s']:.1f} s"
    print(f"{found['name']} ({timing})")
    for size in found["sizes"]:
        best, chosen = size["best"], size["chosen"]
        print(
            f"  2^{size['exponent']:<2} {size['plans']:4} plans  "
            f"best {best['again_us']:9.2f} µs {_short(best):28} "
            f"chosen {chosen['again_us']:9.2f} µs {_short(chosen):28} {size['ratio']:.3f}",
            flush=True,
        )


def _short(found: dict[str, Any]) -> str:
    block, items = ("×".join(map(str, found[key])) for key in ("block", "items"))
    values = {name: v for name, v in found["parameters"].items() if name != "block"}
    own = f"items {items} v{found['vector']}"
    return f"{block} " + (", ".join(f"{k} {v}" for k, v in values.items()) or own)


def judge(results: dict[str, Any]) -> list[str]:
    """What falls short of the bounds."""
    broken = []
    counted: list[float] = []
    kernels = 0
    apart: dict[str, list[float]] = {}
    over_occupancy: list[float] = []
    for kernel in results["kernels"]:
        if kernel["problem"]:
            broken.append(f"{kernel['name']}: {kernel['problem']}")
        few = [size["ratio"] for size in kernel["sizes"] if size["plans"] < _FEWEST_PLANS]
        if few:
            apart[kernel["name"]] = few
        full = [size for size in kernel["sizes"] if size["plans"] >= _FEWEST_PLANS]
        kernels += bool(full)
        for size in full:
            counted.append(size["ratio"])
            best, mine = size["best"]["again_us"], size["chosen"]["again_us"]
            where = f"{kernel['name']} 2^{size['exponent']}"
            if best >= _LONG_US and size["ratio"] < _WORST:
                broken.append(f"{where}: {size['ratio']:.3f} of the best, at least {_WORST} wanted")
            if best < _LONG_US and mine - best > _WITHIN_US:
                broken.append(f"{where}: {mine - best:.2f} µs over the best")
            if size["by_occupancy"]:
                over_occupancy.append(size["by_occupancy"]["again_us"] / mine)
    summary = results["summary"] = {"kernels": kernels, "cases": len(counted)}
    if counted:
        summary["geomean"] = geomean(counted)
        summary["worst"] = min(counted)
        print(f"first choice / best: geomean {summary['geomean']:.4f}, worst {min(counted):.3f}, "
              f"{kernels} kernels, {len(counted)} cases")  # fmt: skip
        if summary["geomean"] < _GEOMEAN:
            broken.append(f"geomean {summary['geomean']:.4f}, at least {_GEOMEAN} wanted")
    for name, ratios in apart.items():
        print(f"apart, of fewer than {_FEWEST_PLANS} plans: {name} {geomean(ratios):.3f}, "
              f"worst {min(ratios):.3f}")  # fmt: skip
    if over_occupancy:
        summary["over_occupancy"] = geomean(over_occupancy)
        print(f"against the block of max_potential_block_size, streaming from 2^{_STREAMING_FROM}: "
              f"{summary['over_occupancy']:.3f}×")  # fmt: skip
        if summary["over_occupancy"] < _OVER_OCCUPANCY:
            broken.append(f"{summary['over_occupancy']:.3f}× of max_potential_block_size")
    for kernel in results["kernels"]:
        found = kernel.get("torch")
        if found:
            share = found["torch"] / found["kerneldsl"]
            summary["of_torch"] = share
            print(f"axpy: {found['kerneldsl']:.1f} µs, torch {found['torch']:.1f} µs: {share:.3f}×")
            if share < _OF_TORCH:
                broken.append(f"axpy is {share:.3f}× of torch's, at least {_OF_TORCH} wanted")
    return broken


def geomean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> int:
    """Measure, print, write down; 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="measure the CPU's plans")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--record", type=Path, help="write every time of the sweep there")
    parser.add_argument("--only", action="append", help="a kernel; several times for several")
    parser.add_argument("--exponents", type=_exponents, default=_EXPONENTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        run_case(arguments.case, arguments.exponents, arguments.rounds)
        return 0
    started = time.perf_counter()
    if arguments.cpu:
        from planner_cpu import measure_cpu

        rows, broken = measure_cpu(arguments.only)
        results: dict[str, Any] = {"cpu": rows, "kernels": []}
    else:
        results = run_all(arguments)
        broken = judge(results)
    seconds = time.perf_counter() - started
    describe = describe_cpu_machine if arguments.cpu else describe_gpu_machine
    results = {"machine": describe(arguments.commit), "seconds": seconds, **results}
    results["broken"] = broken
    if arguments.record:
        arguments.record.write_text(json.dumps(results))
    for kernel in results["kernels"]:
        for size in kernel["sizes"]:
            del size["swept"]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['seconds']:.0f} s")
    for line in broken:
        print(f"BROKEN {line}")
    return 1 if broken else 0


def _exponents(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
