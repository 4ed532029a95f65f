"""The kernel's tree before it is cut: exceptions, indices, arguments, guards of ``forall``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Typing
from kerneldsl.lowering.faults import FaultTable
from kerneldsl.lowering.passes.drop_exceptions import DropExceptions
from kerneldsl.lowering.passes.mark_nonnegative_indices import MarkNonnegativeIndices
from kerneldsl.lowering.trees import copy_tree
from kerneldsl.target import Specialization
from targets.cpu.ids import BlockSpace, Space

__all__ = ["FAULT", "Prepared", "prepare_function", "prepare_tree"]

#: The parameter that takes the address of the fault record in debug mode.
FAULT = "kd_fault_record"
_AXES = "xyz"


@dataclass(frozen=True)
class Prepared:
    """A kernel ready to be cut.

    Parameters
    ----------
    tree : ast.FunctionDef
        A tree of its own.
    parameters : tuple of str
        Names of the kernel's parameters in the generated function; one that the kernel assigns
        has another name there, and is copied anew for each thread.
    fault_table : FaultTable or None
        Sites of faults in debug mode.
    """

    tree: ast.FunctionDef
    parameters: tuple[str, ...]
    fault_table: FaultTable | None


def prepare_tree(unit: FunctionUnit, spec: Specialization, space: Space) -> Prepared:
    """Run the passes that every kernel needs.

    Parameters
    ----------
    unit : FunctionUnit
        With block-level functions inlined.
    spec : Specialization
        Options and mode.
    space : ElementSpace or BlockSpace
        Where its ids will point to.
    """
    tree = copy_tree(unit.tree)
    table = None
    if spec.options.debug:
        from kerneldsl.lowering.passes.record_faults import RecordFaults

        tree, table = RecordFaults(wraparound=spec.options.wraparound)(tree, unit)
    else:
        tree = DropExceptions()(tree)
        tree = _mark_indices(tree, unit, spec)
    stored = assigned_names(tree.body)
    parameters = []
    copies: list[ast.stmt] = []
    for name in unit.parameters:
        if name in stored:
            parameters.append(f"kd_in_{name}")
            value = ast.Name(parameters[-1], ast.Load())
            copies.append(ast.Assign([ast.Name(name, ast.Store())], value))
        else:
            parameters.append(name)
    guard = []
    if spec.mode.forall_ndim and isinstance(space, BlockSpace) and not spec.traits.uses_block:
        guard = [_beyond_extent(space, spec.mode.forall_ndim)]
    tree.body = [place_at(s, unit.tree) for s in (*guard, *copies)] + tree.body
    return Prepared(tree, tuple(parameters), table)


def prepare_function(unit: FunctionUnit, spec: Specialization) -> ast.FunctionDef:
    """Run the passes that a device function needs; its faults are not told apart by the kernel.

    Parameters
    ----------
    unit : FunctionUnit
        A device function that stays a function.
    spec : Specialization
        Options of the kernel that calls it.
    """
    tree = DropExceptions()(copy_tree(unit.tree))
    return _mark_indices(tree, unit, spec)


def _mark_indices(
    tree: ast.FunctionDef, unit: FunctionUnit, spec: Specialization
) -> ast.FunctionDef:
    def is_coordinate(call: ast.Call) -> bool:
        use = unit.use_of(call)
        return use is not None and use.intrinsic.typing in (Typing.INDEX, Typing.INDEX_TUPLE)

    mark = MarkNonnegativeIndices(
        wraparound=spec.options.wraparound,
        nonnegative_calls=is_coordinate,
        constants={name: captured.value for name, captured in unit.constants.items()},
        opaque=frozenset(unit.callees),
    )
    return mark(tree)


def _beyond_extent(space: BlockSpace, rank: int) -> ast.stmt:
    """``if`` this thread lies beyond the extent: ``return``."""
    tests: list[ast.expr] = [
        ast.Compare(
            space.index(axis), [ast.GtE()], [ast.Name(f"kd_extent_{position}", ast.Load())]
        )
        for position, axis in enumerate(_AXES[:rank])
    ]
    test = tests[0] if rank == 1 else ast.BoolOp(ast.Or(), tests)
    return ast.If(test, [ast.Return()], [])
