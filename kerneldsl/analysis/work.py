"""Tell what the body of a kernel does for one index, as the planner asks for it.

Nothing depends on the answers for being right, so they are estimates where the source does not say
more; :mod:`~kerneldsl.analysis.count_work` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kerneldsl.analysis.index_forms import Pattern

__all__ = ["UNKNOWN_TRIPS", "Access", "BodyWork"]

#: Rounds that a loop of unknown length is taken to make.
UNKNOWN_TRIPS = 16


@dataclass(frozen=True, slots=True)
class Access:
    """One place of the body that reads or writes an array.

    Parameters
    ----------
    parameter : int
        Position of the array among the kernel's parameters.
    is_store : bool
        Whether it writes; an atomic operation counts as a store.
    pattern : str
        How neighbouring threads' accesses lie to each other, in a C-contiguous array.
    count : float
        Times that it is done for one index.
    step : int or None
        Elements from one index to the next where the pattern is ``"strided"`` and that is known.
    offsets : tuple of int
        How far it is from a thread's own element along x, y and z.
    is_atomic : bool
        Whether it reads and writes indivisibly.
    depends_on_load : bool
        Whether its index was itself loaded, so that one waits for the other.
    is_crossed : bool
        Whether neighbours along the last axis but one of ``grid`` touch neighbouring elements, as
        one side of a transposition does.
    is_stepped : bool
        Whether each round of a loop accesses elements of its own; where rounds move by one element,
        neighbours access them too.
    is_guarded : bool
        Whether it is done under a condition that several items of a thread cannot test at once, so
        that their accesses cannot become one.
    """

    parameter: int
    is_store: bool
    pattern: Pattern
    count: float = 1.0
    step: int | None = None
    offsets: tuple[int, int, int] = (0, 0, 0)
    is_atomic: bool = False
    depends_on_load: bool = False
    is_crossed: bool = False
    is_stepped: bool = False
    is_guarded: bool = False


class BodyWork(NamedTuple):
    """Work of a kernel for one index.

    Parameters
    ----------
    accesses : tuple of Access
        Reads and writes of array parameters, each distinct place once.
    operations : float
        Additions, multiplications, comparisons and the like on values (not on indices).
    divisions : float
        Divisions, roots and powers.
    functions : float
        Calls of other mathematical functions.
    rounds : float
        Rounds of loops, each of which takes some instructions of its own.
    loop_operations : float
        Of the operations, divisions and functions, those in loops.
    barriers, shared_atomics : float
        Barriers of the block, and atomic operations on its shared memory.
    has_unknown_loop : bool
        Whether the length of some loop is not known, so that the counts are guesses.
    local_values : int
        Variables of the function, a rough measure of the registers it wants.
    """

    accesses: tuple[Access, ...] = ()
    operations: float = 0.0
    divisions: float = 0.0
    functions: float = 0.0
    rounds: float = 0.0
    loop_operations: float = 0.0
    barriers: float = 0.0
    shared_atomics: float = 0.0
    has_unknown_loop: bool = False
    local_values: int = 0
