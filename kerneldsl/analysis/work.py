"""Find what the body of a kernel does for one index, as the planner needs it.

Nothing depends on the answers for being right, so they are estimates where the source does not say
more; :mod:`~kerneldsl.analysis.count_work` makes them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from kerneldsl.analysis.index_forms import Pattern
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["UNKNOWN_TRIPS", "Access", "BodyWork"]

#: Rounds that a loop of unknown length is taken to make.
UNKNOWN_TRIPS = 16


@dataclass(frozen=True, slots=True)
class Access:
    """One place of the body that reads or writes an array."""

    #: Position of the array among the kernel's parameters.
    parameter: int
    #: Whether it writes; an atomic operation counts as a store.
    is_store: bool
    #: How neighbouring threads' accesses lie to each other, in a C-contiguous array.
    pattern: Pattern
    #: Times that it is done for one index.
    count: float = 1.0
    #: Elements from one index to the next where the pattern is ``"strided"`` and that is known.
    step: int | None = None
    #: How far it is from a thread's own element along x, y and z.
    offsets: tuple[int, int, int] = (0, 0, 0)
    #: Whether it reads and writes indivisibly.
    is_atomic: bool = False
    #: Whether its index was itself loaded, so that one waits for the other.
    depends_on_load: bool = False
    #: Whether neighbours along the last axis but one of ``grid`` touch neighbouring elements, as
    #: one side of a transposition does.
    is_crossed: bool = False
    #: Whether each round of a loop accesses elements of its own; where rounds move by one element,
    #: neighbours access them too.
    is_stepped: bool = False
    #: Whether it is done under a condition that several items of a thread cannot test at once, so
    #: that their accesses cannot become one.
    is_guarded: bool = False


@dataclass
class BodyWork:
    """Work of a kernel for one index."""

    #: Reads and writes of array parameters, each distinct place once.
    accesses: tuple[Access, ...] = ()
    #: What is computed of values (not of indices), by the names of :mod:`operations`, and
    #: ``"compare"``, ``"select"`` and ``"intrinsic"``.
    operations: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    #: Rounds of loops, each of which takes some instructions of its own.
    rounds: float = 0.0
    #: Of the operations, those in loops.
    loop_operations: float = 0.0
    #: Barriers of the block, and atomic operations on its shared memory.
    barriers: float = 0.0
    shared_atomics: float = 0.0
    #: Whether the length of some loop is not known, so that the counts are guesses.
    has_unknown_loop: bool = False
    #: Variables of the function, a rough measure of the registers it wants.
    local_values: int = 0
