"""What the body of a kernel does for one index: its memory accesses, and how much it computes.

The planner asks; nothing depends on the answers for being right, so they are estimates where the
source does not say more: a loop of unknown length counts as `UNKNOWN_TRIPS` rounds, and of a branch
the dearer side counts.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kerneldsl.analysis.expressions import assigned_names, is_extent
from kerneldsl.analysis.guards import find_guard
from kerneldsl.analysis.index_forms import (
    LOADED,
    UNIFORM,
    IndexForm,
    Pattern,
    is_crossed,
    offsets_of,
    pattern_of,
)
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect

__all__ = ["UNKNOWN_TRIPS", "Access", "BodyWork", "body_work"]

#: Rounds that a loop of unknown length is taken to make.
UNKNOWN_TRIPS = 16
_MAX_DEPTH = 8


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


@dataclass(frozen=True, slots=True)
class BodyWork:
    """What a kernel does for one index.

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
        Whether the last index of ``grid`` runs along x, as under ``forall`` of a kernel that asks
        for its place by ``grid`` alone; else the first does.
    unknown_trips : float
        Rounds that a loop of unknown length is taken to make.
    block_dim : tuple of int, optional
        Threads of a block, where they are known: then so are loops over them, and what one thread
        of a block does counts as its share.

    Returns
    -------
    BodyWork
    """
    counter = _Counter(x_is_last, unknown_trips, block_dim)
    _Body(unit, counter, {name: i for i, name in enumerate(unit.parameters)}, {}).run()
    return BodyWork(
        accesses=tuple(counter.accesses.values()),
        operations=counter.operations,
        divisions=counter.divisions,
        functions=counter.functions,
        rounds=counter.rounds,
        loop_operations=counter.loop_operations,
        barriers=counter.barriers,
        shared_atomics=counter.shared_atomics,
        has_unknown_loop=counter.has_unknown_loop,
        local_values=counter.local_values,
    )


@dataclass
class _Counter:
    x_is_last: bool = True
    unknown_trips: float = UNKNOWN_TRIPS
    block_dim: tuple[int, int, int] | None = None
    accesses: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    operations: float = 0.0
    divisions: float = 0.0
    functions: float = 0.0
    rounds: float = 0.0
    loop_operations: float = 0.0
    barriers: float = 0.0
    shared_atomics: float = 0.0
    has_unknown_loop: bool = False
    is_in_loop: bool = False
    local_values: int = 0

    @property
    def computed(self) -> float:
        """Operations of any kind."""
        return self.operations + self.divisions + self.functions

    def add(self, key: tuple[Any, ...], access: Access) -> None:
        """Count an access; a second one of the same text is served by a register."""
        known = self.accesses.get(key)
        if known is None or known.count < access.count:
            self.accesses[key] = access


class _Body:
    """Walks over one function, and over those it calls."""

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
        self._unit = unit
        self._counter = counter
        self._arrays = dict(arrays)
        self._values = dict(values)
        self._weight = weight
        self._depth = depth
        self._is_guarded = is_guarded
        #: Statements that threads with several items test once.
        self._guard = () if depth else find_guard(unit, unit.tree)

    def run(self) -> None:
        self._counter.local_values += len(assigned_names(self._unit.tree.body))
        self._statements(self._unit.tree.body)

    # -------------------------------------------------------------- statements

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self._expression(value)
                for target in targets:
                    self._assign(target, value, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, self._expression(value))
            case ast.AugAssign(target=target, value=value):
                found = self._expression(value)
                self._count_operation(node.op)
                if isinstance(target, ast.Subscript):
                    self._access(target, is_store=False)
                    self._access(target, is_store=True)
                elif isinstance(target, ast.Name):
                    self._values[target.id] = self._operate(
                        node.op, self._values.get(target.id, UNIFORM), found, None, None
                    )
            case ast.For(target=target, iter=iterable, body=body):
                self._for(target, iterable, body)
            case ast.While(test=test, body=body):
                trips = self._halvings(test, body)
                if trips is None:
                    self._counter.has_unknown_loop = True
                    trips = self._counter.unknown_trips
                self._in_loop(body, self._weight * trips, test)
            case ast.If(test=test, body=body, orelse=other):
                self._expression(test)
                before = self._is_guarded, self._weight
                is_harmless = node in self._guard or _is_bound(test)
                self._is_guarded = self._is_guarded or not is_harmless
                self._weight *= self._share_of_threads(test)
                self._branches(body, other)
                self._is_guarded, self._weight = before
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                self._expression(value)

    def _branches(self, body: list[ast.stmt], other: list[ast.stmt]) -> None:
        """Count the dearer of two sides."""
        before = dict(self._values)
        start = self._counter.operations
        self._statements(body)
        first = self._counter.operations - start
        after, self._values = self._values, before
        self._statements(other)
        second = self._counter.operations - start - first
        self._counter.operations = start + max(first, second)
        for name, value in after.items():
            known = self._values.get(name)
            self._values[name] = value if known is None or known == value else LOADED

    def _for(self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]) -> None:
        trips = self._trips(iterable)
        if trips is None:
            self._counter.has_unknown_loop = True
            trips = self._counter.unknown_trips
        self._expression(iterable)
        start = UNIFORM
        if isinstance(iterable, ast.Call) and iterable.args:
            first = iterable.args[0] if len(iterable.args) > 1 else None
            if first is not None:
                start = self._value(first)
        if isinstance(target, ast.Name):
            step = self._step(iterable)
            self._values[target.id] = start.advancing(step)
        self._in_loop(body, self._weight * max(trips, 0), None)

    def _in_loop(self, body: list[ast.stmt], weight: float, test: ast.expr | None) -> None:
        counter, outer, self._weight = self._counter, self._weight, weight
        before, was_in_loop = counter.computed, counter.is_in_loop
        counter.is_in_loop = True
        counter.rounds += weight
        for name in _advanced_names(body):
            self._values[name] = self._values.get(name, UNIFORM).advancing(None)
        if test is not None:
            self._expression(test)
        self._statements(body)
        self._weight, counter.is_in_loop = outer, was_in_loop
        if not was_in_loop:
            counter.loop_operations += counter.computed - before

    def _trips(self, iterable: ast.expr) -> float | None:
        if not (
            isinstance(iterable, ast.Call)
            and isinstance(iterable.func, ast.Name)
            and iterable.func.id in ("range", "prange")
        ):
            return None
        bounds = [self._integer(argument) for argument in iterable.args]
        if len(bounds) == 3 and bounds[0] is None:
            # From each thread's own place on: what the threads of a block share, on average.
            start = self._value(iterable.args[0]).constant
            _, stop, step = bounds
            return max(0.0, (stop - start) / step) if start is not None and stop and step else None
        if any(bound is None for bound in bounds):
            return None
        return float(len(range(*[bound for bound in bounds if bound is not None])))

    def _halvings(self, test: ast.expr, body: Sequence[ast.stmt]) -> float | None:
        """Rounds of ``while step > 0: … step //= 2``."""
        if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name)):
            return None
        start = self._integer(test.left)
        for statement in body:
            if (
                isinstance(statement, ast.AugAssign)
                and isinstance(statement.target, ast.Name)
                and statement.target.id == test.left.id
                and isinstance(statement.op, ast.FloorDiv | ast.RShift)
                and start is not None
            ):
                return float(max(start, 0).bit_length())
        return None

    def _share_of_threads(self, test: ast.expr) -> float:
        """The share of a block's threads for which ``if t == 0`` holds; 1 for other conditions."""
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

    def _step(self, iterable: ast.expr) -> int | None:
        """By how much a loop's variable grows with each round."""
        if not isinstance(iterable, ast.Call) or len(iterable.args) < 3:
            return 1
        return self._integer(iterable.args[2])

    def _integer(self, node: ast.expr) -> int | None:
        """The value of an expression that is a constant of the source."""
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name) if name in self._unit.constants:
                value = self._unit.constants[name].value
                return int(value) if isinstance(value, (int, np.integer)) else None
            case ast.Name(id=name) if name in self._values:
                form = self._values[name]
                return form.constant if form.is_uniform else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self._integer(operand)
                return None if found is None else -found
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                first, second = self._integer(left), self._integer(right)
                if first is None or second is None:
                    return None
                try:
                    return _ARITHMETIC[type(op)](first, second)
                except ZeroDivisionError:
                    return None
        return None

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
        """The index along one of `count` axes of ``grid``."""
        return IndexForm.axis(count - 1 - axis if self._counter.x_is_last else axis)

    def _expression(self, node: ast.expr) -> IndexForm:
        """Count what an expression does, and say what is known of its value."""
        match node:
            case ast.Subscript() if not is_extent(node):
                return self._access(node, is_store=False)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._expression(left), self._expression(right)
                self._count_operation(op)
                return self._operate(op, first, second, left, right)
            case ast.UnaryOp(operand=operand):
                found = self._expression(operand)
                if isinstance(node.op, ast.USub):
                    return found.times(-1)
                return found
            case ast.Compare(left=left, comparators=others):
                for each in (left, *others):
                    self._expression(each)
                self._counter.operations += self._weight * len(others)
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
                self._counter.operations += self._weight
                return first if first == second else LOADED
            case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
                for each in values:
                    self._expression(each)
                return UNIFORM
        return UNIFORM

    def _value(self, node: ast.expr) -> IndexForm:
        """What is known of a value, without counting it again."""
        saved = self._counter
        self._counter = _Counter(saved.x_is_last, saved.unknown_trips, saved.block_dim)
        try:
            return self._expression(node)
        finally:
            self._counter = saved

    def _operate(
        self,
        op: ast.operator,
        first: IndexForm,
        second: IndexForm,
        left: ast.expr | None,
        right: ast.expr | None,
    ) -> IndexForm:
        match op:
            case ast.FloorDiv() if first.is_uniform and first.constant is not None:
                divisor = None if right is None else self._integer(right)
                return IndexForm(constant=first.constant // divisor if divisor else None)
            case ast.Add():
                return first.plus(second)
            case ast.Sub():
                return first.plus(second.times(-1))
            case ast.Mult() if second.is_uniform:
                factor = self._integer(right) if right is not None else None
                return first.times(factor)
            case ast.Mult() if first.is_uniform:
                factor = self._integer(left) if left is not None else None
                return second.times(factor)
            case ast.FloorDiv() | ast.RShift() if second.is_uniform:
                return LOADED if first.is_loaded else UNIFORM  # neighbours mostly agree
            case ast.Mod() | ast.BitAnd() if second.is_uniform:
                return first  # contiguous, piece by piece
        if first.is_uniform and second.is_uniform:
            return UNIFORM
        return LOADED

    def _count_operation(self, op: ast.operator) -> None:
        if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow):
            self._counter.divisions += self._weight
        else:
            self._counter.operations += self._weight

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
                    self._counter.shared_atomics += self._weight
                target = ast.Subscript(base, node.args[1], ast.Store())
                self._access(target, is_store=True, is_atomic=True)
                return LOADED
            if Effect.BLOCK_BARRIER in use.intrinsic.effect:
                self._counter.barriers += self._weight
            if use.intrinsic.name.startswith("blockDim.") and self._counter.block_dim:
                place = "xyz".index(use.intrinsic.name[-1])
                return IndexForm(constant=self._counter.block_dim[place])
            for argument in node.args:
                self._expression(argument)
            return LOADED if use.intrinsic.name == "laneid" else UNIFORM
        callee = self._unit.callee_of(node)
        if callee is not None and self._depth < _MAX_DEPTH and not node.keywords:
            return self._enter(callee, node)
        found = [self._expression(argument) for argument in node.args]
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in _CONVERSIONS and found:
            return found[0]
        if name in ("min", "max", "abs", "fabs", "range", "len", "fma"):
            self._counter.operations += self._weight * max(len(node.args) - 1, 0)
            return found[0] if name in ("min", "max") and found else UNIFORM
        if name in ("sqrt", "rsqrt"):
            self._counter.divisions += self._weight
        else:
            self._counter.functions += self._weight
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
            parts = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            chain = [*parts, *chain]
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
        """What is known of an index; its arithmetic is address computation, and not counted."""
        counter = self._counter
        operations, divisions = counter.operations, counter.divisions
        found = self._expression(node)
        counter.operations, counter.divisions = operations, divisions
        return found


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CONVERSIONS = frozenset(
    {"int", "float", "bool", "uniform", *(np.dtype(c).name for c in "bhilqBHILQefd")}
)


def _is_bound(test: ast.expr) -> bool:
    """Whether a condition only says that an index is below a length, which launches check."""
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
    """Names that a loop's body moves on by an augmented assignment."""
    return {
        node.target.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
