"""The kernel's tree before it is cut: exceptions, indices, arguments, guards of ``forall``."""

from __future__ import annotations

import ast
import copy
from collections import Counter

from kerneldsl.analysis.expressions import assigned_names, names_read
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.contract import Specialization
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.lowering.faults import FaultSite
from kerneldsl.lowering.passes.drop_exceptions import DropExceptions
from kerneldsl.lowering.passes.mark_nonnegative_indices import MarkNonnegativeIndices
from kerneldsl.lowering.passes.record_faults import RecordFaults
from kerneldsl.lowering.passes.tuple_names import TupleLengths, tuple_arguments
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.ids import BlockSpace, Space

__all__ = ["FAULT", "Prepared", "prepare_function", "prepare_tree"]

#: The parameter that takes the address of the fault record in debug mode.
FAULT = "kd_fault_record"
_AXES = "xyz"


@dataclass(frozen=True)
class Prepared:
    """A kernel ready to be cut."""

    #: A tree of its own.
    tree: ast.FunctionDef
    #: Names of the kernel's parameters in the generated function; one that the kernel assigns has
    #: another name there, and is copied again for each thread.
    parameters: tuple[str, ...]


def prepare_tree(
    unit: FunctionUnit,
    spec: Specialization,
    space: Space,
    sites: list[FaultSite],
    names: FreshNames,
) -> Prepared:
    """Run the passes that every kernel needs.

    Block-level functions are inlined. `sites` takes the places that can fail, in debug mode;
    `names` gives names to counters of loops.
    """
    tree = prepare_function(unit, spec, sites, tuple_arguments(unit, spec.kinds)[unit])
    stored = assigned_names(tree.body)
    parameters = []
    copies: list[ast.stmt] = []
    for name in unit.parameters:
        if name in stored:
            parameters.append(f"kd_in_{name}")
            value = load(parameters[-1])
            copies.append(assign(name, value))
        else:
            parameters.append(name)
    guard = []
    if spec.mode.forall_ndim and isinstance(space, BlockSpace) and not spec.traits.uses_block:
        guard = [_beyond_extent(space, spec.mode.forall_ndim)]
    tree = _Shapes(dict(zip(unit.parameters, spec.kinds, strict=True)), stored).visit(tree)
    _separate_counters(tree, names)
    tree.body = [place_at(s, unit.tree) for s in (*guard, *copies)] + tree.body
    return Prepared(tree, tuple(parameters))


def prepare_function(
    unit: FunctionUnit,
    spec: Specialization,
    sites: list[FaultSite],
    tuples: TupleLengths | None = None,
) -> ast.FunctionDef:
    """Record faults, or drop exceptions and mark indices; return a new tree.

    The function is a kernel, or a device function that stays one. `sites` takes its places that can
    fail, in debug mode; `tuples` are its parameters that are tuples, with their lengths.
    """
    if spec.options.debug:
        record = RecordFaults(first_site=len(sites))
        tree, table = record(unit)
        sites.extend(table.sites)
        return tree
    mark = MarkNonnegativeIndices.for_unit(unit, wraparound=spec.options.wraparound, tuples=tuples)
    return mark(DropExceptions()(unit.tree))


class _Shapes(Transformer):
    """Writes ``h, w = a.shape`` as an assignment a name, whose value is then known to be pure."""

    def __init__(self, kinds: dict[str, Kind], stored: set[str]) -> None:
        self.kinds = kinds
        self.stored = stored

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Attribute(value=ast.Name(id=array), attr="shape"),
            ):
                kind = self.kinds.get(array)
                if (
                    array not in self.stored
                    and isinstance(kind, ArrayKind)
                    and kind.ndim == len(targets)
                    and all(isinstance(target, ast.Name) for target in targets)
                ):
                    extents = [
                        ast.Subscript(copy.deepcopy(node.value), ast.Constant(axis), ast.Load())
                        for axis in range(kind.ndim)
                    ]
                    return [
                        place_at(ast.Assign([target], extent), node)
                        for target, extent in zip(targets, extents, strict=True)
                    ]
        return node


def _separate_counters(tree: ast.FunctionDef, names: FreshNames) -> None:
    """Give each loop its own counter, where several have one that nothing else uses."""
    loops: dict[str, list[ast.For]] = {}
    for node in walk_here(tree):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            loops.setdefault(node.target.id, []).append(node)
    reads = Counter(names_read(tree))
    stores = Counter(
        n.id for n in walk_here(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    for name, found in loops.items():
        in_loops = sum(names_read(loop.body).count(name) for loop in found)
        is_nested = any(
            inner in found for loop in found for inner in walk_here(loop) if inner is not loop
        )
        if len(found) == stores[name] and in_loops == reads[name] and not is_nested:
            for loop in found[1:]:
                _rename(loop, name, names.make(name))


def _rename(loop: ast.For, old: str, new: str) -> None:
    for node in walk_here(loop):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def _beyond_extent(space: BlockSpace, rank: int) -> ast.stmt:
    """Return the statement that ends a thread beyond the extent."""
    tests: list[ast.expr] = [
        ast.Compare(space.index(axis), [ast.GtE()], [load(f"kd_extent_{position}")])
        for position, axis in enumerate(_AXES[:rank])
    ]
    test = tests[0] if rank == 1 else ast.BoolOp(ast.Or(), tests)
    return ast.If(test, [ast.Return()], [])
