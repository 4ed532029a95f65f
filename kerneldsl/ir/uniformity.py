"""Find for which group of threads each value is the same, and which threads reach a barrier.

A value is as varying as the operands of its operation. What a branch or a loop gives also varies as
the condition does. A loop that threads leave at different times makes its results vary, and its
body a varying place. An early ``return`` of a kernel does not: its threads are not waited for,
except by the grid. An array has two facts: its place in memory, and its shape.

References
----------
Karrenberg and Hack, "Improving Performance of OpenCL on CPUs", CC 2012 (divergence analysis);
CUDA C++ Programming Guide, section "Synchronization Functions".
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import types

from kerneldsl.contract.promises import NO_PROMISES, Promises
from kerneldsl.frontend.effects.library_effects import EXTENT_ATTRIBUTES, TYPE_ATTRIBUTES
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.accesses import Accesses, has_memory, is_own
from kerneldsl.ir.divergence import (
    Divergence,
    Fact,
    are_equal,
    holding,
    join,
    shown_part,
    used_bindings,
)
from kerneldsl.ir.frontend.source_names import RESULT
from kerneldsl.ir.intervals import Intervals, doubt_of_memory
from kerneldsl.ir.operations import LOOPS, Effect, Function, Label, Operation, Region, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.recognize import operator_of
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.language.kinds import Kind

__all__ = ["Meeting", "Uniformity", "uniformity_of"]

#: Effects of threads on memory or on others, which may give each thread another result.
_OF_THREADS = Effect.READ | Effect.WRITE | Effect.EXCHANGE
#: Coordinates, which passes add too.
_INDICES = {
    name: row for name, row in INTRINSICS.items() if row.is_index or row.typing is Typing.LANE_MASK
}
_EXTENTS = ("array.extent", "array.size", "array.stride")
_EXTENT_FUNCTIONS = (len, np.shape, np.size)
_VIEW_ATTRIBUTES = ("T", "flat", "imag", "real")
#: Modules with functions that compute a value only from their arguments.
_COMPUTING_MODULES = ("_operator", "builtins", "cmath", "kerneldsl", "math", "numpy", "operator")


def uniformity_of(
    function: Function,
    kinds: tuple[Kind, ...] = (),
    groups: Iterable[Scope] = (Scope.BLOCK,),
    *,
    arguments_may_overlap: bool = False,
    trusts_loads: bool = True,
    awaits_returned: bool = True,
) -> Uniformity:
    """Analyze a kernel.

    - `function`: the kernel.
    - `kinds`: kinds of the arguments.
    - `groups`: groups of threads for which loads may be the same.
    - `arguments_may_overlap`: whether array arguments may be the same memory.
    - `trusts_loads`: whether a load can be the same for several threads at all.
    - `awaits_returned`: whether the grid waits for threads that have returned.
    """
    promises = NO_PROMISES if arguments_may_overlap else Promises(is_disjoint=True)
    accesses = Accesses(function, kinds, promises)
    found = {each: Intervals(function, accesses, each) for each in groups} if trusts_loads else None
    return Uniformity(function, accesses, found, Scope.BLOCK if awaits_returned else Scope.GRID)


class Meeting(NamedTuple):
    """An operation that the threads of a group perform together."""

    intrinsic: Intrinsic
    #: Divergence of the control flow to it, and of the threads that have returned before.
    control: Fact
    left: Fact
    #: Divergence of each argument of the call.
    arguments: tuple[Fact, ...]


class Uniformity:
    """Facts about the values of one kernel."""

    def __init__(
        self,
        function: Function,
        accesses: Accesses,
        intervals: Mapping[Scope, Intervals] | None,
        leaving: Scope = Scope.BLOCK,
    ) -> None:
        #: The largest group that does not wait for threads that have returned.
        self._leaving = leaving
        self._bindings = function.bindings
        self._accesses = accesses
        self._intervals = intervals
        #: Divergence of each value; of an array, that of its address. A value without an entry is
        #: uniform.
        self._facts: dict[Value, Divergence] = {}
        #: Divergence of the shapes and strides of arrays.
        self._extents: dict[Value, Divergence] = {}
        self._held: dict[tuple[Value, int, Divergence], Divergence] = {}
        #: Divergence of the control flow to the operation being evaluated.
        self._control: Fact = None
        #: Divergence of the exits from the labeled operations around it.
        self._exits: dict[Label, Fact] = {}
        #: Divergence of the returns so far.
        self._left: Fact = None
        #: Collective operations, in the order of the source.
        self.meetings: dict[Operation, Meeting] = {}
        #: Loads that give equal values to threads with equal indices.
        self.uniform_loads = set[Operation]()
        self._region(function.body)

    def fact(self, value: Value) -> Fact:
        """Return how a value varies; of an array, its place in memory."""
        return self._facts.get(value)

    def extent(self, value: Value) -> Fact:
        """Return how the shape and the strides of an array vary."""
        return self._extents.get(value)

    def scope(self, value: Value) -> Scope:
        """Return the largest group of threads for which a value is the same."""
        fact = join(self._facts.get(value), self._extents.get(value))
        return Scope.GRID if fact is None else fact.scope

    def scopes(self, function: Function) -> dict[Value, Scope]:
        """Return the largest group of threads for each value of the kernel."""
        regions = [function.body, *(r for each in function.body.walk() for r in each.regions)]
        values = [value for region in regions for value in region.arguments]
        values += [value for each in function.body.walk() for value in each.results]
        return {value: self.scope(value) for value in values}

    # -- facts ------------------------------------------------------------------------------------

    def _set(self, value: Value, fact: Fact, extent: Fact = None) -> None:
        for known, found in ((self._facts, fact), (self._extents, extent)):
            if found is None:
                known.pop(value, None)
            else:
                known[value] = found

    def _fact_in(self, value: Value, user: Part | str | None, *, extent: bool = False) -> Fact:
        """Return the fact of a value with the variables through which a part or name uses it."""
        fact = (self._extents if extent else self._facts).get(value)
        bindings = self._bindings.get(value)
        if fact is None or not bindings:
            return fact
        for number in used_bindings(bindings, user):
            key = value, number, fact
            if key not in self._held:
                self._held[key] = holding(fact, bindings[number])
            fact = self._held[key]
        return fact

    def _facts_in(self, values: Iterable[Value], user: Part | str | None) -> tuple[Fact, Fact]:
        """Return how values vary together, and their shapes, as :meth:`_fact_in` does of one."""
        known = list(values)
        extents = (self._fact_in(value, user, extent=True) for value in known)
        return join(*(self._fact_in(value, user) for value in known)), join(*extents)

    def _whole(self, value: Value, user: Part | None) -> Fact:
        return join(*self._facts_in((value,), user))

    def _contents(self, value: Value, operation: Operation) -> Fact:
        """Return how a value varies, with whatever may be read through it."""
        fact = self._whole(value, operation.source)
        if not has_memory(value):
            return fact
        return self._read(fact, value, operation, *self._shown(value, operation))

    def _element(self, place: Fact, operation: Operation) -> Fact:
        """Return how an element varies that is loaded at a place."""
        array = operation.operands[0]
        source = operation.source
        if source is not None and source.is_expression:
            return self._read(place, array, operation, "`{text}`", source)
        return self._read(place, array, operation, *self._shown(array, operation))

    def _read(
        self, place: Fact, array: Value, operation: Operation, form: str, source: Part | None
    ) -> Fact:
        """Return how what is read at a place in memory varies."""
        owners = self._accesses.owners(array)
        if not owners:
            return place

        def loaded(scope: Scope, what: str, cause: Fact = None) -> Divergence:
            return Divergence(scope, Scope.GRID, f"{form} is loaded from {what}", source, cause)

        doubt = doubt_of_memory(owners, operation, self._intervals)
        doubtful = None if doubt is None else loaded(*doubt)
        if place is None or any(map(is_own, owners)):
            return doubtful
        return join(loaded(place.scope, "a varying index", place), doubtful)

    def _shown(self, array: Value, operation: Operation) -> tuple[str, Part | None]:
        """Return how a message names an array that an operation reads, and its expression."""
        held = [each.name for each in self._bindings.get(array, ()) if each.name]
        name = held[-1] if held else array.name
        if name:
            return f"`{name}`", operation.source
        made = array.owner
        if isinstance(made, Operation) and made.source is not None and made.source.is_expression:
            return "`{text}`", made.source
        return "`{text}`", shown_part(operation)

    # -- operations -------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        for operation in region.operations:
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:
        match operation.name:
            case "if":
                self._branch(operation)
                return
            case "labeled":
                self._labeled(operation)
                return
            case "leave":
                self._leave(operation)
                return
            case name if name in LOOPS:
                self._loop(operation)
                return
        for region in operation.regions:
            self._region(region)
        intrinsic = _intrinsic_of(operation)
        if intrinsic is not None and intrinsic.is_barrier:
            self._meet(operation, intrinsic)
        if operation.results:
            fact, extent = self._result(operation, intrinsic)
            for result in operation.results:
                self._set(result, fact, extent if has_memory(result) else None)

    def _result(self, operation: Operation, intrinsic: Intrinsic | None) -> tuple[Fact, Fact]:
        """Return the facts of the results of an operation without control flow."""
        source, operands = operation.source, operation.operands
        facts, extents = self._facts_in(operands, source)
        match operation.name:
            case name if name in _EXTENTS:
                return extents, None
            case "array.load" | "packed.load":
                place = join(facts, None if operation.name == "array.load" else extents)
                owners = self._accesses.owners(operands[0])
                if doubt_of_memory(owners, operation, self._intervals) is None:
                    self.uniform_loads.add(operation)
                return self._element(place, operation), None
            case (
                "array.part" | "array.transpose" | "bound" | "cast" | "tuple.make" | "tuple.member"
            ):
                return facts, extents
            case "array.view":
                cuts = (v for v in operands[1:] if not isinstance(v.type, types.Integer))
                return facts, join(extents, *(self._fact_in(v, source) for v in cuts))
            case "attribute":
                return self._attribute(operation)
            case "item":
                found = self._contents(operands[0], operation)
                return found, found
            case "numba":
                return self._call(operation, facts, extents)
            case "local.array":
                form = "is a thread's own array"
                return self._own(operation, Scope.THREAD, Scope.GRID, form), None
            case "shared.array":
                return None, None
        if intrinsic is not None:
            return self._intrinsic(operation, intrinsic, facts, extents)
        if operation.effect & Effect.BLOCK:
            return None, None
        if operation.effect & _OF_THREADS:
            form = "gives each thread a value of its own"
            return self._own(operation, Scope.THREAD, Scope.GRID, form), None
        return facts, extents

    def _own(self, operation: Operation, scope: Scope, index: Scope, form: str) -> Fact:
        return Divergence(scope, index, f"`{{text}}` {form}", shown_part(operation))

    def _attribute(self, operation: Operation) -> tuple[Fact, Fact]:
        (owner,), name = operation.operands, operation.attributes["attribute"]
        if name in TYPE_ATTRIBUTES:
            return None, None
        fact, extent = self._facts_in((owner,), operation.source)
        if name in EXTENT_ATTRIBUTES:
            return extent, None
        if name in _VIEW_ATTRIBUTES and isinstance(owner.type, types.Array):
            return fact, extent
        found = self._contents(owner, operation)
        return found, found

    def _call(self, operation: Operation, facts: Fact, extents: Fact) -> tuple[Fact, Fact]:
        """Return the facts of the result of a function of Numba's."""
        function, operands = operation.attributes["function"], operation.operands
        if operator_of(operation) is operator.floordiv and _divides_by_warps(*operands):
            assert facts is not None
            return replace(facts, scope=Scope.WARP), None
        key = getattr(function, "typing_key", function)
        if any(key is each for each in _EXTENT_FUNCTIONS):
            return extents, None
        if any(isinstance(each.type, types.Array) for each in operation.results):  # a view
            shape = join(*(self._fact_in(v, operation.source) for v in operands[1:]))
            return facts, join(extents, shape)
        found = join(*(self._contents(value, operation) for value in operands))
        if not _is_known(function):
            index = Scope.GRID if found is None else found.index
            form = "`{text}` calls a function that cannot be analyzed"
            found = Divergence(Scope.THREAD, index, form, operation.source, found)
        return found, found

    def _intrinsic(
        self, operation: Operation, intrinsic: Intrinsic, facts: Fact, extents: Fact
    ) -> tuple[Fact, Fact]:
        uniform_in = intrinsic.uniform_in
        if intrinsic.is_view and uniform_in is None:
            return facts, extents
        if uniform_in is None:
            return join(*(self._contents(v, operation) for v in operation.operands)), None
        fact: Fact = None
        if uniform_in < Scope.GRID:
            group = uniform_in.name.lower()
            if intrinsic.is_index:
                fact = self._own(operation, uniform_in, uniform_in, f"is the {group}'s own index")
            else:
                form = f"gives each {group} a value of its own"
                fact = self._own(operation, uniform_in, Scope.GRID, form)
        if intrinsic.scope is Scope.WARP and intrinsic.parameters[:1] == ("mask",):
            # Lanes of one warp that name different masks have different results.
            mask = self._fact_in(operation.operands[0], operation.source)
            fact = join(mask, fact) if mask is not None and mask.scope < uniform_in else fact
        return fact, None

    def _meet(self, operation: Operation, intrinsic: Intrinsic) -> None:
        """Note how threads reach what they do together."""
        arguments = [self._whole(value, operation.source) for value in operation.operands]
        if operation.name.startswith("tile."):
            first = operation.attributes.get("first", len(arguments))
            ends = (region.yielded for region in operation.regions[:1])
            elements = [join(*(self._whole(v, operation.source) for v in end)) for end in ends]
            arguments = [*arguments[:first], *elements]
        self.meetings[operation] = Meeting(intrinsic, self._now(), self._left, tuple(arguments))

    # -- control ----------------------------------------------------------------------------------

    def _now(self) -> Fact:
        """Return how the way to what is evaluated now varies."""
        return join(self._control, *self._exits.values())

    def _condition(self, value: Value, operation: Operation) -> Fact:
        """Return how the truth of a value varies."""
        test = shown_part(operation)
        found = self._whole(value, test)
        form = "the condition `{text}` {varies}"
        return None if found is None else found.because(form, test)

    def _branch(self, operation: Operation) -> None:
        condition = self._condition(operation.operands[0], operation)
        outer, taken = self._control, condition
        if "ends_kernel" in operation.attributes and condition is not None:
            self._left = join(self._left, self._now(), condition)
            taken = condition.within(self._leaving)
        self._control = join(outer, taken)
        for region in operation.regions:
            self._region(region)
        self._control = outer
        ends = [region.yielded for region in operation.regions if not region.is_left]
        is_statement = operation.source is not None and not operation.source.is_expression
        form = "`{name}` is assigned in a divergent branch" if is_statement else ""
        self._choose(operation, ends, condition, form)

    def _labeled(self, operation: Operation) -> None:
        label, (region,) = operation.attributes["label"], operation.regions
        self._exits[label] = None
        self._region(region)
        way = self._exits.pop(label)
        ends = [each.operands for each in operation.leaves()]
        ends += [] if region.is_left else [region.yielded]
        form = {
            "break": "`{name}` is assigned in a loop with a divergent exit",
            "continue": "`{name}` is assigned in a loop with a divergent continue",
        }.get(label.name, "")
        self._choose(operation, ends, way, form)

    def _leave(self, operation: Operation) -> None:
        label, now = operation.attributes["label"], self._now()
        if label.ends_kernel and now is not None:
            self._left = join(self._left, now)
            now = now.within(self._leaving)
        self._exits[label] = join(self._exits[label], now)

    def _choose(self, operation: Operation, ends: list[list[Value]], way: Fact, form: str) -> None:
        """Let results vary as what they are chosen from, and as the choice."""
        for number, result in enumerate(operation.results):
            facts = self._facts_in((end[number] for end in ends), result.name)
            self._set_chosen(operation, result, facts, way, form)

    def _set_chosen(
        self, operation: Operation, result: Value, facts: tuple[Fact, Fact], way: Fact, form: str
    ) -> None:
        chosen, source, (fact, extent) = way, operation.source, facts
        if way is not None and form and result.name != RESULT and source is not None:
            chosen = way.because(form.format(name=result.name), source)
        self._set(result, join(fact, chosen), join(extent, chosen) if has_memory(result) else None)

    def _loop(self, operation: Operation) -> None:
        count, body = len(operation.results), operation.regions[-1]
        first = len(operation.operands) - count
        given, initial = operation.operands[:first], operation.operands[first:]
        head = len(body.arguments) - count
        shown = shown_part(operation)
        bounds = join(*(self._whole(value, shown) for value in given))
        way: Fact = None
        if operation.name == "for" and bounds is not None:
            form = "the loop over `{text}` runs a varying number of times"
            way = bounds.because(form, shown)
        names = [each.name for each in operation.results]
        facts = [self._facts_in((value,), name) for value, name in zip(initial, names, strict=True)]
        outer = self._control
        while True:
            before = way, dict(self._exits)
            for region in operation.regions:
                for argument in region.arguments[: len(region.arguments) - count]:
                    self._set(argument, bounds)
                carried = region.arguments[len(region.arguments) - count :]
                for argument, found in zip(carried, facts, strict=True):
                    self._set(argument, *found)
            if operation.name == "for_each":
                self._set_items(operation, given, body.arguments[:head])
            self._control = join(outer, way)
            if operation.name == "while":
                self._region(operation.regions[0])
                way = join(way, self._condition(operation.regions[0].yielded[0], operation))
                self._control = join(outer, way)
            self._region(body)
            is_same = are_equal(before[0], way) and all(
                are_equal(fact, self._exits[label]) for label, fact in before[1].items()
            )
            for number, value in enumerate(body.yielded):
                known, ends = facts[number], self._facts_in((value,), names[number])
                facts[number] = join(known[0], ends[0]), join(known[1], ends[1])
                is_same = is_same and all(map(are_equal, known, facts[number]))
            if is_same:
                break
        self._control = outer
        form = "`{name}` is assigned in a loop with a divergent exit"
        for result, found in zip(operation.results, facts, strict=True):
            self._set_chosen(operation, result, found, way, form)

    def _set_items(self, operation: Operation, given: list[Value], arguments: list[Value]) -> None:
        """Set the facts of the elements that a loop is over: one column for each argument."""
        shown = shown_part(operation)
        for number, argument in enumerate(arguments):
            self._set(argument, *self._facts_in(given[number :: len(arguments)], shown))


def _divides_by_warps(first: Value, second: Value) -> bool:
    """Return whether an index in the block is divided by a multiple of a warp's threads."""
    made, given = first.owner, second.owner
    if not isinstance(made, Operation) or made.name != "threadIdx.x":
        return False
    divisor = given.attributes.get("value") if isinstance(given, Operation) else 0
    return type(divisor) is int and divisor > 0 and divisor % WARP_SIZE == 0


def _is_known(function: Any) -> bool:
    """Return whether a function of Numba's computes its result only from its arguments."""
    if isinstance(function, types.BoundFunction | types.NumberClass):
        return True
    key = getattr(function, "typing_key", function)
    if isinstance(key, str):
        return True
    # A ufunc has no attribute for its module.
    module = str(getattr(key, "__module__", None) or type(key).__module__)
    return module.partition(".")[0] in _COMPUTING_MODULES


def _intrinsic_of(operation: Operation) -> Intrinsic | None:
    """Return the operation of the language that an operation was read from."""
    use = operation.attributes.get("use")
    found: Intrinsic | None = operation.attributes.get("called")
    if found is None:
        found = _INDICES.get(operation.name) if use is None else use.intrinsic
    return found
