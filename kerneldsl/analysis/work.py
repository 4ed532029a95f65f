"""Work of a kernel's body for one index, as the planner needs it.

:class:`KernelWork` has the loops and branches of a kernel, and what each does. It is stored with
compiled code. :meth:`KernelWork.body` counts it for a launch. No result depends on the counts, so
they are estimates if the kernel does not say more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from kerneldsl.analysis.index_forms import IndexForm, Pattern, is_crossed, offsets_of, pattern_of
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "UNKNOWN_TRIPS",
    "Access",
    "BodyWork",
    "BranchWork",
    "KernelWork",
    "LoopWork",
    "Place",
    "RegionWork",
]

#: Rounds that a loop of unknown length is taken to make.
UNKNOWN_TRIPS = 16


@dataclass(frozen=True, slots=True)
class Access:
    """One place of the body that reads or writes an array."""

    #: Position of the array among the kernel's parameters.
    parameter: int
    #: Whether it writes; an atomic operation counts as a store.
    is_store: bool
    #: Pattern of neighbouring threads' accesses in a C-contiguous array.
    pattern: Pattern
    #: Accesses for one index.
    count: float = 1.0
    #: Distance in elements from one index to the next for a ``"strided"`` pattern, if it is known.
    step: int | None = None
    #: Distance from a thread's own element along x, y and z.
    offsets: tuple[int, int, int] = (0, 0, 0)
    #: Whether the access is atomic.
    is_atomic: bool = False
    #: Whether the index was itself loaded, so that one load waits for the other.
    depends_on_load: bool = False
    #: Whether neighbours along the last axis but one of ``grid`` touch neighbouring elements, as
    #: one side of a transposition does.
    is_crossed: bool = False
    #: Whether each iteration of a loop accesses another element. If iterations move by one element,
    #: neighbours access the same elements, too.
    is_stepped: bool = False
    #: Whether the access is under a condition that several items of a thread cannot test at once,
    #: so that their accesses cannot be combined.
    is_guarded: bool = False


@dataclass
class BodyWork:
    """Work of a kernel for one index."""

    #: Reads and writes of array parameters, each distinct place once.
    accesses: tuple[Access, ...] = ()
    #: Operations on values (not on indices), by the names of
    #: :mod:`~kerneldsl.ir.operation_classes`, and ``"compare"``, ``"select"`` and ``"intrinsic"``.
    operations: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    #: Iterations of loops; each takes some further instructions.
    rounds: float = 0.0
    #: Operations in loops.
    loop_operations: float = 0.0
    #: Barriers of the block, and atomic operations on its shared memory.
    barriers: float = 0.0
    shared_atomics: float = 0.0
    #: Whether some trip count is unknown, so that the counts are guesses.
    has_unknown_loop: bool = False


class Place(NamedTuple):
    """One place of the body that reads or writes an array parameter."""

    #: Number of the accessed element: a register serves further places with the same number.
    number: int
    #: Position of the array among the kernel's parameters.
    parameter: int
    #: Index form of each axis.
    indices: tuple[IndexForm, ...]
    is_store: bool
    is_atomic: bool = False
    #: Whether the access is guarded, as in :attr:`Access.is_guarded`.
    is_guarded: bool = False


class LoopWork(NamedTuple):
    """A loop."""

    #: Trip count, an average over threads; ``None`` if it is unknown.
    trips: float | None
    body: RegionWork


class BranchWork(NamedTuple):
    """A branch. Each operation counts as often as in the side that has more of it."""

    #: The share of threads for which the condition holds, if it names one thread of a block.
    share: float
    yes: RegionWork
    no: RegionWork


_Step: TypeAlias = Place | LoopWork | BranchWork


class RegionWork(NamedTuple):
    """Work of a part of the body, without the loops and branches in it."""

    operations: Mapping[str, int]
    #: Accesses, loops and branches, in their order.
    steps: tuple[_Step, ...] = ()
    barriers: int = 0
    shared_atomics: int = 0


class KernelWork(NamedTuple):
    """Work of a kernel for one index, for loops of any length and either order of axes."""

    region: RegionWork = RegionWork({})
    #: Warnings about stores of float64 results to float32 arrays, as findings are stored.
    wide_stores: tuple[Any, ...] = ()

    def body(self, *, x_is_last: bool = True, unknown_trips: float = UNKNOWN_TRIPS) -> BodyWork:
        """Count it.

        - `x_is_last`: whether the last index of ``grid`` runs along x, as under ``forall`` of a
          kernel that uses only ``grid``. Else the first does.
        - `unknown_trips`: rounds that a loop of unknown length is taken to make.
        """
        count = _Count(x_is_last, unknown_trips)
        count.work.operations.update(count.region(self.region, 1.0))
        count.work.accesses = tuple(count.accesses.values())
        return count.work

    def to_json(self) -> list[Any]:
        """Return it as JSON has it."""
        return [_region_to_json(self.region), *self.wide_stores]

    @classmethod
    def from_json(cls, found: Any) -> KernelWork:
        """Read what :meth:`to_json` returned.

        Raises `ValueError`, `TypeError`, `KeyError` or `IndexError` for anything else.
        """
        region, *wide_stores = found
        return cls(_region_from_json(region), tuple(wide_stores))


class _Count:
    """The counts of one kernel so far."""

    def __init__(self, x_is_last: bool, unknown_trips: float) -> None:
        self.x_is_last = x_is_last
        self.unknown_trips = unknown_trips
        self.work = BodyWork()
        self.accesses: dict[tuple[int, bool], Access] = {}

    def region(
        self, region: RegionWork, weight: float, *, is_in_loop: bool = False
    ) -> Counter[str]:
        """Count what a region does so many times; return its operations."""
        work = self.work
        work.barriers += weight * region.barriers
        work.shared_atomics += weight * region.shared_atomics
        found: Counter[str] = Counter()
        for name, many in region.operations.items():
            found[name] = weight * many  # type: ignore[assignment]
        for step in region.steps:
            match step:
                case Place():
                    self.place(step, weight)
                case LoopWork():
                    found.update(self.loop(step, weight, is_in_loop=is_in_loop))
                case BranchWork():
                    yes = self.region(step.yes, weight * step.share, is_in_loop=is_in_loop)
                    no = self.region(step.no, weight, is_in_loop=is_in_loop)
                    found.update(yes | no)
        return found

    def loop(self, loop: LoopWork, weight: float, *, is_in_loop: bool) -> Counter[str]:
        work, trips = self.work, loop.trips
        if trips is None:
            work.has_unknown_loop = True
            trips = self.unknown_trips
        weight *= max(trips, 0)
        work.rounds += weight
        found = self.region(loop.body, weight, is_in_loop=True)
        if not is_in_loop:
            work.loop_operations += sum(found.values())
        return found

    def place(self, place: Place, weight: float) -> None:
        index = [form.oriented(x_is_last=self.x_is_last) for form in place.indices]
        pattern, step = pattern_of(index)
        loops = [form.loop_factor for form in index]
        changes = pattern == "scattered" or any(factor != 0 for factor in loops)
        count = weight if changes or weight < 1.0 or place.is_atomic else 1.0
        key = (place.number, place.is_store)
        known = self.accesses.get(key)
        if known is not None and known.count >= count:
            return
        self.accesses[key] = Access(
            place.parameter,
            place.is_store,
            pattern,
            count=count,
            step=step,
            offsets=offsets_of(index),
            is_atomic=place.is_atomic,
            depends_on_load=pattern == "scattered",
            is_crossed=is_crossed(index),
            is_stepped=any(factor not in (0, 1, -1) for factor in loops),
            is_guarded=place.is_guarded,
        )


# -- JSON -----------------------------------------------------------------------------------------


def _region_to_json(region: RegionWork) -> list[Any]:
    steps = list(map(_step_to_json, region.steps))
    return [dict(region.operations), steps, region.barriers, region.shared_atomics]


def _step_to_json(step: _Step) -> list[Any]:
    match step:
        case Place():
            return ["access", *step]
        case LoopWork():
            return ["loop", step.trips, _region_to_json(step.body)]
        case BranchWork():
            return ["branch", step.share, *map(_region_to_json, (step.yes, step.no))]


def _region_from_json(found: Any) -> RegionWork:
    operations, steps, barriers, shared_atomics = found
    return RegionWork(
        {str(name): int(many) for name, many in operations.items()},
        tuple(map(_step_from_json, steps)),
        int(barriers),
        int(shared_atomics),
    )


def _step_from_json(found: Any) -> _Step:
    kind, *rest = found
    match kind:
        case "access":
            number, parameter, index, *flags = rest
            forms = tuple(map(_form_from_json, index))
            return Place(int(number), int(parameter), forms, *map(bool, flags))
        case "loop":
            trips, body = rest
            return LoopWork(None if trips is None else float(trips), _region_from_json(body))
        case "branch":
            share, yes, no = rest
            return BranchWork(float(share), _region_from_json(yes), _region_from_json(no))
    raise ValueError(f"a step is {kind!r}")


def _form_from_json(found: Any) -> IndexForm:
    factors, constant, is_loaded = found
    known = tuple(None if each is None else int(each) for each in factors)
    if len(known) != len(IndexForm().factors):
        raise ValueError(f"a form has {len(known)} factors")
    return IndexForm(known, None if constant is None else int(constant), bool(is_loaded))
