"""The body of a function that is being generated: lines, and what is in scope."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz.expressions import ArrayName, Expression, Expressions
from tests.fuzz.tile_expressions import Tiles
from tests.fuzz.typing import result_type

__all__ = ["BarrierFunction", "Body", "SharedArray"]


@dataclass(frozen=True)
class SharedArray:
    """A shared array with a slot for each thread, in which threads exchange values.

    `own` is this thread's slot.
    """

    name: str
    dtype: str
    own: str


@dataclass(frozen=True)
class BarrierFunction:
    """A device function that waits at a barrier.

    Parameters
    ----------
    name : str
        Its name.
    parameters : tuple of str
        Of each: ``"shared:DTYPE"`` for a shared array, ``"t"`` for the thread, ``"uniform"`` for a
        uniform integer, else the dtype of a number.
    dtypes : tuple of str
        Of the result, or of its elements.
    is_slot : bool
        Whether the result is a thread of the block, another one for each thread.
    """

    name: str
    parameters: tuple[str, ...]
    dtypes: tuple[str, ...]
    is_slot: bool = False


@dataclass
class Body:
    """A function's lines, and what may be used in the next one.

    Parameters
    ----------
    rng : random.Random
        Chooses.
    expressions : Expressions
        Over what is in scope.
    variables : list of Expression
        What may be assigned, each of one dtype throughout.
    uniform : list of str
        int64 expressions that are the same in all threads of a block.
    lvalues : list of Expression
        Elements of arrays that are this thread's own.
    counters : list of ArrayName
        What atomics may update.
    shared : list of SharedArray
        For exchanges between the threads of a block.
    barrier_functions : list of BarrierFunction
        What may be called where the whole block is.
    levels : frozenset of str
        Which of ``"lanes"``, ``"groups"`` and ``"tiles"`` the kernel uses.
    tiles : Tiles or None
        For expressions of tiles.
    operations : list of str
        Functions of two numbers, for reductions and scans.
    halo : SharedArray or None
        One with a further slot on each side.
    plane : SharedArray or None
        One of two dimensions, those of the block, `plane_dim` (x, y).
    bins : SharedArray or None
        A shared array of four counters.
    flags : list of str
        Conditions on captured constants.
    threads : int
        Number of threads of a block.
    thread : str
        This thread's number among them.
    coordinates : tuple of str
        Its place in the grid.
    may_return : bool
        Whether a thread may return early.
    crosses_grid : bool
        Whether there are barriers of the grid: all blocks return, or none.
    is_kept : bool
        Whether a variable mostly keeps what it holds when it takes a value.
    """

    rng: random.Random
    expressions: Expressions
    variables: list[Expression] = field(default_factory=list)
    uniform: list[str] = field(default_factory=list)
    lvalues: list[Expression] = field(default_factory=list)
    counters: list[ArrayName] = field(default_factory=list)
    shared: list[SharedArray] = field(default_factory=list)
    barrier_functions: list[BarrierFunction] = field(default_factory=list)
    levels: frozenset[str] = frozenset()
    tiles: Tiles | None = None
    operations: list[str] = field(default_factory=list)
    halo: SharedArray | None = None
    plane: SharedArray | None = None
    plane_dim: tuple[int, int] = (1, 1)
    bins: SharedArray | None = None
    flags: list[str] = field(default_factory=list)
    threads: int = 1
    thread: str = "t"
    coordinates: tuple[str, ...] = ("i",)
    may_return: bool = False
    crosses_grid: bool = False
    is_kept: bool = False
    #: How many loops are around the next line.
    loops: int = 0
    lines: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    level: int = 1
    _names: int = 0

    def emit(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.level + text)

    def fresh(self, prefix: str) -> str:
        """Return a name that is not used yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    def depth(self) -> int:
        """Return how deep an expression is to be."""
        return self.rng.choice((1, 1, 2))

    def trip_count(self) -> str:
        """Return a number of trips, the same in all threads."""
        return self.expressions.choose(("n", "n", "m", "2", "3", "4"))

    def assign(self) -> None:
        """Give a variable a value."""
        variable = self.expressions.choose(self.variables)
        self.emit(f"{variable.text} = {self.expressions.of_type(variable.dtype, self.depth())}")

    def accumulate(self, value: Expression) -> None:
        """Add a value to a variable that holds such values, else set one."""
        fitting = [v for v in self.variables if result_type("+", v.dtype, value.dtype) == v.dtype]
        if fitting:
            self.emit(f"{self.expressions.choose(fitting).text} += {value.text}")
            return
        variable = self.expressions.choose(self.variables)
        self.emit(f"{variable.text} = {self.expressions.converted(value, variable.dtype).text}")

    def take(self, value: Expression) -> None:
        """Put a value into a variable of its type, else into a converted one."""
        if self.is_kept and self.rng.randrange(4):
            self._add(value)
            return
        fitting = [v for v in self.variables if v.dtype == value.dtype]
        if fitting:
            self.emit(f"{self.expressions.choose(fitting).text} = {value.text}")
            return
        variable, name = self.expressions.choose(self.variables), self.temporary()
        self.emit(f"{name} = {value.text}")
        found = self.expressions.converted(Expression(name, value.dtype), variable.dtype)
        self.emit(f"{variable.text} = {found.text}")

    def _add(self, value: Expression) -> None:
        """Add a value to a variable, whose bits then depend on all that it has taken."""
        variable, name = self.expressions.choose(self.variables), self.temporary()
        self.emit(f"{name} = {value.text}")
        found = self.expressions.converted(Expression(name, value.dtype), variable.dtype)
        factor = self.rng.choice(("", "", " * np.int8(3)"))
        self.emit(f"{variable.text} = np.{variable.dtype}({variable.text}{factor} + {found.text})")

    def counter(self) -> str:
        """Return a name for a loop: often that of an earlier one."""
        used = {v.text for v in self.expressions.values}
        free = [n for n in ("p", "q", "l") if n not in used]
        return self.rng.choice(free) if free and self.rng.randrange(3) else self.fresh("k")

    def temporary(self) -> str:
        """Return a name for a value that the next line takes up: often of an earlier one.

        The earlier value may have had another type.
        """
        return self.rng.choice(("temp", "aux", self.fresh("e")))

    @contextmanager
    def block(
        self, header: str, *names: Expression, uniform: tuple[str, ...] = ()
    ) -> Iterator[None]:
        """Add a header and what stands under it; variables that are new there end with it."""
        self.emit(header)
        values, known = len(self.expressions.values), len(self.uniform)
        arrays = len(self.expressions.arrays)
        tiles = self.tiles or Tiles(self.rng)
        tile_names, numbers = len(tiles.names), len(tiles.numbers)
        start = len(self.lines)
        self.level += 1
        is_loop = header.startswith(("for ", "while "))
        self.loops += is_loop
        self.expressions.values += names
        self.uniform += uniform
        tiles.numbers += [Expression(name, "int64") for name in uniform]
        yield
        self.loops -= is_loop
        if len(self.lines) == start:
            self.emit("pass")
        self.level -= 1
        del self.expressions.values[values:]
        del self.expressions.arrays[arrays:]
        del self.uniform[known:]
        del tiles.names[tile_names:]
        del tiles.numbers[numbers:]

    def integers(self) -> list[Expression]:
        """Variables of int64."""
        return [v for v in self.variables if v.dtype == "int64"]
