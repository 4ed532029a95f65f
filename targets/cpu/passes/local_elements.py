"""Keep the elements of a thread's own small arrays in variables.

A thread's array has one place in memory, which threads use one after the other; variables can be
those of many threads at once. So an array whose indices are all known before the kernel runs
becomes a variable for each element::

    acc = kd.local.array(2, np.float32)          s0 = np.float32(a[i, 0] * b[0])
    for k in range(2):                           s1 = np.float32(a[i, 1] * b[1])
        acc[k] = a[i, k] * b[k]                  c[i] = s0 + s1
    c[i] = acc[0] + acc[1]

Loops whose variables enter such indices are written out, as far as that leaves few statements.
What is stored in an element is converted to its type, as it is on the way to memory. An array that
is used in any other way stays one: in a call that stays one, under another name, as a whole, as a
view, with an index that is not known, or that is beyond its end if that can be reached.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.storage import StaticArray
from targets.cpu.passes.dead_branches import flat_function, without_dead_branches
from targets.cpu.passes.element_writer import ElementWriter, LocalArray, conversion, element_of
from targets.cpu.passes.liveness import flow_of
from targets.cpu.passes.loop_functions import functions_with_arrays

__all__ = [
    "declares_local_arrays",
    "remarks_on_arrays",
    "with_constant_extents",
    "with_element_variables",
]

#: Elements of an array that may become variables: those of a register tile of 8 by 8.
_MOST_ELEMENTS = 64
#: How deep functions are inlined that are given an array.
_MOST_INLINED = 3
#: Element types that Numba computes in itself, with what converts to them.
_CONVERSIONS: Mapping[str, type[np.generic]] = {
    "bool": np.bool_,
    **{f"int{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
    **{f"float{bits}": np.dtype(f"float{bits}").type for bits in (32, 64)},
    **{f"complex{bits}": np.dtype(f"complex{bits}").type for bits in (64, 128)},
}


def with_element_variables(unit: FunctionUnit, *, wraparound: bool) -> FunctionUnit:
    """Return a function with variables in the place of local arrays, if that can be.

    `wraparound` says that a negative index counts from the end. Functions that it calls are written
    so too; those that are given such an array are inlined. It is the unit itself where no array
    becomes variables.
    """
    if not any(map(declares_local_arrays, unit.reachable())):
        return unit
    return _Functions(wraparound).written(unit)


def remarks_on_arrays(unit: FunctionUnit, *, wraparound: bool) -> tuple[str, ...]:
    """Return what to say of each local array that stays one: what it costs, what to write."""
    flat = flat_function(unit)
    return tuple(
        f"{StaticArray(use, where)} (line {where.lineno}) stays in memory: an index of it is not "
        "known when the kernel is compiled, it is used as a whole, it has more than "
        f"{_MOST_ELEMENTS} elements or those of a type that Numba does not compute in, or the "
        "loops over it would be long when they are written out. Threads use it one after the "
        "other, unless the indices are the same for all of them. Arrays of some numbers, indexed "
        "by constants or in short loops of constant length, become variables."
        for each in with_element_variables(flat, wraparound=wraparound).reachable()
        for name, use in each.uses.items()
        if use.intrinsic.effect & Effect.ALLOCATE_LOCAL and (where := each.locate_use(name))
    )


def with_constant_extents(unit: FunctionUnit) -> tuple[FunctionUnit, frozenset[str]]:
    """Return a function that asks no local array for its extents, and the arrays left in it.

    They are those that only their elements are asked of, identified by the calls that declare them.
    """
    declared = _declared(unit, most_elements=None)
    if not declared:
        return unit, frozenset()
    fixed, arrays = _of_elements(unit, declared)
    namespace = {**unit.namespace, "kd_int64": np.int64}
    return replace(fixed, namespace=namespace), frozenset(
        each.declaration for each in arrays.values()
    )


def _of_elements(
    unit: FunctionUnit, declared: Mapping[str, LocalArray]
) -> tuple[FunctionUnit, dict[str, LocalArray]]:
    """Return a function without extents of arrays, and those that one variable holds alone.

    Only their elements are asked of these.
    """
    arrays = _of_one_variable(unit, declared)
    fixed = unit.with_tree(_Extents(unit, arrays).visit(copy_tree(unit.tree)))
    return fixed, {n: each for n, each in arrays.items() if _is_of_elements(fixed, n, each)}


@dataclass
class _Functions:
    """Writes functions, each once."""

    wraparound: bool
    known: dict[FunctionUnit, FunctionUnit] = field(default_factory=dict)

    def written(self, unit: FunctionUnit) -> FunctionUnit:
        found = self.known.get(unit)
        if found is None:
            callees = {name: self.written(each) for name, each in unit.callees.items()}
            changed = any(callees[name] is not each for name, each in unit.callees.items())
            found = self.known[unit] = self._written(
                replace(unit, callees=callees) if changed else unit
            )
        return found

    def _written(self, unit: FunctionUnit) -> FunctionUnit:
        """Write a function, with those inlined that are given arrays if these are gone then."""
        inlined, given = unit, set[str]()
        for _ in range(_MOST_INLINED):
            arrays = _of_one_variable(inlined, _declared(inlined))
            functions = functions_with_arrays(inlined, arrays)
            if not functions:
                break
            for node in walk_here(inlined.tree):
                if isinstance(node, ast.Call) and inlined.callee_of(node) in functions:
                    names = {each.id for each in node.args if isinstance(each, ast.Name)}
                    given |= {arrays[name].declaration for name in names & arrays.keys()}
            inlined = without_dead_branches(inline_block_functions(inlined, functions))
        if given:
            written = _without_arrays(inlined, wraparound=self.wraparound)
            if given.isdisjoint(written.uses):
                return written
        return _without_arrays(unit, wraparound=self.wraparound)


def _without_arrays(unit: FunctionUnit, *, wraparound: bool) -> FunctionUnit:
    """Return a function without those of its arrays that only its own statements index."""
    declared = _declared(unit)
    if not declared:
        return unit
    fixed, arrays = _of_elements(unit, declared)
    while arrays:
        writer = ElementWriter(fixed, arrays, FreshNames.for_unit(fixed), wraparound=wraparound)
        body = writer.written()
        if not writer.failed:
            return _finished(fixed, writer, body)
        arrays = {name: each for name, each in arrays.items() if name not in writer.failed}
    return unit


def declares_local_arrays(unit: FunctionUnit) -> bool:
    """Return whether a function declares arrays of a thread's own."""
    return any(use.intrinsic.effect & Effect.ALLOCATE_LOCAL for use in unit.uses.values())


def _declared(
    unit: FunctionUnit, most_elements: int | None = _MOST_ELEMENTS
) -> dict[str, LocalArray]:
    """Return the arrays of a function, by the calls that declare them; small ones by default."""
    return {
        name: LocalArray(name, use.static["shape"], use.static["dtype"])
        for name, use in unit.uses.items()
        if use.intrinsic.effect & Effect.ALLOCATE_LOCAL
        and use.static["dtype"] in _CONVERSIONS
        and (most_elements is None or math.prod(use.static["shape"]) <= most_elements)
    }


def _of_one_variable(
    unit: FunctionUnit, declared: Mapping[str, LocalArray]
) -> dict[str, LocalArray]:
    """Return the arrays that one variable holds, which is nothing else."""
    names = Counter(
        (node.id, isinstance(node.ctx, ast.Load))
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Name)
    )
    found: dict[str, LocalArray] = {}
    for node in walk_here(unit.tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=maker))
            ) if maker in declared and name not in unit.parameters:
                if names[name, False] == names[maker, True] == 1:
                    found[name] = declared[maker]
    return found


def _is_of_elements(unit: FunctionUnit, name: str, array: LocalArray) -> bool:
    """Return whether a variable is only there to be indexed along all axes."""
    indexed = 0
    for node in walk_here(unit.tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            indexed -= 1
        found = element_of(node) if isinstance(node, ast.Subscript) else None
        if found is not None and found[0] == name and len(found[1]) == len(array.shape):
            indexed += 1
    return indexed == 0


class _Extents(Transformer):
    """Writes what is constant about arrays: extents, size, rank."""

    def __init__(self, unit: FunctionUnit, arrays: Mapping[str, LocalArray]) -> None:
        self.unit = unit
        self.arrays = arrays

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node.args:
            case [ast.Name(id=name)] if name in self.arrays and not node.keywords:
                if library_name(node.func, self.unit.namespace) == "len":
                    return self._integer(self.arrays[name].shape[0], node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
                slice=ast.Constant(value=int(axis)),
            ) if name in self.arrays and axis < len(self.arrays[name].shape):
                return self._integer(self.arrays[name].shape[axis], node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="size") if name in self.arrays:
                return self._integer(math.prod(self.arrays[name].shape), node)
        return self.generic_visit(node)

    def _integer(self, value: int, node: ast.expr) -> ast.expr:
        return place_at(call("kd_int64", ast.Constant(value)), node)


def _finished(unit: FunctionUnit, writer: ElementWriter, body: list[ast.stmt]) -> FunctionUnit:
    """Return the function with what the writer wrote, and without the arrays."""
    exposed = flow_of(body).exposed
    starts: dict[str, list[ast.stmt]] = {}
    for name, elements in writer.elements.items():
        # Undefined contents: of a variable that is not surely assigned before it is read.
        starts[name] = [
            assign(element, conversion(writer.dtypes[element], ast.Constant(0)))
            for element in elements
            if element in exposed
        ]
    tree = copy_tree(unit.tree)
    tree.body = body
    tree = _Declarations({a.declaration: starts[n] for n, a in writer.arrays.items()}).visit(tree)
    for node in walk_here(tree):
        if isinstance(node, ast.If | ast.For | ast.While | ast.FunctionDef) and not node.body:
            node.body = [place_at(ast.Pass(), node)]
    called = {node.id for node in walk_here(tree) if isinstance(node, ast.Name)}
    spellings: dict[str, str] = dict(unit.spellings)
    for new, old in writer.copies.items():
        spellings[new] = unit.spellings.get(old, old)
    for name, elements in writer.elements.items():
        spellings |= dict.fromkeys(elements, unit.spellings.get(name, name))
    namespace: dict[str, Any] = dict(unit.namespace)
    for dtype, function in _CONVERSIONS.items():
        if f"kd_{dtype}" in called:
            namespace[f"kd_{dtype}"] = function
    return replace(
        unit,
        tree=tree,
        uses={name: use for name, use in unit.uses.items() if name in called},
        namespace=namespace,
        spellings=spellings,
    )


class _Declarations(Transformer):
    """Replaces the statements that declare arrays."""

    def __init__(self, starts: Mapping[str, list[ast.stmt]]) -> None:
        self.starts = starts

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        match node.value:
            case ast.Call(func=ast.Name(id=name)) if name in self.starts:
                return [place_at(each, node) for each in self.starts[name]]
        return node
