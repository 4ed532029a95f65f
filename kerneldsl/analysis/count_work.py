"""Count what the body of a kernel does for one index: its memory accesses, and what it computes.

A loop of unknown length counts as so many rounds as the caller says, and of a branch the dearer
side counts. It is a domain of :mod:`kerneldsl.analysis.dataflow` that walks each loop once and each
callee at its calls.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any, TypeAlias

from kerneldsl.analysis.dataflow import Branching, Dataflow, Frame
from kerneldsl.analysis.expressions import assigned_names, index_parts, is_extent
from kerneldsl.analysis.guards import find_guard
from kerneldsl.analysis.index_forms import (
    LOADED,
    UNIFORM,
    IndexForm,
    either,
    is_crossed,
    offsets_of,
    operate,
    pattern_of,
)
from kerneldsl.analysis.operations import CONVERSIONS, OPERATORS, SELECTIONS, called_function
from kerneldsl.analysis.trips import (
    halving_trips,
    integer_value,
    is_range,
    range_step,
    range_trips,
)
from kerneldsl.analysis.work import UNKNOWN_TRIPS, Access, BodyWork
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["body_work"]

_MAX_DEPTH = 8


def body_work(
    unit: FunctionUnit,
    *,
    x_is_last: bool = True,
    unknown_trips: float = UNKNOWN_TRIPS,
    block_dim: tuple[int, int, int] | None = None,
) -> BodyWork:
    """Count what a kernel does for one index.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel in normal form.
    x_is_last : bool
        Whether the last index of ``grid`` runs along x, as under ``forall`` of a kernel that reads
        its place by ``grid`` alone; else the first does.
    unknown_trips : float
        Rounds that a loop of unknown length is taken to make.
    block_dim : tuple of int, optional
        Threads of a block, if they are known: then so are loops over them, and what one thread
        of a block does counts as its share.
    """
    counter = _Counter(x_is_last, unknown_trips, block_dim)
    _Body(unit, counter, {name: i for i, name in enumerate(unit.parameters)}, {}).run()
    return replace(counter.work, accesses=tuple(counter.accesses.values()))


@dataclass
class _Counter:
    """Facts of the launch, and the counts so far."""

    x_is_last: bool
    unknown_trips: float
    block_dim: tuple[int, int, int] | None
    is_in_loop: bool = False
    accesses: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    work: BodyWork = field(default_factory=BodyWork)

    def add(self, key: tuple[Any, ...], access: Access) -> None:
        """Count an access; a second one of the same text is served by a register."""
        known = self.accesses.get(key)
        if known is None or known.count < access.count:
            self.accesses[key] = access


#: What is known of the variables of a function.
_Values: TypeAlias = dict[str, IndexForm]


class _Body(Dataflow[_Values]):
    """Walks over one function, and over those it calls. Statements change the state in place."""

    def __init__(
        self,
        unit: FunctionUnit,
        counter: _Counter,
        arrays: Mapping[str, int],
        values: Mapping[str, IndexForm],
        weight: float = 1.0,
        depth: int = 0,
        *,
        is_guarded: bool = False,
    ) -> None:
        super().__init__()
        self._unit = unit
        self._counter = counter
        self._arrays = dict(arrays)
        self._values = dict(values)
        self._weight = weight
        self._depth = depth
        self._is_guarded = is_guarded
        #: Operations counted before each side of a branch.
        self._sides: dict[ast.AST, list[Mapping[str, float]]] = {}
        #: Operations counted before the outermost loop.
        self._before_loop = 0.0
        #: Statements that threads with several items test once.
        self._guard = () if depth else find_guard(unit, unit.tree)

    def run(self) -> None:
        self._counter.work.local_values += len(assigned_names(self._unit.tree.body))
        self.block(self._unit.tree.body, self._values)

    # -------------------------------------------------------------- statements

    def statement(self, node: ast.stmt, state: _Values) -> _Values | None:
        self._values = state
        counter = self._counter
        outer = self._is_guarded, self._weight, counter.is_in_loop
        after = super().statement(node, state)
        if counter.is_in_loop and not outer[-1]:
            counter.work.loop_operations += (
                sum(counter.work.operations.values()) - self._before_loop
            )
        self._is_guarded, self._weight, counter.is_in_loop = outer
        return after

    def transfer(self, node: ast.stmt, state: _Values) -> _Values:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self._expression(value)
                for target in targets:
                    self._assign(target, value, found)
            case ast.AugAssign(target=target, value=value):
                found = self._expression(value)
                self._count(OPERATORS[type(node.op)])
                if isinstance(target, ast.Subscript):
                    self._access(target, is_store=False)
                    self._access(target, is_store=True)
                elif isinstance(target, ast.Name):
                    known = state.get(target.id, UNIFORM)
                    state[target.id] = operate(node.op, known, found)
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                self._expression(value)
        return state

    def test(self, node: Branching, state: _Values) -> _Values:
        counter = self._counter
        if isinstance(node, ast.If):
            self._expression(node.test)
            is_harmless = node in self._guard or _is_bound(node.test)
            self._is_guarded = self._is_guarded or not is_harmless
            self._weight *= self._share_of_threads(node.test)
            return state
        if isinstance(node, ast.For):
            trips = self._take_item(node)
        else:
            trips = halving_trips(node.test, node.body, self._integer)
        if trips is None:
            counter.work.has_unknown_loop = True
            trips = counter.unknown_trips
        self._weight *= max(trips, 0)
        counter.work.rounds += self._weight
        if not counter.is_in_loop:
            self._before_loop = sum(counter.work.operations.values())
        counter.is_in_loop = True
        for name in _advanced_names(node.body):
            state[name] = state.get(name, UNIFORM).advancing(None)
        if isinstance(node, ast.While):
            self._expression(node.test)
        return state

    def _take_item(self, node: ast.For) -> float | None:
        """Take an item; return how many there are, if that is known."""
        trips: float | None = None
        step: int | None = 1
        start = UNIFORM
        iterable = node.iter
        if isinstance(iterable, ast.Call) and is_range(iterable, self._unit.namespace):
            trips = range_trips(iterable, self._integer, self._value)
            step = range_step(iterable, self._integer)
            if len(iterable.args) > 1:
                start = self._value(iterable.args[0])
        self._expression(iterable)
        if isinstance(node.target, ast.Name):
            self._values[node.target.id] = start.advancing(step)
        return trips

    def assume(self, node: Branching, truth: bool, tested: _Values) -> _Values:
        if not isinstance(node, ast.If):
            return tested
        self._sides.setdefault(node, []).append(dict(self._counter.work.operations))
        return dict(tested) if truth else tested

    def join(self, one: _Values, two: _Values) -> _Values:
        for name, value in one.items():
            known = two.get(name)
            two[name] = value if known is None else either(value, known)
        return two

    def after(self, node: ast.If, state: _Values | None) -> _Values | None:
        """Count each operation as often as the side does that has more of it."""
        start, middle = self._sides.pop(node)
        operations = self._counter.work.operations
        for name, count in operations.items():
            before, between = start.get(name, 0.0), middle.get(name, 0.0)
            operations[name] = before + max(between - before, count - between)
        return state

    def repeat(self, frame: Frame[_Values], end: _Values | None) -> None:
        """Walk a loop once, and count what it does as often as it is run."""

    def leave(self, frame: Frame[_Values], tested: _Values) -> _Values:
        return tested

    def behind(self, node: ast.Break | ast.Continue, state: _Values) -> _Values:
        return state

    def _share_of_threads(self, test: ast.expr) -> float:
        """Return the share of threads for which ``if t == 0`` holds; 1 for other conditions."""
        block_dim = self._counter.block_dim
        if block_dim is None or not (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], ast.Eq)
            and self._value(test.left).factors[-1] == 1
            and self._value(test.comparators[0]).is_uniform
        ):
            return 1.0
        return 1.0 / math.prod(block_dim)

    def _integer(self, node: ast.expr) -> int | None:
        return integer_value(node, self._unit.constants, self._values)

    def _assign(self, target: ast.expr, value: ast.expr, found: IndexForm) -> None:
        match target:
            case ast.Subscript():
                self._access(target, is_store=True)
            case ast.Name(id=name):
                self._values[name] = found
                if isinstance(value, ast.Name) and value.id in self._arrays:
                    self._arrays[name] = self._arrays[value.id]
                elif name in self._arrays and not isinstance(value, ast.Subscript):
                    del self._arrays[name]
            case ast.Tuple(elts=targets):
                use = self._unit.use_of(value)
                for axis, each in enumerate(targets):
                    if isinstance(each, ast.Name):
                        is_grid = use is not None and use.intrinsic.name == "grid"
                        known = self._axis(axis, len(targets)) if is_grid else None
                        if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
                            known = self._value(value.elts[axis])
                        self._values[each.id] = known or found

    # ------------------------------------------------------------- expressions

    def _axis(self, axis: int, count: int) -> IndexForm:
        """Return the index along one of `count` axes of ``grid``."""
        return IndexForm.axis(count - 1 - axis if self._counter.x_is_last else axis)

    def _expression(self, node: ast.expr) -> IndexForm:
        """Count what an expression does, and say what is known of its value."""
        match node:
            case ast.Subscript() if not is_extent(node):
                return self._access(node, is_store=False)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._expression(left), self._expression(right)
                self._count(OPERATORS[type(op)])
                return operate(op, first, second, self._integer(left), self._integer(right))
            case ast.UnaryOp(operand=operand):
                found = self._expression(operand)
                if isinstance(node.op, ast.USub):
                    return found.times(-1)
                return found
            case ast.Compare(left=left, comparators=others):
                for each in (left, *others):
                    self._expression(each)
                self._count("compare", len(others))
                return UNIFORM
            case ast.Call():
                return self._call(node)
            case ast.Name(id=name):
                return self._values.get(name) or IndexForm(constant=self._integer(node))
            case ast.Constant():
                return IndexForm(constant=self._integer(node))
            case ast.IfExp(test=test, body=body, orelse=other):
                self._expression(test)
                first, second = self._expression(body), self._expression(other)
                self._count("select")
                return either(first, second)
            case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
                for each in values:
                    self._expression(each)
                return UNIFORM
        return UNIFORM

    def _value(self, node: ast.expr) -> IndexForm:
        """Return what is known of a value, without counting it again."""
        saved = self._counter
        self._counter = _Counter(saved.x_is_last, saved.unknown_trips, saved.block_dim)
        try:
            return self._expression(node)
        finally:
            self._counter = saved

    def _count(self, name: str, many: int = 1) -> None:
        self._counter.work.operations[name] += self._weight * many

    def _call(self, node: ast.Call) -> IndexForm:
        use = self._unit.use_of(node)
        if use is not None:
            if use.intrinsic.name == "grid":
                return self._axis(0, 1)
            if use.intrinsic.name.startswith("threadIdx."):
                return IndexForm.axis("xyz".index(use.intrinsic.name[-1]))
            if Effect.ATOMIC in use.intrinsic.effect:
                for extra in node.args[2:]:
                    self._expression(extra)
                base = node.args[0]
                if not (isinstance(base, ast.Name) and base.id in self._arrays):
                    self._counter.work.shared_atomics += self._weight
                target = ast.Subscript(base, node.args[1], ast.Store())
                self._access(target, is_store=True, is_atomic=True)
                return LOADED
            if use.intrinsic.synchronizes(Scope.BLOCK):
                self._counter.work.barriers += self._weight
            if use.intrinsic.name.startswith("blockDim.") and self._counter.block_dim:
                place = "xyz".index(use.intrinsic.name[-1])
                return IndexForm(constant=self._counter.block_dim[place])
            for argument in node.args:
                self._expression(argument)
            if _computes(use.intrinsic):
                self._count("intrinsic")
                return LOADED
            return LOADED if use.intrinsic.name == "laneid" else UNIFORM
        callee = self._unit.callee_of(node)
        if callee is not None and self._depth < _MAX_DEPTH and not node.keywords:
            return self._enter(callee, node)
        found = [self._expression(argument) for argument in node.args]
        name = called_function(node, self._unit.namespace)
        if name in CONVERSIONS and found:
            return found[0]
        if name not in ("len", "range"):
            self._count(name, len(found) - 1 if name in SELECTIONS else 1)
        if name in ("min", "max") and found:
            return reduce(either, found)
        return LOADED if any(not each.is_uniform for each in found) else UNIFORM

    def _enter(self, callee: FunctionUnit, node: ast.Call) -> IndexForm:
        arrays: dict[str, int] = {}
        values: dict[str, IndexForm] = {}
        for name, argument in zip(callee.parameters, node.args, strict=False):
            if isinstance(argument, ast.Name) and argument.id in self._arrays:
                arrays[name] = self._arrays[argument.id]
            values[name] = self._expression(argument)
        _Body(
            callee,
            self._counter,
            arrays,
            values,
            self._weight,
            self._depth + 1,
            is_guarded=self._is_guarded,
        ).run()
        return LOADED if any(not each.is_uniform for each in values.values()) else UNIFORM

    # ---------------------------------------------------------------- accesses

    def _access(self, node: ast.Subscript, *, is_store: bool, is_atomic: bool = False) -> IndexForm:
        chain: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            chain = [*index_parts(base), *chain]
            base = base.value
        found = [self._index(part) for part in chain]
        if not isinstance(base, ast.Name) or base.id not in self._arrays or not found:
            return LOADED
        pattern, step = pattern_of(found)
        parameter = self._arrays[base.id]
        text = ", ".join(ast.unparse(part) for part in chain)
        loops = [form.loop_factor for form in found]
        changes = pattern == "scattered" or any(factor != 0 for factor in loops)
        self._counter.add(
            (parameter, is_store, text, self._depth),
            Access(
                parameter,
                is_store,
                pattern,
                count=self._weight if changes or self._weight < 1.0 or is_atomic else 1.0,
                step=step,
                offsets=offsets_of(found),
                is_atomic=is_atomic,
                depends_on_load=pattern == "scattered",
                is_crossed=is_crossed(found),
                is_stepped=any(factor not in (0, 1, -1) for factor in loops),
                is_guarded=self._is_guarded,
            ),
        )
        return LOADED

    def _index(self, node: ast.expr) -> IndexForm:
        """Return what is known of an index, without counting its arithmetic."""
        operations = self._counter.work.operations.copy()
        found = self._expression(node)
        self._counter.work.operations = operations
        return found


def _computes(intrinsic: Intrinsic) -> bool:
    """Return whether a thread executes an instruction for it that gives a value."""
    depends = intrinsic.uniform_in is None or intrinsic.scope is Scope.WARP
    return depends and intrinsic.typing is not Typing.NOTHING


def _is_bound(test: ast.expr) -> bool:
    """Return whether a condition only bounds an index by a length, which launches check."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(map(_is_bound, test.values))
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return False
    right = test.comparators[0]
    is_length = (
        isinstance(right, ast.Name)
        or (isinstance(right, ast.Attribute) and right.attr == "size")
        or (isinstance(right, ast.Subscript) and is_extent(right))
    )
    return isinstance(test.ops[0], ast.Lt) and isinstance(test.left, ast.Name) and is_length


def _advanced_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a loop's body moves on by an augmented assignment."""
    return {
        node.target.id
        for statement in body
        for node in walk_here(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
