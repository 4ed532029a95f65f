"""Split rows into parts in which all indices take the same way.

Indices of neighbours are clamped, ``a[min(max(i, 0), n - 1)]``, mirrored or periodic,
``a[(i + 1) % n]`` and ``a[i - 1 if i > 0 else n - 1]``. Between the ends of a row they are plain
sums, so that a version of its body without these tests reads plain vectors. Its ends, and all of
it if that is not known, run the body as it is.

If the last branch of a row of elements depends on the index, parts of the row have a version for
each way. Of a long row of threads this can be any branch.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.recognize import constant_number, indices_of, operands_of, operator_of
from kerneldsl.ir.rewriter import clone, if_then
from kerneldsl.ir.simplify import simplify
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, NOT_VECTORIZED
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.index_forms import SMALL, Bounds, Comparison, Form, IndexForms
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_regions import replace_rows, row_with_body

__all__ = ["as_a_whole", "in_parts"]

#: A longer body is not worth compiling twice.
_MOST_OPERATIONS = 250
#: Iterations from which parts of a row with bounds that are variables are worth their tests.
_LONG = 128
_INDEXED = ("array.load", "array.store", "array.part", "packed.load")
#: Comparison of the index with a limit for which ``min`` or ``max`` of both is the index.
_RELATIONS = {min: operator.le, max: operator.ge}


def in_parts(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row of elements in parts, or as it is."""
    (region,) = row.regions
    if {"rare", "marks"} & row.attributes.keys() or sum(
        1 for _ in region.walk()
    ) > _MOST_OPERATIONS:
        return [row]
    inside = row.defined()
    last = region.operations[:-1][-1:]
    proof = _Proof(region, IndexForms(region.arguments[0], inside, known))
    proof.find()
    if proof.changes:
        out: list[Operation] = []
        inner = proof.version(out)
        return [*out, *_parts(row_with_body(row, inner), row, proof.bounds)]
    if last and _is_choice(last[0]):
        return _by_branch(row, last[0], IndexForms(region.arguments[0], inside, known)) or [row]
    return [row]


def as_a_whole(
    row: Operation, known: Mapping[Value, Interval], *after: Operation
) -> list[Operation]:
    """Return a row of threads in parts, or with a version for rows that pass all guards.

    Rows `after` it are in both versions: they are all that needs what its lanes keep.
    """
    (region,) = row.regions
    operations = list(region.walk())
    # Values that lanes keep are in registers if all rows of a strip are vectors.
    keeps_values = not after and any(map(_is_in_register, operations))
    if "rare" in row.attributes or keeps_values or len(operations) > _MOST_OPERATIONS:
        return [row, *after]
    forms = IndexForms(region.arguments[0], row.defined(), known)
    # Parts run one after the other, the middle of a row first.
    is_in_order = any("in_order" in each.attributes for each in operations)
    is_split = not after and not _is_short(row) and not is_in_order
    choices = [each for each in region.operations if _chooses_accesses(each, forms)]
    if is_split and len(operations) << len(choices) <= _MOST_OPERATIONS:
        for each in choices:
            if found := _by_branch(row, each, forms):
                parts = Region((), found)
                replace_rows(parts, partial(as_a_whole, known=known))
                return parts.operations
    choice = choices[0] if len(choices) == 1 else None
    none = forms.bounds_of(choice.operands[0], truth=False) if choice is not None else None
    proof = _Proof(region, forms, takes_guards=True)
    proof.find()
    if not proof.changes:
        return [row, *after]
    out: list[Operation] = []
    inner = proof.version(out)
    careful, plain = row_with_body(row, region), row_with_body(row, inner)
    if proof.plain:
        # Elements at clamped indices would be gathered, which takes longer than to load each.
        careful.attributes["marks"] = (NOT_UNROLLED, NOT_VECTORIZED)
    if is_split:
        return [*out, *_parts(plain, careful, proof.bounds)]
    rest = [careful, *after]
    if after and choice is not None and none is not None:
        rest = _if_all_within(none, [_on_way(row, choice, 1), *_copies(after)], rest)
    return [*out, *_if_all_within(proof.bounds, [plain, *_copies(after)], rest)]


def _copies(operations: Iterable[Operation]) -> list[Operation]:
    return [clone(each, {}) for each in operations]


def _if_all_within(bounds: Bounds, rows: list[Operation], rest: list[Operation]) -> list[Operation]:
    """Return what runs rows if all of the first one is within bounds, and else the rest."""
    out: list[Operation] = []
    make = LoopWriter(out)
    low, high = rows[0].operands
    lows, highs = bounds.write_limits(make)
    tests = bounds.write_assumptions(make) + bounds.write_conditions(make)
    tests += [make.numba(operator.le, each, low) for each in lows]
    tests += [make.numba(operator.le, high, each) for each in highs]
    out.append(if_then(make.all(tests), rows, rest))
    return out


def _is_in_register(operation: Operation) -> bool:
    """Return whether an operation accesses what so few lanes keep that registers hold it."""
    if operation.name not in ("lane.load", "lane.store"):
        return False
    place = operation.operands[0].owner
    assert isinstance(place, Operation)
    from targets.cpu.regions.lanes.values import IN_REGISTERS

    return bool(place.attributes["threads"] <= IN_REGISTERS)


def _is_choice(operation: Operation) -> bool:
    yes, no = operation.regions if operation.name == "if" else (Region(), Region())
    return (
        not operation.results
        and len(yes.operations) > 1
        and len(no.operations) > 1
        and not (yes.is_left or no.is_left)
    )


def _is_short(row: Operation) -> bool:
    """Return whether a row has few iterations, a number that is known when it is compiled."""
    low, high = map(constant_number, row.operands)
    return low is not None and high is not None and high - low < _LONG


def _chooses_accesses(operation: Operation, forms: IndexForms) -> bool:
    """Return whether a branch that iterations take differently chooses elements that are used."""
    return (
        operation.name == "if"
        and not forms.is_shared(operation.operands[0])
        and not any(region.is_left for region in operation.regions)
        and any(each.name in _INDEXED for region in operation.regions for each in region.walk())
    )


def _on_way(row: Operation, branch: Operation, number: int) -> Operation:
    """Return a copy of a row that takes one way of a branch in it."""
    (region,) = row.regions
    copy = Region((types.int64,))
    copy.arguments[0].name = region.arguments[0].name
    values: dict[Value, Value] = {region.arguments[0]: copy.arguments[0]}
    for each in region.operations:
        if each is not branch:
            copy.operations.append(clone(each, values))
            continue
        chosen = branch.regions[number]
        copy.operations += [clone(inner, values) for inner in chosen.operations[:-1]]
        for result, value in zip(branch.results, chosen.yielded, strict=True):
            values[result] = values.get(value, value)
    simplify(copy)
    return row_with_body(row, copy)


def _by_branch(row: Operation, branch: Operation, forms: IndexForms) -> list[Operation] | None:
    """Return a row in parts that take one way each at a branch; ``None`` if that is no bound.

    Without this, vectors would load and store under masks, element by element.
    """
    for number in (0, 1):
        bounds = forms.bounds_of(branch.operands[0], truth=not number)
        if bounds is None:
            continue
        inner, outer = (_on_way(row, branch, each) for each in (number, 1 - number))
        assumed, bounds.assumed = bounds.assumed, []
        parts = _parts(inner, outer, bounds)
        if not assumed:
            return parts
        bounds.assumed = assumed
        out: list[Operation] = []
        make = LoopWriter(out)
        test = make.all(bounds.write_assumptions(make))
        careful = clone(row, {})
        careful.attributes["rare"] = True
        out.append(if_then(test, parts, [careful]))
        return out
    return None


def _parts(inner: Operation, outer: Operation, bounds: Bounds) -> list[Operation]:
    """Return a row that is one row within bounds, and another one at its ends."""
    out: list[Operation] = []
    make = LoopWriter(out)
    low, high = inner.operands
    begin, end = bounds.write_within(make, low, high)
    # An empty middle if it is not known that indices are within the axis.
    begin = make.smaller(begin, high)
    end = make.larger(end, begin)
    tests = [*bounds.write_assumptions(make), *bounds.write_conditions(make)]
    if tests:
        test = make.all(tests)
        begin, end = make.select(test, begin, high), make.select(test, end, high)
    out.append(row_with_body(inner, inner.regions[0], (begin, end)))
    # The two ends of the row share the code of one loop.
    sides = Region((types.int64,))
    ends: list[Operation] = []
    side = LoopWriter(ends)
    is_left = side.numba(operator.eq, sides.arguments[0], side.constant(0))
    first, last = side.select(is_left, low, end), side.select(is_left, begin, high)
    sides.operations = [
        *ends,
        row_with_body(outer, outer.regions[0], (first, last)),
        Operation("yield", []),
    ]
    numbers = [make.constant(each) for each in (0, 2, 1)]
    out.append(Operation("for", numbers, (), {"sides": 2}, [sides]))
    return out


@dataclass
class _Proof:
    """Finds what the ends of a row prove, and writes the version of its body in which it holds."""

    region: Region
    forms: IndexForms
    #: Whether branches that choose no index are taken, too.
    takes_guards: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    #: Branches, and the number of the region that is taken.
    taken: dict[Operation, int] = field(default_factory=dict)
    #: Values that are the index plus a value that all iterations share.
    plain: dict[Value, Form] = field(default_factory=dict)
    changes: bool = False

    def find(self) -> None:
        self.indices = _values_of_indices(self.region)
        self.places = _Places()
        self.operations(self.region)

    def operations(self, region: Region) -> None:
        for operation in region.operations:
            match operation.name:
                case "if" if operation.results:
                    self.branch(operation)
                case "if":
                    self.guard(operation)
                case "numba" if operation.results and operation.result in self.indices:
                    self.limits(operation)

    def proves(self, bounds: Bounds | None) -> bool:
        """Record what must hold, if the ends of a row, or the row as a whole, can prove it."""
        if bounds is None or _is_one_index(bounds):
            return False
        self.bounds.add(bounds)
        return True

    def branch(self, operation: Operation) -> None:
        is_index = not self.indices.isdisjoint(operation.results)
        condition = operation.operands[0]
        for number, region in enumerate(operation.regions):
            if region.is_left:
                continue
            if not self.takes_guards and not self.places.has(condition, self.forms):
                continue
            if not is_index and (number or not self.chooses(operation)):
                continue
            if is_index and not self.is_varying(operation, number):
                continue
            found = self.forms.bounds_of(condition, truth=not number, is_enough=True)
            if self.proves(found):
                self.take(operation, number)
                return
        for region in operation.regions:
            self.operations(region)

    def guard(self, operation: Operation) -> None:
        """Take what a branch does under a condition, if that is all it does."""
        yes, no = operation.regions
        is_alone = self.takes_guards and len(no.operations) == 1 and not yes.is_left
        if is_alone and self.proves(self.forms.bounds_of(operation.operands[0], is_enough=True)):
            self.take(operation, 0)
            return
        for region in operation.regions:
            self.operations(region)

    def take(self, operation: Operation, number: int) -> None:
        """Take one region of a branch."""
        self.taken[operation] = number
        region = operation.regions[number]
        self.operations(region)
        for result, value in zip(operation.results, region.yielded, strict=True):
            self.forms.same[result] = self.forms.same.get(value, value)
        self.changes |= not self.forms.is_shared(operation.operands[0])

    def is_varying(self, operation: Operation, number: int) -> bool:
        """Return whether a way of a branch gives an index that differs along the row.

        As in ``0 if i < 1 else i - 1``: most elements get the latter.
        """
        mine, other = operation.regions[number], operation.regions[1 - number]
        pairs = zip(mine.yielded, other.yielded or mine.yielded, strict=True)
        return any(not self.forms.is_shared(one) or self.forms.is_shared(two) for one, two in pairs)

    def chooses(self, operation: Operation) -> bool:
        """Return whether a branch chooses if an element is read that differs along the row."""
        return self.takes_guards or (
            not any(value.type == types.boolean for value in operation.results)
            and any(
                each.name == "array.load"
                and not all(self.forms.is_shared(value) for value in each.operands[1:])
                for each in operation.regions[0].walk()
            )
        )

    def limits(self, operation: Operation) -> None:
        """Take the index in the place of its minimum or maximum with a limit, or its remainder."""
        operands = operands_of(operation)
        function = operator_of(operation)
        if len(operands) != 2 or operation.result.type != types.int64:
            return
        forms = [self.forms.form(each) for each in operands]
        if None in forms:
            return
        one, two = forms
        assert one is not None
        assert two is not None
        if function is operator.mod:
            self.remainder(operation, one, two)
        elif function in _RELATIONS and (not one.factor) != (not two.factor):
            index, limit = (one, two) if one.factor else (two, one)
            test = Comparison(_RELATIONS[function], index, limit)
            if self.proves(self.forms.compared(test)):
                self.set(operation, index)

    def remainder(self, operation: Operation, value: Form, extent: Form) -> None:
        """Take the dividend in the place of a remainder.

        Programs add the extent once, to an index that may be -1: of ``(i - 1 + n) % n`` it is
        ``i - 1``.
        """
        if extent.factor or not value.factor:
            return
        inner = value
        tests = []
        if extent.terms and all(value.terms.get(v) == f for v, f in extent.terms.items()):
            inner = value.plus(extent, -1)
            most = Form(0, {}, SMALL)  # the sum does not wrap
            tests.append(Comparison(operator.le, extent, most))
        nothing = Form(0, {}, 0)
        tests += [Comparison(operator.le, nothing, inner), Comparison(operator.lt, inner, extent)]
        found = [self.forms.compared(each) for each in tests]
        if None in found:
            return
        for each in found:
            self.proves(each)
        self.set(operation, inner)

    def set(self, operation: Operation, form: Form) -> None:
        self.plain[operation.result] = form
        self.forms._forms[operation.result] = form
        self.changes = True

    # -- the version ------------------------------------------------------------------------------

    def version(self, out: list[Operation]) -> Region:
        """Return the body in which it holds; `out` gets what is computed before the row."""
        make = LoopWriter(out)
        self.rests = {value: form.rest.write(make) for value, form in self.plain.items()}
        copy = Region((types.int64,))
        copy.arguments[0].name = self.region.arguments[0].name
        self.values: dict[Value, Value] = {self.region.arguments[0]: copy.arguments[0]}
        copy.operations = self.copied(self.region)
        simplify(copy)
        return copy

    def copied(self, region: Region) -> list[Operation]:
        out: list[Operation] = []
        for operation in region.operations:
            number = self.taken.get(operation)
            if number is not None:
                chosen = operation.regions[number]
                out += self.copied(chosen)[:-1]
                for result, value in zip(operation.results, chosen.yielded, strict=True):
                    self.values[result] = self.values.get(value, value)
            elif operation.results and operation.results[0] in self.plain:
                self.values[operation.result] = self.index_of(operation.result, out)
            elif operation.name == "if":
                out.append(self.copied_branch(operation))
            else:
                made = clone(operation, self.values)
                self.mark(operation, made)
                out.append(made)
        return out

    def copied_branch(self, operation: Operation) -> Operation:
        regions = [Region((), self.copied(region)) for region in operation.regions]
        return clone(operation, self.values, regions)

    def index_of(self, value: Value, out: list[Operation]) -> Value:
        form = self.plain[value]
        index, rest = self.values[self.region.arguments[0]], self.rests[value]
        make = LoopWriter(out)
        if form.factor < 0:
            return make.numba(operator.sub, rest, index)
        if not form.terms and not form.constant:
            return index
        return make.numba(operator.add, index, rest)

    def mark(self, old: Operation, new: Operation) -> None:
        """Mark plain indices as not negative, if the ends of a row prove it."""
        marks = old.attributes.get("nonnegative")
        if marks is None or all(marks):
            return
        found = []
        for value, is_marked in zip(old.operands[1:], marks, strict=False):
            source = self.forms.same.get(value, value)
            is_plain = source in self.plain or source is not value
            if not is_marked and is_plain and (form := self.forms.form(value)) is not None:
                test = Comparison(operator.ge, form, Form(0, {}, 0))
                is_marked = self.proves(self.forms.compared(test))
            found.append(is_marked)
        new.attributes["nonnegative"] = tuple(found)


def _is_one_index(bounds: Bounds) -> bool:
    """Return whether bounds let one index alone pass."""
    return any((one, two, 1) in bounds.highs for one, two, more in bounds.lows if not more)


def _values_of_indices(region: Region) -> set[Value]:
    """Return the values on which indices depend, with results of branches."""
    pending = [
        value for each in region.walk() if each.name in _INDEXED for value in indices_of(each)
    ]
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        made = value.owner
        if value in found or not isinstance(made, Operation):
            continue
        found.add(value)
        if made.name == "if":
            number = made.results.index(value)
            pending += [r.yielded[number] for r in made.regions if not r.is_left]
        elif made.name in ("numba", "cast", "tuple.make", "tuple.member"):
            pending += made.operands
    return found


class _Places:
    """Values that differ between the elements of an array."""

    def __init__(self) -> None:
        self._known: dict[Value, bool] = {}

    def has(self, value: Value, forms: IndexForms) -> bool:
        """Return whether a value depends on a coordinate."""
        if value is forms.index:
            return True
        found = self._known.get(value)
        if found is None:
            made: Any = value.owner
            found = isinstance(made, Operation) and (
                made.name in ("grid.x", "grid.y", "grid.z")
                or any(self.has(each, forms) for each in made.operands)
                or any(self.has(v, forms) for region in made.regions for v in region.yielded)
            )
            self._known[value] = found
        return found
