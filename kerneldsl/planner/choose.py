"""Choosing a plan: every legal candidate is compared, the best is taken.

Candidates are blocks × mappings, for a kernel with a space × members. Comparing costs no
compilation: registers of code that is not compiled yet are estimated. The code of the candidate
that seems best is compiled, and all that share it are compared again with what the assembler gave
it. If another one then seems better, that is compiled too, `MAX_COMPILED` at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.contract import Device, Dim3, ElementMapping, Resources
from kerneldsl.errors import ResourceLimitError
from kerneldsl.planner.block_limits import KernelResources
from kerneldsl.planner.block_occupancy import Occupancy, occupancy
from kerneldsl.planner.candidates import (
    Candidate,
    Choice,
    Compiled,
    block_shapes,
    element_mappings,
    fit_grid,
    walked_axes,
)
from kerneldsl.planner.cost import CONSTANTS, Constants, Prediction, predict
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import ElementWork
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count

if TYPE_CHECKING:
    from kerneldsl.planner.space import Member

__all__ = [
    "MAX_COMPILED",
    "TIE",
    "Problem",
    "Scored",
    "choose",
    "estimate_resources",
    "no_fit_error",
    "preferring",
    "rank",
]

#: Mappings and members that are compiled for one decision, at most.
MAX_COMPILED = 3
#: Bytes that a thread holds at once of its loads at one place of the source. A loop is unrolled so
#: far, but all of its iterations are counted as loads.
_HELD_BYTES = 32
#: Relative difference of times below which the simpler plan wins.
TIE = 0.01


@dataclass(frozen=True)
class Problem:
    """Inputs of planning; a kernel with a space has one for each member."""

    #: Name of the kernel.
    kernel: str
    #: One to three positive extents, in the user's order.
    extent: tuple[int, ...]
    #: Work of the body for one index.
    work: ElementWork
    #: The device; its limits hold.
    device: Device
    #: Limits of a multiprocessor that determine occupancy.
    limits: DeviceOccupancyLimits
    #: Throughput and latencies of the device.
    rates: DeviceRates
    #: The longest vector that the arguments' alignment allows.
    max_vector: int = 4
    #: Whether the kernel may be compiled with a mapping other than one index to a thread.
    can_map: bool = True
    #: The block, where the user has said it.
    block_dim: Dim3 | None = None
    #: Dynamic shared memory of a block.
    shared_bytes: int = 0
    #: The axis of the extent along x, then y, then z; ``None`` has the last along x.
    axes: tuple[int, ...] | None = None
    #: The member of the kernel's space, if it has one.
    member: Member | None = None
    #: Values of the compile-time parameters; members for which they are equal share code.
    constants: tuple[Any, ...] = ()
    #: Constants of the cost model for the device.
    model_constants: Constants = CONSTANTS
    #: The mappings to choose from; ``None`` for all.
    allowed: tuple[ElementMapping, ...] | None = None

    def mappings(self) -> tuple[ElementMapping, ...]:
        """Return the mappings that the kernel can be compiled with, if they are allowed."""
        if self.allowed is not None:
            return self.allowed
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

    problem: Problem
    candidate: Candidate
    grid_dim: Dim3
    held: Occupancy
    prediction: Prediction
    resources: Resources
    is_compiled: bool


def rank(
    problems: Sequence[Problem],
    compiled: Compiled,
    mappings: Iterable[ElementMapping] | None = None,
) -> list[Scored]:
    """Compare all legal plans.

    Resources of what is not compiled are estimated, and all mappings are compared unless some are
    given. The best comes first: by time, and the plainer one of those that are within `TIE` of the
    best.
    """
    found = [
        plan
        for each in problems
        for mapping in (each.mappings() if mappings is None else mappings)
        for plan in _score(each, mapping, compiled)
    ]
    return sorted(found, key=_order(found)) if found else found


def _best_of(found: Iterable[Scored]) -> Scored | None:
    """Return the plan that is first in order; ``None`` if there is none."""
    plans = list(found)
    return min(plans, key=_order(plans)) if plans else None


def _order(found: list[Scored]) -> Callable[[Scored], tuple[float, ...]]:
    """Order by time; of those within `TIE` of the best, the plainer one."""
    best = min(each.prediction.time_ns for each in found)

    def order(each: Scored) -> tuple[float, ...]:
        time = each.prediction.time_ns
        is_tie = time <= best * (1.0 + TIE)
        return (not is_tie, 0.0 if is_tie else time, *_preference(each), time)

    return order


def _preference(each: Scored) -> tuple[float, ...]:
    """Order equal plans: fewer items, longer vectors, a block near 256 threads, wide along x.

    Members do different work, so of those that do less comes first. Along one axis, with an element
    for a thread, 128 threads are as plain as 256, and the time decides. If it is equal, fewer are
    better: on an H200 they took up to 3 % less time, because blocks end more evenly.
    """
    candidate, work = each.candidate, each.problem.work
    mapping = candidate.mapping
    if candidate.member is not None:
        distance = abs(math.log2(candidate.block_threads / 256))
        return mapping.item_count, -mapping.vector, distance, work.loads + work.stores
    threads, time = candidate.block_threads, 0.0
    distance = 0 if threads == 256 else 1 + abs(threads.bit_length() - (256).bit_length())
    if len(each.problem.extent) == mapping.item_count == 1 and threads in (128, 256):
        distance, time = 0, each.prediction.time_ns
    return mapping.item_count, -mapping.vector, distance, time, threads, -candidate.block_dim[0]


def _score(problem: Problem, mapping: ElementMapping, compiled: Compiled) -> list[Scored]:
    """Judge every legal block with one mapping."""
    device, limits = problem.device, problem.limits
    known = compiled.get((problem.constants, mapping))
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
        candidate = Candidate(block_dim, mapping, problem.member)
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
            constants=problem.model_constants,
        )
        is_compiled = known is not None
        found.append(Scored(problem, candidate, grid_dim, held, prediction, resources, is_compiled))
    return found


def estimate_resources(
    problem: Problem, mapping: ElementMapping, compiled: Compiled | None = None
) -> Resources:
    """Judge what a mapping would take by the source, and by another mapping that is compiled."""
    work, items = problem.work, mapping.item_count
    held = min(work.load_bytes, _HELD_BYTES * max(work.places, 1))
    each = max(1.0, held / 4) + (2.0 if work.double_operations else 1.0)
    base = 14.0 + 2.0 * min(work.places, 12)
    like = ((m, r) for (values, m), r in (compiled or {}).items() if values == problem.constants)
    known = min(like, key=lambda pair: pair[0].item_count, default=None)
    if known is not None and known[1].registers is not None:
        base = known[1].registers - each * known[0].item_count
    registers = int(min(255, max(16, base + each * items)))
    per_warp = -(-registers * 32 // 256) * 256
    top = min(problem.device.limits.max_threads_per_block, 65536 // per_warp * 32)
    shared = known[1].static_shared_bytes if known else 0
    return Resources(registers, 0, 0, shared, top)


def preferring(
    problem: Problem, is_ready: Callable[[ElementMapping], bool], most_of_best: float
) -> Problem:
    """Choose among mappings with code that is ready, unless another one seems much faster.

    - `is_ready`: whether a mapping needs no compilation.
    - `most_of_best`: the largest predicted time of a mapping that is ready, as a multiple of the
      least of all.
    - returns: the same problem, where no mapping is ready and as good.
    """
    ready = tuple(each for each in problem.mappings() if is_ready(each))
    best, best_ready = _best_of(rank([problem], {})), _best_of(rank([problem], {}, ready))
    if best is None or best_ready is None:
        return problem
    is_good = best_ready.prediction.time_ns <= most_of_best * best.prediction.time_ns
    return replace(problem, allowed=ready) if is_good else problem


def choose(
    problems: Sequence[Problem], compile_code: Callable[[Problem, ElementMapping], Resources]
) -> Choice:
    """Choose a plan.

    `compile_code` compiles the kernel for a problem's member with a mapping, and says what it
    takes. Raises `ResourceLimitError` if no block of any size, or no member, can run.
    """
    compiled: Compiled = {}
    codes = [(each, mapping) for each in problems for mapping in each.mappings()]
    scores = [_score(*code, compiled) for code in codes]
    while True:
        first = _best_of(each for found in scores for each in found)
        if len(compiled) == MAX_COMPILED or (first is not None and first.is_compiled):
            break
        if first is None:  # it is compiled nevertheless: the estimate may be wrong
            problem, mapping = next((code for code in codes if _has_grid(code[0])), codes[0])
        else:
            problem, mapping = first.problem, first.candidate.mapping
        wanted = (problem.constants, mapping)
        if wanted in compiled:  # it does not fit, and neither did what was estimated
            break
        compiled[wanted] = compile_code(problem, mapping)
        scores = [
            _score(*code, compiled) if (code[0].constants, code[1]) == wanted else found
            for code, found in zip(codes, scores, strict=True)
        ]
    taken = _best_of(each for found in scores for each in found if each.is_compiled)
    if taken is None:
        raise no_fit_error(problems, compiled)
    # The block is the best for its mapping, independent of the other mappings that were compared.
    # So arguments that get the same code get the same block.
    best = _best_of(next(found for found in scores if any(each is taken for each in found)))
    assert best is not None
    return Choice(best.candidate, compiled)


def no_fit_error(problems: Sequence[Problem], compiled: Compiled) -> ResourceLimitError:
    """Return the error of a kernel with no block, or no member, that can run."""
    problem, resources = next(
        (each, takes)
        for (values, _), takes in compiled.items()
        for each in problems
        if each.constants == values
    )
    if problem.member is not None:
        return _no_member_fits(problems, problem, resources)
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


def _no_member_fits(
    problems: Sequence[Problem], first: Problem, takes: Resources
) -> ResourceLimitError:
    assert first.member is not None
    without = sum(not _has_grid(each) for each in problems)
    count = format_count(without, "member")
    return ResourceLimitError(
        f"no member of the space of {first.kernel} can run on {first.device}",
        value=len(problems),
        limit=f"One of them, {first.member}, has {first.member.block_threads} threads of "
        f"{takes.registers} registers and {takes.static_shared_bytes + first.shared_bytes} bytes "
        f"of shared memory a block. The device allows "
        f"{first.device.limits.max_threads_per_block} threads and "
        f"{first.limits.max_shared_memory_per_block_optin} bytes"
        + (f". {count} would need more blocks than a grid can have" if without else ""),
        remedy="Add smaller blocks or tiles to the space",
    )


def _has_grid(problem: Problem) -> bool:
    """Return whether the device allows a grid of the problem's block, or of some block."""
    if problem.block_dim is None:
        return True
    most = problem.device.limits.max_grid_dim
    fits = (fit_grid(m, problem.extent, problem.block_dim, most) for m in problem.mappings())
    return any(grid_dim is not None for grid_dim in fits)
