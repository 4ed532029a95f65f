"""Gather atomic operations on small arrays in memory of the worker's own, and perform them once.

Blocks end with ``atomic.add(sums, t, own)``: every worker updates the same few elements, and each
waits for the others' caches. An operation without a use of its old value can wait. A worker that
runs many threads updates a copy, which began as what changes nothing, by ordinary instructions, and
at the end of its call updates each element that was touched once. Operations are performed in no
order that a kernel could rely on, so only the rounding of sums shows it.

A kernel must not see that they are late: it uses the array for one kind of operation alone and for
nothing else, and nothing orders what others see. Whether the array is small, and shares no memory
with another one, is known at the launch, so each operation is there twice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.contract import Specialization
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.storage import SCRATCH, Storage

__all__ = ["GatheredAtomics", "gatherable"]

#: Elements of an array that are copied, at most.
_MOST_ELEMENTS = 1024
_OPERATIONS = frozenset({"add", "max", "min", "and_", "or_", "xor"})
_ELEMENTS = frozenset({"int32", "uint32", "int64", "uint64", "float32", "float64"})
_ARRAY_ATTRIBUTES = frozenset({"shape", "size", "ndim"})


def gatherable(spec: Specialization, unit: FunctionUnit) -> dict[str, str]:
    """Return arrays with gatherable operations, with the name of the operation in the tree.

    `unit` is the kernel as it is compiled.
    """
    if spec.options.debug or spec.traits.syncs_grid:
        return {}
    uses = list(unit.all_uses())
    if any(_orders(use) for use in uses):
        return {}
    kinds = dict(zip(unit.parameters, spec.kinds, strict=True))
    if any(isinstance(kind, TupleKind) for kind in kinds.values()):
        return {}  # whose arrays have no names
    found: dict[str, str] = {}
    others: set[str] = set()
    looked_at: set[ast.AST] = set()
    for node in walk_here(unit.tree):
        operation = _operation(node, unit)
        if operation is not None:
            array = operation.args[0]
            assert isinstance(array, ast.Name)
            assert isinstance(operation.func, ast.Name)
            looked_at.add(array)
            if found.setdefault(array.id, operation.func.id) != operation.func.id:
                others.add(array.id)
        elif isinstance(node, ast.Attribute) and node.attr in _ARRAY_ATTRIBUTES:
            looked_at.add(node.value)
    others |= {
        node.id
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Name) and node not in looked_at
    }
    return {
        name: operation
        for name, operation in sorted(found.items())
        if name not in others and _is_suitable(kinds.get(name))
    }


def _orders(use: IntrinsicUse) -> bool:
    """Return whether others may look for what was written before."""
    is_ordered = use.static.get("order", "relaxed") != "relaxed"
    return is_ordered or bool(use.intrinsic.effect & Effect.FENCE)


def _is_suitable(kind: Kind | None) -> bool:
    return isinstance(kind, ArrayKind) and kind.ndim > 0 and kind.element.name in _ELEMENTS


def _operation(node: ast.AST, unit: FunctionUnit) -> ast.Call | None:
    """Return the call of a statement that updates an element of a named array."""
    if not isinstance(node, ast.Expr):
        return None
    use = unit.use_of(node.value)
    if use is None or not use.intrinsic.effect & Effect.ATOMIC:
        return None
    assert isinstance(node.value, ast.Call)
    arguments, short = node.value.args, use.intrinsic.name.rpartition(".")[2]
    is_named = len(arguments) == 3 and isinstance(arguments[0], ast.Name)
    return node.value if is_named and short in _OPERATIONS else None


@dataclass
class _Copy:
    """The copy of one array."""

    array: str
    #: What the operation is called in the tree, and what it is.
    operation: str
    short: str
    ndim: int
    #: The kernel's other arrays.
    others: tuple[str, ...]
    #: The copy, and whether it is used.
    own: str
    is_used: str
    #: What gives what changes nothing, and shows whether an element was touched.
    identity: str
    touched: str
    maker: str


@dataclass
class GatheredAtomics:
    """Writes the copies of one kernel's arrays."""

    unit: FunctionUnit
    names: FreshNames
    #: Threads that a call runs, as an expression.
    threads: ast.expr
    copies: dict[str, _Copy] = field(default_factory=dict)

    def place(
        self, spec: Specialization, storage: Storage, namespace: dict[str, Any]
    ) -> frozenset[str]:
        """Reserve memory for the copies; return the variables that hold them."""
        from targets.cpu.intrinsics.gathering import are_apart, copy_maker, identity_of, is_touched

        kinds = dict(zip(self.unit.parameters, spec.kinds, strict=True))
        arrays = [name for name, kind in kinds.items() if isinstance(kind, ArrayKind)]
        namespace["kd_are_apart"] = are_apart
        for array, operation in gatherable(spec, self.unit).items():
            kind = kinds[array]
            assert isinstance(kind, ArrayKind)
            short = self.unit.uses[operation].intrinsic.name.rpartition(".")[2]
            copy = _Copy(
                *(array, operation, short, kind.ndim),
                tuple(name for name in arrays if name != array),
                *(self.names.make(f"own_{array}"), self.names.make(f"gathers_{array}")),
                *(f"kd_identity_{short}", f"kd_touched_{short}"),
                self.names.make(f"make_own_{array}"),
            )
            offset = storage.place(_MOST_ELEMENTS * kind.element.nbytes)
            namespace[copy.maker] = copy_maker(_MOST_ELEMENTS, offset)
            namespace[copy.identity] = identity_of(short)
            namespace[copy.touched] = is_touched(short)
            self.copies[array] = copy
        return frozenset(copy.own for copy in self.copies.values())

    def around(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a call with its operations gathered."""
        if not self.copies:
            return list(body)
        gathered = [_Gathering(self).visit(statement) for statement in copy_tree(list(body))]
        before = [each for copy in self.copies.values() for each in self._begin(copy)]
        after = [self._give(copy) for copy in self.copies.values()]
        return [*before, *gathered, *after]

    def _begin(self, copy: _Copy) -> Iterator[ast.stmt]:
        yield assign(copy.own, call(copy.maker, load(SCRATCH), load(copy.array)))
        most = call("kd_min", ast.Constant(_MOST_ELEMENTS), copy_tree(self.threads))
        size = ast.Attribute(load(copy.array), "size", ast.Load())
        tests: list[ast.expr] = [ast.Compare(size, [ast.LtE()], [most])]
        tests += [call("kd_are_apart", load(copy.array), load(other)) for other in copy.others]
        yield assign(copy.is_used, ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0])

        def fill(element: ast.Subscript) -> list[ast.stmt]:
            return [ast.Assign([element], call(copy.identity, load(copy.array)))]

        yield self._for_each(copy, fill)

    def _give(self, copy: _Copy) -> ast.stmt:
        def give(element: ast.Subscript) -> list[ast.stmt]:
            value = ast.Subscript(element.value, element.slice, ast.Load())
            update = call(copy.operation, load(copy.array), element.slice, value)
            return [ast.If(call(copy.touched, copy_tree(value)), [ast.Expr(update)], [])]

        return self._for_each(copy, give)

    def _for_each(self, copy: _Copy, write: Callable[[ast.Subscript], list[ast.stmt]]) -> ast.stmt:
        """Return what does something for each element of a copy that is used."""
        places = [self.names.make("place") for _ in range(copy.ndim)]
        indices: list[ast.expr] = [call("kd_unsigned", load(place)) for place in places]
        index = indices[0] if copy.ndim == 1 else ast.Tuple(indices, ast.Load())
        body = write(ast.Subscript(load(copy.own), index, ast.Store()))
        for axis, place in reversed(list(enumerate(places))):
            shape = ast.Attribute(load(copy.array), "shape", ast.Load())
            extent = ast.Subscript(shape, ast.Constant(axis), ast.Load())
            body = [ast.For(store(place), call("kd_range", extent), body, [])]
        return ast.If(load(copy.is_used), body, [])


class _Gathering(Transformer):
    """Writes each operation twice: on the copy, if that is used, and on the array."""

    def __init__(self, atomics: GatheredAtomics) -> None:
        self.atomics = atomics

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        operation = _operation(node, self.atomics.unit)
        if operation is None:
            return node
        array = operation.args[0]
        assert isinstance(array, ast.Name)
        copy = self.atomics.copies.get(array.id)
        if copy is None:
            return node
        own = place_at(ast.Expr(call(copy.operation, load(copy.own), *operation.args[1:])), node)
        return place_at(ast.If(load(copy.is_used), [own], [node]), node)
