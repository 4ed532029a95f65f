"""Arithmetic and memory of a whole launch as formulas of extents and parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kerneldsl.explain.executions import Executions
from kerneldsl.explain.explanation import FLOPS
from kerneldsl.explain.launched import Launched
from kerneldsl.explain.symbols import Expression, coordinate, import_sympy, symbol
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.values import Memory, Space

__all__ = ["Formulas", "launch_formulas"]


class Formulas(NamedTuple):
    """Formulas of a launch, and what their symbols are worth in it.

    Parameters
    ----------
    flops : mapping
        Dtype to the operations on floats of all threads, as :meth:`Explanation.flops` counts them.
    requested_bytes : sympy.Expr
        Bytes of global memory that all threads ask for.
    values : mapping
        Symbol to its value: coordinates' extents, arrays' extents, parameters, and for conditions
        and loops that are no bounds the share or the rounds that were met.
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


def launch_formulas(
    tallies: Tallies,
    executions: Executions,
    launch: Launched,
    arrays: Sequence[Memory],
    scalars: Mapping[str, Any],
) -> Formulas:
    """Return the formulas of a launch that was walked.

    `scalars` are the parameters that are numbers, by name.
    """
    sympy = import_sympy()
    ones = {
        coordinate(name, axis): 1
        for name, dims in (("blockDim", launch.block_dim), ("gridDim", launch.grid_dim))
        for axis in range(3)
        if launch.block_dim[axis] == launch.grid_dim[axis] == 1 == dims[axis]
    }
    flops: dict[str, Expression] = defaultdict(lambda: sympy.Integer(0))
    for typed, node, dtype, name in tallies.floats:
        if name in FLOPS:
            count = executions.of(typed, node).subs(ones)
            flops[dtype] += sympy.nsimplify(FLOPS[name]) * count
    requested = sympy.Integer(0)
    for each in tallies.accesses.values():
        if each.memory.space is Space.GLOBAL:
            share = sympy.Rational(*(each.tile_share or 1).as_integer_ratio())
            requested += share * each.itemsize * executions.of(each.unit, each.node).subs(ones)
    values: dict[Any, float] = dict(executions.met)
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
    totals = {dtype: sympy.expand(formula) for dtype, formula in flops.items()}
    return Formulas(totals, sympy.expand(requested), values)
