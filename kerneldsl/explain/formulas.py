"""Arithmetic and memory of a whole launch as formulas of extents and parameters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, NamedTuple

from kerneldsl.explain.executions import Executions
from kerneldsl.explain.explanation import FLOPS
from kerneldsl.explain.indices import Indices
from kerneldsl.explain.launched import Launched
from kerneldsl.explain.sites import Site
from kerneldsl.explain.symbols import Expression, coordinate, import_sympy, symbol, variable
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.values import Memory, Space
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Formulas", "launch_formulas"]

#: Permitted relative differences of a formula from the counts, and from an estimate of them.
_EXACT, _NEAR = 1e-9, 0.01


class Formulas(NamedTuple):
    """Formulas of a launch, and what their symbols are worth in it."""

    #: Dtype to the operations on floats of all threads, as :meth:`Explanation.flops` counts them.
    flops: Mapping[str, Expression]
    #: Bytes of global memory that all threads request.
    requested_bytes: Expression
    #: Symbol to its value. There are extents of coordinates and arrays, parameters, and counts:
    #: the share of a condition that is not a bound, and the trip count of a loop if unknown. A
    #: line may be executed more rarely than the guards and loops around it show: then the part of
    #: those executions. For others it is how often a thread executes the line (``times``).
    values: Mapping[Any, float]

    def evaluate(self, formula: Expression, **others: float) -> float:
        """Return what a formula is worth in the launch, or with other values of some symbols.

        - `formula`: one of them.
        - `**others`: name of a symbol to its value.
        """
        values = {str(name): value for name, value in self.values.items()} | others
        given = {each: values[str(each)] for each in formula.free_symbols if str(each) in values}
        return float(formula.subs(given))

    def met(self) -> dict[str, float]:
        """Return, by name, the values of the launch that are symbols in the formulas.

        With other extents or parameters it may be something else.
        """
        used = {*self.requested_bytes.free_symbols}.union(
            *(each.free_symbols for each in self.flops.values())
        )
        return {
            str(each): self.values[each]
            for each in sorted(used, key=str)
            if "(" in str(each) and each in self.values
        }


def launch_formulas(
    tallies: Tallies,
    function: Function,
    indices: Indices,
    launch: Launched,
    arrays: Sequence[Memory],
    scalars: Mapping[str, Any],
    *,
    is_sampled: bool,
) -> Formulas:
    """Return the formulas of a launch that was run.

    - `tallies`: the counts.
    - `function`, `indices`: the kernel, and the expressions of its values.
    - `arrays`, `scalars`: the parameters that are arrays, and those that are numbers, by name.
    - `is_sampled`: whether the counts are estimates.
    """
    sympy = import_sympy()
    values: dict[Any, float] = {}
    for memory in arrays:
        for axis, extent in enumerate(memory.shape):
            values[symbol(f"{memory.name}.shape[{axis}]")] = extent
    for axis in range(3):
        values[coordinate("blockDim", axis)] = launch.block_dim[axis]
        values[coordinate("gridDim", axis)] = launch.grid_dim[axis]
    for place, extent in enumerate(launch.extent or ()):
        values[symbol(f"extent[{place}]")] = extent
    for name, value in scalars.items():
        values[variable(name)] = value
    names = frozenset(map(str, values))
    executions = Executions(function, indices, tallies.branches, launch.extent, names)
    terms = _Terms(executions, launch, values, _NEAR if is_sampled else _EXACT)
    flops: dict[str, Expression] = defaultdict(lambda: sympy.Integer(0))
    for each in tallies.floats.values():
        if each.name in FLOPS and each.count:
            executions_of = terms.of(each.site, each.operations, each.count / float(each.times))
            times = sympy.Rational(*(FLOPS[each.name] * each.times).as_integer_ratio())
            flops[each.dtype] += times * executions_of
    asked: dict[tuple[Any, ...], _Asked] = {}
    for access in tallies.accesses.values():
        if access.memory.space is Space.GLOBAL and access.asked_bytes:
            nbytes = (access.tile_share or 1) * access.itemsize
            key = access.site.node, access.is_store, nbytes
            same = asked.setdefault(key, _Asked(access.site, nbytes))
            same.operations.update(access.operations)
            same.total += access.asked_bytes
    requested = sympy.Integer(0)
    for one in asked.values():
        executions_of = terms.of(one.site, one.operations, one.total / float(one.nbytes))
        requested += sympy.Rational(*one.nbytes.as_integer_ratio()) * executions_of
    totals = {dtype: sympy.expand(formula) for dtype, formula in flops.items()}
    return Formulas(totals, sympy.expand(requested), values)


@dataclass(eq=False)
class _Asked:
    """Bytes that an access of one or several arrays requests, by so many each time."""

    site: Site
    nbytes: int | Fraction
    operations: dict[Operation, None] = field(default_factory=dict)
    total: float = 0.0


class _Terms:
    """Executions of operations as formulas that are worth what was counted.

    Guards and loops determine how often an operation is executed. If something else decides as
    well, or the count differs, the formula has a symbol for the part of these executions that was
    counted. If the count is larger, the symbol is for the average executions of a thread.
    """

    def __init__(
        self, executions: Executions, launch: Launched, values: dict[Any, float], near: float
    ) -> None:
        self._executions, self._values, self._near = executions, values, near
        self._ones = {
            coordinate(name, axis): 1
            for name, dims in (("blockDim", launch.block_dim), ("gridDim", launch.grid_dim))
            for axis in range(3)
            if launch.block_dim[axis] == launch.grid_dim[axis] == 1 == dims[axis]
        }
        self._met: dict[tuple[Any, ...], Expression] = {}
        self._lines: list[tuple[str, int]] = []
        self._found: dict[Any, tuple[Expression, float | None]] = {}

    def of(self, site: Site, operations: Iterable[Operation], counted: float) -> Expression:
        """Return how often operations are executed, given how often they were counted."""
        count = self._executions.of(operations)
        self._values.update(self._executions.met)
        if count.around not in self._found:
            self._found[count.around] = self._worth(count.formula)
        formula, worth = self._found[count.around]
        is_worth = worth is not None and math.isclose(worth, counted, rel_tol=self._near)
        if is_worth and not count.is_open:
            return formula
        word = "part"
        if worth is None or counted > worth * (1 + self._near):
            word = "times"
            formula, worth = self._worth(self._executions.every_thread())
            assert worth is not None  # blocks and their threads have numbers
        return formula * self._symbol(word, site.where.lineno, count.around, counted / worth)

    def _worth(self, formula: Expression) -> tuple[Expression, float | None]:
        """Return a formula without axes that are not there, and its value if it has one."""
        formula = formula.subs(self._ones)
        value = formula.subs(self._values)
        return formula, float(value) if value.is_number and value.is_finite else None

    def _symbol(self, word: str, line: int, around: Any, value: float) -> Expression:
        """Return the symbol of a count at a line, the same for equal executions."""
        key = word, around, float(f"{value:.9g}")
        if key not in self._met:
            like = self._lines.count((word, line))
            self._lines.append((word, line))
            name = f"{word}(line {line})" if not like else f"{word}(line {line}, {like + 1})"
            self._met[key] = import_sympy().Symbol(name, nonnegative=True)
            self._values[self._met[key]] = value
        return self._met[key]
