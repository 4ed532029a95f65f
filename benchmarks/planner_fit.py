"""Compare the planner's model with recorded times, without the device that they were taken on.

``python benchmarks/planner_fit.py sweep.json`` reads what ``benchmarks/planner.py --record`` has
written, lets the model predict every plan in it, and prints how good the plan is that the model
would take. That is how the constants in `kerneldsl/planner` were found, and how a change of them is
judged.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from planner_kernels import CASES

import kerneldsl as kd
from kerneldsl.analysis.count_work import body_work
from kerneldsl.planner import DeviceOccupancyLimits
from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.choose import Problem, Scored, in_order
from kerneldsl.planner.cost import CONSTANTS, Constants, predict
from kerneldsl.planner.occupancy import occupancy
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.resources import KernelResources
from kerneldsl.planner.work import ElementWork, element_work
from kerneldsl.runtime.binding import kinds_of
from kerneldsl.spaces import SpacedKernel
from kerneldsl.target import Device, ElementMapping, Resources
from targets import null

#: An H200, as its driver describes it.
H200 = replace(
    null.H100,
    name="NVIDIA H200 (described)",
    extra={
        **null.H100.extra,
        "total_memory_bytes": 150109880320,
        "l2_cache_size": 62914560,
        "clock_rate": 1_980_000,
        "memory_clock_rate": 3_201_000,
        "global_memory_bus_width": 6016,
    },
)


@dataclass(frozen=True)
class Recorded:
    """One kernel at one size: the plans, and what each took."""

    name: str
    exponent: int
    problem: Problem
    plans: list[Scored]
    times: list[float]

    def chosen(self, rates: DeviceRates, constants: Constants) -> int:
        """The plan that the model takes."""
        scored = []
        for each in self.plans:
            found = predict(
                each.candidate,
                self.problem.work,
                self.problem.extent,
                math.prod(
                    each.candidate.mapping.blocks(self.problem.extent, each.candidate.block_dim)
                ),
                each.held.active_blocks,
                rates,
                spill_bytes=each.resources.spill_bytes or 0,
                constants=constants,
            )
            scored.append(replace(each, prediction=found))
        best = in_order(scored)[0].candidate
        return next(i for i, each in enumerate(self.plans) if each.candidate == best)


def works() -> dict[str, tuple[ElementWork, bool]]:
    """What each case's kernel does for an index."""
    found = {}
    with null.described_as(H200), kd.use("null"):
        for case in CASES:
            if isinstance(case.kernel, SpacedKernel):
                continue
            prepared = case.prepare(10)
            dispatcher = case.kernel._dispatcher
            codes, _ = dispatcher.identity(prepared.args)
            unit = dispatcher.state().unit
            found[case.name] = element_work(body_work(unit), kinds_of(codes))
    return found


def read(path: Path, device: Device = H200) -> Iterator[Recorded]:
    """What was recorded, as the planner sees it."""
    known = works()
    limits, rates = DeviceOccupancyLimits.from_device(device), DeviceRates.from_device(device)
    for kernel in json.loads(path.read_text())["kernels"]:
        if kernel["name"] not in known:
            continue
        for size in kernel["sizes"]:
            extent = tuple(size["extent"])
            problem = Problem(kernel["name"], extent, known[kernel["name"]], device, limits, rates)
            plans, times = [], []
            for row in size["swept"]:
                if row["vector"] > problem.work.max_vector:
                    continue  # no longer a plan
                mapping = ElementMapping(items=tuple(row["items"]), vector=row["vector"])
                candidate = Candidate(tuple(row["block"]), mapping)
                takes = Resources(row["registers"], row["spill_bytes"], 0, 0, 1024)
                held = occupancy(limits, KernelResources.from_resources(takes, limits),
                                 candidate.block_threads)  # fmt: skip
                plans.append(Scored(candidate, (1, 1, 1), held, None, takes, True))  # type: ignore[arg-type]
                times.append(row["us"])
            yield Recorded(kernel["name"], size["exponent"], problem, plans, times)


def judge(
    recorded: list[Recorded], rates: DeviceRates, constants: Constants
) -> list[tuple[float, Recorded, int]]:
    """Best time over the chosen plan's, for each case."""
    found = []
    for each in recorded:
        chosen = each.chosen(rates, constants)
        found.append((min(each.times) / each.times[chosen], each, chosen))
    return found


def main() -> int:
    """Print the worst cases and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--worst", type=int, default=25)
    arguments = parser.parse_args()
    recorded = list(read(arguments.sweep))
    found = judge(recorded, recorded[0].problem.rates, CONSTANTS)
    for ratio, each, chosen in sorted(found, key=lambda f: f[0])[: arguments.worst]:
        best = min(range(len(each.times)), key=each.times.__getitem__)
        print(f"{each.name:15} 2^{each.exponent:<3} {ratio:.3f}  took {say(each, chosen)}   "
              f"best {say(each, best)}")  # fmt: skip
    print(f"geomean {math.exp(statistics.fmean(math.log(r) for r, _, _ in found)):.4f}")
    return 0


def say(each: Recorded, index: int) -> str:
    """A plan and its time."""
    candidate = each.plans[index].candidate
    block = "×".join(map(str, candidate.block_dim))
    items = "×".join(map(str, candidate.mapping.items))
    return f"{block} items {items} v{candidate.mapping.vector} {each.times[index]:.2f} µs"


if __name__ == "__main__":
    sys.exit(main())
