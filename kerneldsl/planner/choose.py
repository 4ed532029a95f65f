"""Choosing a plan for an element kernel: every legal one is compared, the best is taken.

Comparing costs no compilation: registers of mappings that are not compiled yet are estimated. The
mapping that seems best is compiled, and compared again with what the assembler gave it; if another
one then seems better, that is compiled too, `MAX_COMPILED` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kerneldsl.errors import ResourceLimitError
from kerneldsl.planner.candidates import (
    Candidate,
    block_shapes,
    element_mappings,
    fit_grid,
    walked_axes,
)
from kerneldsl.planner.cost import Prediction, predict
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.occupancy import Occupancy, occupancy
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.resources import KernelResources
from kerneldsl.planner.work import ElementWork
from kerneldsl.target import Device, Dim3, ElementMapping, Resources

__all__ = [
    "MAX_COMPILED",
    "TIE",
    "Choice",
    "Problem",
    "Scored",
    "choose",
    "estimate_resources",
    "in_order",
    "nothing_fits",
    "rank",
    "score",
]

#: Mappings that are compiled for one decision, at most.
MAX_COMPILED = 3
#: Of what a thread loads at one place of the source, what it holds at once: a loop is unrolled so
#: far, while all of its rounds are counted as loads.
_HELD_BYTES = 32
#: Times that differ by less are taken for equal; then the plainer plan wins.
TIE = 0.01


@dataclass(frozen=True)
class Problem:
    """What is to be planned.

    Parameters
    ----------
    kernel : str
        Name of the kernel.
    extent : tuple of int
        One to three positive extents, in the user's order.
    work : ElementWork
        What the body does for an index.
    device : Device
        Where; its limits hold.
    limits : DeviceOccupancyLimits
        What its multiprocessors hold.
    rates : DeviceRates
        How fast it is.
    max_vector : int
        The longest vector that the arguments' alignment allows.
    can_map : bool
        Whether the kernel's indices may be dealt out otherwise than one to a thread.
    block_dim : tuple of int or None
        The block, where the user has said it.
    shared_bytes : int
        Dynamic shared memory of a block.
    axes : tuple of int or None
        The axis of the extent along x, then y, then z; ``None`` has the last along x.
    """

    kernel: str
    extent: tuple[int, ...]
    work: ElementWork
    device: Device
    limits: DeviceOccupancyLimits
    rates: DeviceRates
    max_vector: int = 4
    can_map: bool = True
    block_dim: Dim3 | None = None
    shared_bytes: int = 0
    axes: tuple[int, ...] | None = None

    def mappings(self) -> tuple[ElementMapping, ...]:
        """The mappings that the kernel can be compiled with."""
        ndim, most = len(self.extent), self.device.limits.max_grid_dim
        narrowest = self.block_dim or (self.device.limits.warp_size // (2 if ndim > 1 else 1), 1, 1)
        if not self.can_map:
            return (ElementMapping(axes=tuple(range(ndim)), grid_stride=""),)
        return tuple(
            walked_axes(replace(each, axes=self.axes), self.extent, narrowest, most)
            for each in element_mappings(ndim, self.work)
            if each.vector <= self.max_vector
        )


class Scored(NamedTuple):
    """A legal plan with what the models say of it."""

    candidate: Candidate
    grid_dim: Dim3
    held: Occupancy
    prediction: Prediction
    resources: Resources
    is_compiled: bool


def rank(
    problem: Problem,
    compiled: dict[ElementMapping, Resources],
    mappings: Iterable[ElementMapping] | None = None,
) -> list[Scored]:
    """Compare all legal plans.

    Parameters
    ----------
    problem : Problem
        What is to be planned.
    compiled : dict
        What those mappings take that are compiled already; the others' is estimated.
    mappings : iterable of ElementMapping, optional
        Which to compare; by default all.

    Returns
    -------
    list of Scored
        The best first: by time, and the plainer one of those that are within `TIE` of the best.
    """
    tried = problem.mappings() if mappings is None else mappings
    return in_order([each for mapping in tried for each in score(problem, mapping, compiled)])


def in_order(found: list[Scored]) -> list[Scored]:
    """Plans, the best first."""
    return sorted(found, key=_order(found)) if found else found


def best_of(found: Iterable[Scored]) -> Scored | None:
    """The plan that is first in order; ``None`` where there is none."""
    plans = list(found)
    return min(plans, key=_order(plans)) if plans else None


def _order(found: list[Scored]) -> Callable[[Scored], tuple[float, ...]]:
    """By time; of those within `TIE` of the best, the plainer one."""
    best = min(each.prediction.time_ns for each in found)

    def order(each: Scored) -> tuple[float, ...]:
        time = each.prediction.time_ns
        is_tie = time <= best * (1.0 + TIE)
        return (not is_tie, 0.0 if is_tie else time, *_plainness(each), time)

    return order


def _plainness(each: Scored) -> tuple[float, ...]:
    """Of equal plans: fewer items, longer vectors, a block near 256 threads, wide along x."""
    candidate = each.candidate
    distance = abs(candidate.block_threads.bit_length() - (256).bit_length())
    return (
        candidate.mapping.item_count,
        -candidate.mapping.vector,
        distance,
        candidate.block_threads,
        -candidate.block_dim[0],
    )


def score(
    problem: Problem, mapping: ElementMapping, compiled: dict[ElementMapping, Resources]
) -> list[Scored]:
    """Every legal block with one mapping."""
    device, limits = problem.device, problem.limits
    known = compiled.get(mapping)
    resources = known or estimate_resources(problem, mapping, compiled)
    kernel = KernelResources.from_resources(resources, limits)
    most = min(resources.max_block_threads, device.limits.max_threads_per_block)
    blocks: Iterable[Dim3]
    if problem.block_dim is not None:
        blocks = (problem.block_dim,)
    else:
        blocks = block_shapes(len(problem.extent), device.limits, most)
    found: list[Scored] = []
    holds: dict[int, Occupancy] = {}
    for block_dim in blocks:
        candidate = Candidate(block_dim, mapping)
        threads = candidate.block_threads
        if threads > most:
            continue
        held = holds.get(threads)
        if held is None:
            held = holds[threads] = occupancy(limits, kernel, threads, problem.shared_bytes)
        if not held.active_blocks:
            continue
        grid_dim = fit_grid(mapping, problem.extent, block_dim, device.limits.max_grid_dim)
        if grid_dim is None:
            continue
        x, y, z = mapping.blocks(problem.extent, block_dim)
        prediction = predict(
            candidate,
            problem.work,
            problem.extent,
            x * y * z,
            held.active_blocks,
            problem.rates,
            spill_bytes=resources.spill_bytes or 0,
        )
        found.append(Scored(candidate, grid_dim, held, prediction, resources, known is not None))
    return found


def estimate_resources(
    problem: Problem, mapping: ElementMapping, compiled: dict[ElementMapping, Resources]
) -> Resources:
    """What a mapping would take, judged by the source, and by another mapping that is compiled."""
    work, items = problem.work, mapping.item_count
    held = min(work.load_bytes, _HELD_BYTES * max(work.places, 1))
    each = max(1.0, held / 4) + (2.0 if work.double_operations else 1.0)
    base = 14.0 + 2.0 * min(work.places, 12)
    known = min(compiled.items(), key=lambda pair: pair[0].item_count, default=None)
    if known is not None and known[1].registers is not None:
        base = known[1].registers - each * known[0].item_count
    registers = int(min(255, max(16, base + each * items)))
    per_warp = -(-registers * 32 // 256) * 256
    top = min(problem.device.limits.max_threads_per_block, 65536 // per_warp * 32)
    shared = known[1].static_shared_bytes if known else 0
    return Resources(registers, 0, 0, shared, top)


class Choice(NamedTuple):
    """A decision: the block and mapping, and what was compiled to find it.

    Parameters
    ----------
    candidate : Candidate
        What was chosen.
    compiled : dict
        Mappings that were compiled, and what they take.
    """

    candidate: Candidate
    compiled: dict[ElementMapping, Resources]


def choose(problem: Problem, compile_mapping: Callable[[ElementMapping], Resources]) -> Choice:
    """Choose a plan.

    Parameters
    ----------
    problem : Problem
        What is to be planned.
    compile_mapping : callable
        Compiles the kernel with a mapping and says what it takes.

    Returns
    -------
    Choice

    Raises
    ------
    ResourceLimitError
        No block of any size can run.
    """
    compiled: dict[ElementMapping, Resources] = {}
    scores = {each: score(problem, each, compiled) for each in problem.mappings()}
    while True:
        first = best_of(each for found in scores.values() for each in found)
        if len(compiled) == MAX_COMPILED or (first is not None and first.is_compiled):
            break
        wanted = next(iter(scores)) if first is None else first.candidate.mapping
        if wanted in compiled:  # it does not fit, and neither did what was estimated
            break
        compiled[wanted] = compile_mapping(wanted)
        scores[wanted] = score(problem, wanted, compiled)
    ready = [each for found in scores.values() for each in found if each.is_compiled]
    taken = best_of(ready)
    if taken is None:
        raise nothing_fits(problem, compiled)
    # The block is the best for its mapping, whatever other mappings there were to compare with: so
    # arguments that get the same code get the same block.
    best = best_of(scores[taken.candidate.mapping])
    assert best is not None
    return Choice(best.candidate, compiled)


def nothing_fits(problem: Problem, compiled: dict[ElementMapping, Resources]) -> ResourceLimitError:
    """The error of a kernel that cannot run in any block that is allowed."""
    resources = next(iter(compiled.values()))
    kernel = KernelResources.from_resources(resources, problem.limits)
    threads = resources.max_block_threads
    block = problem.block_dim
    if block is not None:
        threads = block[0] * block[1] * block[2]
    held = occupancy(problem.limits, kernel, max(threads, 1), problem.shared_bytes)
    return ResourceLimitError(
        f"{problem.kernel} cannot run on {problem.device}"
        + ("" if block is None else f" with block_dim {block}"),
        value=threads,
        limit=f"{held.summary()} The compiled kernel takes {resources.registers} registers a "
        f"thread and can have blocks of {resources.max_block_threads} threads",
        remedy="Use a smaller block, fewer shared_bytes, or compile with max_registers=",
    )
