"""Compare the planner's model with recorded times, without the device that they were taken on.

``python benchmarks/planner_fit.py sweep.json`` reads what ``benchmarks/planner.py --record`` has
written, lets the planner decide with the registers that are recorded there (those of mappings that
it does not compile it estimates, as ever), and prints how good the plan is that it takes. That is
how a change of the model in `kerneldsl/planner` is judged. ``--fit`` fits the model's constants to
the record, as ``kerneldsl tune fit`` does to what tuning has recorded, and prints them.
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
from typing import Any

from planner_kernels import CASES, Case

import kerneldsl as kd
from kerneldsl.contract import Device, ElementMapping, Resources
from kerneldsl.kernels.spaces import SpacedKernel
from kerneldsl.launch.decision import make_problems
from kerneldsl.launch.pipeline import resources_of
from kerneldsl.launch.work import kernel_work
from kerneldsl.planner import DeviceOccupancyLimits
from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.choose import Problem, choose, rank
from kerneldsl.planner.fit import ModelInputs, Sample, fit_model
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import element_work
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
class RecordedProblem(Problem):
    """A problem of which only the recorded mappings are open."""

    recorded: tuple[ElementMapping, ...] = ()

    def mappings(self) -> tuple[ElementMapping, ...]:
        """Return the mappings that were measured."""
        return self.recorded


@dataclass(frozen=True)
class Recorded:
    """One kernel at one size: the plans, what each took, and the one that the planner takes."""

    name: str
    exponent: int
    plans: list[str]
    times: list[float]
    chosen: int
    samples: list[Sample]

    @property
    def ratio(self) -> float:
        """The best time over the chosen plan's."""
        return min(self.times) / self.times[self.chosen]

    def say(self, index: int) -> str:
        """Return a plan and its time in words."""
        return f"{self.plans[index]} {self.times[index]:.2f} µs"


def read(path: Path, only: list[str] | None = None, device: Device = H200) -> Iterator[Recorded]:
    """Return the record, and the planner's decisions with the recorded registers."""
    cases = {case.name: case for case in CASES if not only or case.name in only}
    with null.described_as(device), kd.use("null"):
        for kernel in json.loads(path.read_text())["kernels"]:
            case = cases.get(kernel["name"])
            if case is None:
                continue
            prepared = case.prepare(10)
            for size in kernel["sizes"]:
                decide = _member if isinstance(case.kernel, SpacedKernel) else _mapped
                yield decide(case, prepared.args, size, device)


def _mapped(case: Case, args: tuple[Any, ...], size: dict[str, Any], device: Device) -> Recorded:
    request = case.kernel.forall(*size["extent"])._request(args)
    work = element_work(kernel_work(request).body(), request.kinds)
    plans: dict[Candidate, float] = {}
    takes: dict[ElementMapping, Resources] = {}
    for row in size["swept"]:
        if row["vector"] > work.max_vector:
            continue  # no longer a plan
        mapping = ElementMapping(items=tuple(row["items"]), vector=row["vector"])
        plans[Candidate(tuple(row["block"]), mapping)] = row["us"]
        takes[mapping] = Resources(row["registers"], row["spill_bytes"], 0, 0, 1024)
    problem = RecordedProblem(
        case.name,
        tuple(size["extent"]),
        work,
        device,
        DeviceOccupancyLimits.from_device(device),
        DeviceRates.from_device(device),
        recorded=tuple(takes),
    )
    chosen = choose([problem], lambda _, mapping: takes[mapping]).candidate
    told = [f"{_by(c.block_dim)} items {_by(c.mapping.items)} v{c.mapping.vector}" for c in plans]
    compiled = {(problem.constants, mapping): resources for mapping, resources in takes.items()}
    samples = [
        Sample(ModelInputs.of(each), plans[each.candidate] * 1e3)
        for each in rank([problem], compiled)
        if each.candidate in plans
    ]
    return Recorded(
        case.name, size["exponent"], told, list(plans.values()), list(plans).index(chosen), samples
    )


def _member(case: Case, args: tuple[Any, ...], size: dict[str, Any], device: Device) -> Recorded:
    request = case.kernel.forall(*size["extent"])._request(args)
    asked = make_problems(request, tuple(size["extent"]))
    assert asked is not None
    plans: dict[Any, float] = {}
    takes: dict[Any, tuple[int, int]] = {}
    for row in size["swept"]:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in row["parameters"].items()}
        (member,) = case.kernel.space.matching(**values)
        plans[member.values] = row["us"]
        takes[request.of(member).state.constants] = row["registers"], row["spill_bytes"]

    def recorded(problem: Problem, mapping: ElementMapping) -> Resources:
        registers, spill_bytes = takes[problem.constants]
        resources = resources_of(request, problem, mapping)
        return replace(resources, registers=registers, spill_bytes=spill_bytes)

    chosen = choose(
        [each for each in asked if each.member is not None and each.member.values in plans],
        recorded,
    ).candidate.member
    assert chosen is not None
    told = [", ".join(f"{name}={value}" for name, value in values) for values in plans]
    open_ones = [each for each in asked if each.member is not None and each.member.values in plans]
    compiled = {
        (each.constants, mapping): recorded(each, mapping)
        for each in open_ones
        for mapping in each.mappings()
    }
    samples = [
        Sample(ModelInputs.of(each), plans[each.candidate.member.values] * 1e3)
        for each in rank(open_ones, compiled)
        if each.candidate.member is not None
    ]
    return Recorded(
        case.name,
        size["exponent"],
        told,
        list(plans.values()),
        list(plans).index(chosen.values),
        samples,
    )


def _by(numbers: tuple[int, ...]) -> str:
    return "×".join(map(str, numbers))


def main() -> int:
    """Print the worst cases, each kernel's mean, and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--worst", type=int, default=25)
    parser.add_argument("--only", action="append", metavar="KERNEL", help="one case; repeatable")
    parser.add_argument("--fit", action="store_true", help="fit the constants, and print them")
    arguments = parser.parse_args()
    found = list(read(arguments.sweep, arguments.only))
    if arguments.fit:
        fit = fit_model([each.samples for each in found])
        print(json.dumps(fit.model.to_dict(), indent=1))
        print(f"error {fit.error_before:.4f} → {fit.error:.4f}, first plan / best "
              f"{fit.first_choice_before:.4f} → {fit.first_choice:.4f}, "
              f"{fit.samples} plans of {fit.launches} launches")  # fmt: skip
        return 0 if fit.is_better else 1
    for each in sorted(found, key=lambda each: each.ratio)[: arguments.worst]:
        best = min(range(len(each.times)), key=each.times.__getitem__)
        print(f"{each.name:15} 2^{each.exponent:<3} {each.ratio:.3f}  "
              f"took {each.say(each.chosen)}   best {each.say(best)}")  # fmt: skip
    for name in dict.fromkeys(each.name for each in found):
        print(f"{name:15} {_mean([each for each in found if each.name == name]):.4f}")
    print(f"geomean {_mean(found):.4f}")
    return 0


def _mean(found: list[Recorded]) -> float:
    return math.exp(statistics.fmean(math.log(each.ratio) for each in found))


if __name__ == "__main__":
    sys.exit(main())
