"""Count what a kernel does for one index: its accesses, its operations, its loops and branches.

It is one walk over the regions of a kernel as it was read, before any pass. Indices are sums of
atoms (:mod:`kerneldsl.ir.linear_forms`). Atoms grow with the axes of a block and of ``grid``, and
with rounds of loops (:mod:`kerneldsl.ir.linear_forms`).
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from numba import types

from kerneldsl.analysis.index_forms import LOADED, UNIFORM, IndexForm
from kerneldsl.analysis.work import BranchWork, KernelWork, LoopWork, Place, RegionWork
from kerneldsl.contract.findings import numbered
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.guard import find_guard
from kerneldsl.ir.linear_forms import GrowthForms
from kerneldsl.ir.loop_trips import trips_of
from kerneldsl.ir.operation_classes import class_of, joins_conditions
from kerneldsl.ir.operations import (
    CONTROL,
    Effect,
    Function,
    Operation,
    Region,
    Value,
    carried_arguments,
    ends_of,
    given_to,
    handed_on,
)
from kerneldsl.ir.recognize import (
    both_of,
    constant_number,
    indices_of,
    operator_of,
    slice_bounds,
    sources_of,
)
from kerneldsl.language.intrinsics.intrinsic import ARRAY_ACCESS, Scope
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect

__all__ = ["count_work"]

#: Relations that bound an index.
_BELOW = (operator.lt, operator.le)
_RELATIONS = (*_BELOW, operator.gt, operator.ge)
#: Operations that are expensive even in address computations.
_DIVISIONS = ("div", "mod", "pow")


def count_work(function: Function, *, block_dim: tuple[int, int, int] | None = None) -> KernelWork:
    """Count what a kernel does for one index.

    - `function`: the kernel as it was read.
    - `block_dim`: threads of a block, if they are known. Then loops over them have known lengths,
      and what one thread of a block does counts as its share.
    """
    region = _Counter(function, block_dim).region(function.body, is_guarded=False)
    return KernelWork(region, tuple(numbered(function.wide_stores, function.unit)))


class _Counter:
    def __init__(self, function: Function, block_dim: tuple[int, int, int] | None) -> None:
        self.forms = GrowthForms(function, block_dim)
        guard = find_guard(function)
        #: Branches that threads with several items test once.
        self.guard = frozenset(() if guard is None else guard.branches)
        #: Position of each parameter, and of the arrays that loops carry.
        self.parameters = {value: number for number, value in enumerate(function.body.arguments)}
        self.given: dict[Value, Value] = {}
        self.addresses = _addresses(function.body)
        self.places: dict[Any, int] = {}

    def region(self, region: Region, *, is_guarded: bool) -> RegionWork:
        """Count what a region does."""
        count = _RegionCount()
        self.operations(region.operations, count, is_guarded=is_guarded)
        return count.finished()

    def operations(
        self, operations: Sequence[Operation], count: _RegionCount, *, is_guarded: bool
    ) -> None:
        for operation in operations:
            match operation.name:
                case "if":
                    self.branch(operation, count, is_guarded=is_guarded)
                case "for" | "for_each" | "while":
                    count.steps.append(self.loop(operation, is_guarded=is_guarded))
                case _:
                    self.operation(operation, count, is_guarded=is_guarded)
                    for region in operation.regions:
                        self.operations(region.operations, count, is_guarded=is_guarded)

    def operation(self, operation: Operation, count: _RegionCount, *, is_guarded: bool) -> None:
        self.count_class(operation, count)
        use = operation.attributes.get("use")
        if isinstance(use, IntrinsicUse):
            if use.intrinsic.synchronizes(Scope.BLOCK):
                count.barriers += 1
            if LanguageEffect.ATOMIC in use.intrinsic.effect:
                array, index = operation.operands[:2]
                place = self.place(array, index, is_store=True, is_guarded=is_guarded)
                if place is None:
                    count.shared_atomics += 1
                else:
                    count.steps.append(place._replace(is_atomic=True))
            return
        for array, indices, is_store in _accesses(operation):
            place = self.place(array, *indices, is_store=is_store, is_guarded=is_guarded)
            if place is not None:
                count.steps.append(place)

    def count_class(self, operation: Operation, count: _RegionCount) -> None:
        """Count an operation, unless it is a part of an address."""
        kind = class_of(operation)
        if kind is None:
            return
        is_address = any(result in self.addresses for result in operation.results)
        if not is_address or kind.name in _DIVISIONS or "use" in operation.attributes:
            count.operations[kind.name] += kind.times

    # -- control ----------------------------------------------------------------------------------

    def branch(self, operation: Operation, count: _RegionCount, *, is_guarded: bool) -> None:
        if joins_conditions(operation):
            for region in operation.regions:
                self.operations(region.operations, count, is_guarded=is_guarded)
            return
        self.count_class(operation, count)
        condition = operation.operands[0]
        is_guarded |= operation not in self.guard and not self.is_bound(condition)
        yes, no = (self.region(each, is_guarded=is_guarded) for each in operation.regions)
        if yes != _NOTHING and self.is_below_length(condition):
            no = _NOTHING  # a few threads do it, at the end of an array
        if yes != _NOTHING or no != _NOTHING:
            count.steps.append(BranchWork(self.share_of_threads(condition), yes, no))

    def is_bound(self, condition: Value) -> bool:
        """Return whether a condition only bounds an index, by a length or another number."""
        made = condition.owner
        if not isinstance(made, Operation):
            return False
        if made.name == "const":
            return made.attributes["value"] is True
        if (both := both_of(condition)) is not None:
            return all(map(self.is_bound, both))
        if operator_of(made) not in _RELATIONS:
            return False
        if not all(isinstance(each.type, types.Integer) for each in made.operands):
            return False
        forms = [self.forms.of(each) for each in made.operands]
        is_index = any(not form.is_uniform for form in forms)
        return (
            is_index
            and any(form.is_uniform for form in forms)
            and not any(form.is_loaded for form in forms)
        )

    def is_below_length(self, condition: Value) -> bool:
        """Return whether a condition only bounds an index by lengths of arrays, from above."""
        made = condition.owner
        if not isinstance(made, Operation) or not self.is_bound(condition):
            return False
        if (both := both_of(condition)) is not None:
            return any(map(self.is_below_length, both))
        if operator_of(made) not in _RELATIONS:
            return False
        _, large = made.operands if operator_of(made) in _BELOW else reversed(made.operands)
        return self.forms.of(large).is_uniform and any(map(_is_length, sources_of([large])))

    def share_of_threads(self, condition: Value) -> float:
        """Return the share of threads for which ``t == 0`` holds; 1 for other conditions."""
        made, block_dim = condition.owner, self.forms.block_dim
        if block_dim is None or not isinstance(made, Operation):
            return 1.0
        if operator_of(made) is not operator.eq:
            return 1.0
        thread, number = map(self.forms.of, made.operands)
        is_of_one = thread.along_x == 1 and number.is_uniform
        return 1.0 / math.prod(block_dim) if is_of_one else 1.0

    def loop(self, operation: Operation, *, is_guarded: bool) -> LoopWork:
        forms, trips = self.forms, trips_of(operation, self.forms.of)
        body = operation.regions[-1]
        first = len(body.arguments) - len(operation.results)
        if operation.name == "for":
            start, _, step = operation.operands[:3]
            # A loop over the threads of a block goes past those of the others.
            forms.known[body.arguments[0]] = forms.of(start).advancing(constant_number(step))
        else:
            forms.known.update(dict.fromkeys(body.arguments[:first], UNIFORM.advancing(None)))
        self.carry(operation)
        count = _RegionCount()
        for region in operation.regions:
            self.operations(region.operations, count, is_guarded=is_guarded)
        return LoopWork(trips, count.finished())

    def carry(self, operation: Operation) -> None:
        """Find how the variables of a loop grow with its rounds."""
        body, given = operation.regions[-1], given_to(operation)
        regions = carried_arguments(operation)
        starts = list(map(self.forms.of, given))
        for arguments in regions:
            self.given.update(zip(arguments, given, strict=True))
        if not given or body.is_left:
            return
        found = [
            start if end is argument else start.advancing(None)
            for start, argument, end in zip(starts, regions[-1], body.yielded, strict=True)
        ]
        self.set_carried(operation, found)
        ends = list(map(self.forms.of, body.yielded))
        for region in operation.regions:
            self.forms.forget(region)
        found = [LOADED if end.is_loaded else each for each, end in zip(found, ends, strict=True)]
        self.set_carried(operation, found)

    def set_carried(self, operation: Operation, found: list[IndexForm]) -> None:
        for arguments in carried_arguments(operation):
            self.forms.known.update(zip(arguments, found, strict=True))

    # -- accesses ---------------------------------------------------------------------------------

    def place(
        self, array: Value, *indices: Value, is_store: bool, is_guarded: bool
    ) -> Place | None:
        """Return the place of an access, ``None`` if it is of no parameter's array."""
        parts = [part for each in indices for part in _parts_of(each)]
        index, members = [self.part(each) for each in parts], list[int]()
        while (parameter := self.parameters.get(array)) is None:
            made = array.owner
            if array in self.given:
                array = self.given[array]
                continue
            if not isinstance(made, Operation) or not made.operands:
                return None
            match made.name:
                case "array.part":
                    index = [*map(self.part, made.operands[1:]), *index]
                case "array.view":
                    index = self.viewed(made, index)
                case "array.transpose":
                    index.reverse()
                case "view" if index:
                    index[-1] = index[-1].times(len(made.result.type.dtype.fields))
                case name if name in CONTROL:
                    sources = handed_on(made)[made.results.index(array)].sources
                    if not sources:
                        return None
                    array = sources[0]
                    continue
                case "tuple.member":
                    members.append(made.attributes["number"])
                case "cast":
                    pass
                case _:
                    return None
            array = made.operands[0]
        if not index:
            return None
        key = (parameter, *members, *(part.key for part in index))
        number = self.places.setdefault(key, len(self.places))
        forms = tuple(part.form for part in index)
        return Place(number, parameter, forms, is_store, is_guarded=is_guarded)

    def part(self, value: Value) -> _Part:
        """Return an index along one axis."""
        return _Part(self.forms.of(value), self.forms.key(value))

    def viewed(self, view: Operation, index: list[_Part]) -> list[_Part]:
        """Return the indices of an array for those of a view of it."""
        rest, found = index[::-1], list[_Part]()
        array, *given = view.operands
        for each in given:
            if isinstance(each.type, types.Integer):
                found.append(self.part(each))
            elif isinstance(each.type, types.EllipsisType):
                others = sum(not isinstance(v.type, types.NoneType) for v in given) - 1
                found += [rest.pop() for _ in range(array.type.ndim - others) if rest]
            elif rest:
                part = rest.pop()
                if isinstance(each.type, types.SliceType):
                    found.append(self.sliced(each, part))
        return [*found, *rest[::-1]]

    def sliced(self, value: Value, part: _Part) -> _Part:
        """Return the index of an array for one of a slice of it."""
        bounds = slice_bounds(value)
        if not bounds:
            return _Part(part.form.plus(UNIFORM), (self.forms.key(value), part.key))
        start, *others = bounds
        form = part.form
        if len(others) == 2 and isinstance(others[1].type, types.Integer):
            form = form.times(self.forms.of(others[1]).number)
        if isinstance(start.type, types.Integer):
            form = form.plus(self.forms.of(start))
        return _Part(form, (*map(self.forms.key, bounds), part.key))


class _Part(NamedTuple):
    """An index along one axis of an array."""

    form: IndexForm
    #: Key that is equal for equal indices.
    key: Any

    def times(self, count: int) -> _Part:
        """Return the index of the first of the numbers that a vector has."""
        return _Part(self.form.times(count), (count, self.key))


class _RegionCount:
    """Counts of a region so far."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.steps: list[Place | LoopWork | BranchWork] = []
        self.barriers = self.shared_atomics = 0

    def finished(self) -> RegionWork:
        steps = tuple(self.steps)
        return RegionWork(dict(self.operations), steps, self.barriers, self.shared_atomics)


_NOTHING = RegionWork({})


def _is_length(value: Value) -> bool:
    made = value.owner
    return isinstance(made, Operation) and made.name in ("array.size", "array.extent")


def _accesses(operation: Operation) -> Iterator[tuple[Value, list[Value], bool]]:
    """Yield the array, the indices, and whether it is written, of each access of an operation."""
    operands = operation.operands
    match operation.name:
        # An element of a record array is only an address.
        case "array.load" if not isinstance(operation.result.type, types.Record):
            yield operands[0], operands[1:], False
        case "packed.load":
            yield operands[0], operands[1:], False
        case "array.store":
            yield operands[0], operands[1:-1], True
        case "attribute" | "item" | "item.set":
            record = operands[0].owner
            if isinstance(record, Operation) and record.name == "array.load":
                yield record.operands[0], record.operands[1:], operation.name.endswith(".set")
        case "numba" if isinstance(operands[0].type if operands else None, types.Array):
            function = operator_of(operation)
            if function in (operator.getitem, operator.setitem):
                yield operands[0], operands[1:2], function is operator.setitem


def _parts_of(index: Value) -> list[Value]:
    """Return the indices along the axes of an array, also of a tuple of them."""
    made = index.owner
    if isinstance(made, Operation) and made.name == "tuple.make":
        return made.operands
    return [index]


# -- values and addresses -------------------------------------------------------------------------


def _addresses(body: Region) -> set[Value]:
    """Return the values that are only parts of addresses."""
    results: dict[Operation, list[Value]] = {}
    operations = list(body.walk())
    for each in operations:
        if each.name in ("if", "labeled"):
            results.update((end, each.results) for end in ends_of(each))
    needed, found = set[Value](), set[Value]()

    def use(operands: Iterable[Value], *, in_address: bool) -> None:
        (found if in_address else needed).update(operands)

    for each in reversed(operations):
        if each in results:
            for value, result in zip(each.operands, results[each], strict=True):
                use([value], in_address=result in found and result not in needed)
        elif indices := _indices_of(each):
            use(indices, in_address=True)
            use((value for value in each.operands if value not in indices), in_address=False)
        else:
            is_used = not found.isdisjoint(each.results) and needed.isdisjoint(each.results)
            use(each.operands, in_address=is_used and _is_of_address(each))
    return found - needed


def _indices_of(operation: Operation) -> list[Value]:
    """Return the operands that are indices."""
    use = operation.attributes.get("use")
    is_access = isinstance(use, IntrinsicUse) and use.intrinsic.effect & ARRAY_ACCESS
    return operation.operands[1:2] if is_access else indices_of(operation)


def _is_of_address(operation: Operation) -> bool:
    """Return whether an operation only computes values, which may be parts of addresses."""
    if operation.name == "if":
        return not operation.effects() & ~Effect.READ
    is_pure = operation.effect & ~Effect.READ == Effect.NONE
    return is_pure and operation.name in ("numba", "cast", "tuple.make", "tuple.member")
