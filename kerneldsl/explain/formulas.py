"""Arithmetic and memory of a whole launch as formulas of extents and parameters."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kerneldsl.explain.executions import Executions
from kerneldsl.explain.explanation import FLOPS
from kerneldsl.explain.launched import Launched
from kerneldsl.explain.symbols import Expression, Symbols, coordinate, import_sympy, symbol
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.values import Memory, Space
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.user_places import user_place

__all__ = ["Formulas", "launch_formulas"]

#: By how much a formula may differ from what is counted, and from an estimate of it.
_EXACT, _NEAR = 1e-9, 0.01


class Formulas(NamedTuple):
    """Formulas of a launch, and what their symbols are worth in it.

    Parameters
    ----------
    flops : mapping
        Dtype to the operations on floats of all threads, as :meth:`Explanation.flops` counts them.
    requested_bytes : sympy.Expr
        Bytes of global memory that all threads request.
    values : mapping
        Symbol to its value: coordinates' extents, arrays' extents, parameters, and what was met:
        the share of a condition that is no bound, the rounds of a loop without a known length, and
        of a line that is executed more rarely than the guards and loops around it say, the part of
        those executions; of others how often a thread executes it (``times``).
    """

    flops: Mapping[str, Expression]
    requested_bytes: Expression
    values: Mapping[Any, float]

    def evaluate(self, formula: Expression, **others: float) -> float:
        """Return what a formula is worth in the launch, or with other values of some symbols.

        Parameters
        ----------
        formula : sympy.Expr
            One of them.
        **others : float
            Name of a symbol to its value.
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
    typed: TypedUnit,
    symbols: Mapping[TypedUnit, Symbols],
    launch: Launched,
    arrays: Sequence[Memory],
    scalars: Mapping[str, Any],
    *,
    is_sampled: bool,
) -> Formulas:
    """Return the formulas of a launch that was walked.

    Parameters
    ----------
    tallies : Tallies
        What was counted.
    typed, symbols : TypedUnit, mapping
        The kernel, and the expressions of the indices of each function.
    launch : Launched
        The launch.
    arrays, scalars : sequence of Memory, mapping
        The parameters that are arrays, and those that are numbers, by name.
    is_sampled : bool
        Whether the counts are estimates.
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
        values[sympy.Symbol(name, integer=True)] = value
    names = frozenset(map(str, values))
    executions = Executions(typed, symbols, tallies.branches, launch.extent, names)
    terms = _Terms(executions, launch, values, _NEAR if is_sampled else _EXACT)
    flops: dict[str, Expression] = defaultdict(lambda: sympy.Integer(0))
    for (unit, node, dtype, name), count in tallies.floats.items():
        if name in FLOPS and count:
            flops[dtype] += FLOPS[name] * terms.of(unit, node, count)
    asked: dict[tuple[Any, ...], float] = defaultdict(float)
    for each in tallies.accesses.values():
        if each.memory.space is Space.GLOBAL and each.asked_bytes:
            nbytes = (each.tile_share or 1) * each.itemsize
            asked[each.unit, each.node, each.is_store, nbytes] += each.asked_bytes
    requested = sympy.Integer(0)
    for (unit, node, _, nbytes), count in asked.items():
        executions_of = terms.of(unit, node, count / float(nbytes))
        requested += sympy.Rational(*nbytes.as_integer_ratio()) * executions_of
    totals = {dtype: sympy.expand(formula) for dtype, formula in flops.items()}
    return Formulas(totals, sympy.expand(requested), values)


class _Terms:
    """Executions of nodes as formulas that are worth what was counted.

    Guards and loops say how often a node is executed. Where something else decides as well, or what
    was counted is something else, the formula has a symbol for the part of these executions that
    was met; if it is no part of them, for the executions of each thread on average.
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

    def of(self, typed: TypedUnit, node: ast.AST, counted: float) -> Expression:
        """Return how often a node is executed, of which it is counted how often it was."""
        count = self._executions.of(typed, node)
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
        line = user_place(typed.unit.locate(node), self._executions.kernel.unit).lineno
        return formula * self._symbol(word, line, count.around, counted / worth)

    def _worth(self, formula: Expression) -> tuple[Expression, float | None]:
        """Return a formula without axes that are not there, and its value if it has one."""
        formula = formula.subs(self._ones)
        value = formula.subs(self._values)
        return formula, float(value) if value.is_number and value.is_finite else None

    def _symbol(self, word: str, line: int, around: Any, value: float) -> Expression:
        """Return the symbol of what was met at a line; nodes that share it are executed alike."""
        key = word, around, float(f"{value:.9g}")
        if key not in self._met:
            like = self._lines.count((word, line))
            self._lines.append((word, line))
            name = f"{word}(line {line})" if not like else f"{word}(line {line}, {like + 1})"
            self._met[key] = import_sympy().Symbol(name, nonnegative=True)
            self._values[self._met[key]] = value
        return self._met[key]
