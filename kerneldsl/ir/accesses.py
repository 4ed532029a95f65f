"""The memory that operations read and write, by its owner.

Two parameters may be given one array, or arrays that overlap: they are one memory unless it is
promised that they are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numba import types

from kerneldsl.contract.promises import Promises
from kerneldsl.frontend.effects.library_effects import (
    READING_METHODS,
    VIEW_METHODS,
    WRITING_FUNCTIONS,
)
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value, handed_on
from kerneldsl.language.intrinsics.intrinsic import ARRAY_ACCESS
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from kerneldsl.language.kinds import Kind, TupleKind, array_kinds
from kerneldsl.lowering.numba_internals.integer_typing import key_of
from kerneldsl.lowering.types import NumbaTile
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "Access",
    "Accesses",
    "Owner",
    "has_memory",
    "is_of_block",
    "is_own",
    "join",
    "may_write",
    "method_of",
]

#: The number of an array among the parameters', those in tuples included; the operation that
#: declares an array; or a name.
Owner: TypeAlias = int | Operation | str
_NOTHING: frozenset[Owner] = frozenset()
_ARGUMENTS, _DYNAMIC = "arguments", "dynamic shared"
#: Operations that end a thread by an error or serve debuggers, and write no element.
_CHECKS = ("fault", "fault.check", "unpack.check", "variable")
#: Modules with functions that only compute from their arguments.
_COMPUTING_MODULES = ("_operator", "builtins", "cmath", "math", "operator")


@dataclass(frozen=True)
class Access:
    """Memory that is read, and that is written."""

    read: frozenset[Owner] = _NOTHING
    written: frozenset[Owner] = _NOTHING

    def meets(self, other: Access) -> bool:
        """Return whether two accesses are of one memory, and one of them writes."""
        return bool(self.written & (other.read | other.written) or self.read & other.written)


def join(accesses: Iterable[Access]) -> Access:
    """Return all of several accesses."""
    read, written = set[Owner](), set[Owner]()
    for access in accesses:
        read |= access.read
        written |= access.written
    return Access(frozenset(read), frozenset(written))


class Accesses:
    """Accesses of the operations of one kernel.

    - `function`: the kernel.
    - `kinds`: kinds of the arguments.
    - `promises`: promises about the arguments.
    """

    def __init__(self, function: Function, kinds: Sequence[Kind], promises: Promises) -> None:
        self._owners = _owners(kinds, promises)
        self._known: dict[Value, frozenset[Owner]] = {}
        #: Kind of each tuple among the arguments or in one, and the number of its first array.
        self._tuples: dict[Value, tuple[TupleKind, int]] = {}
        arguments = function.body.arguments
        for number, value in enumerate(arguments if len(arguments) == len(kinds) else ()):
            self._known[value] = self._given(value, kinds[number], _count(kinds[:number]))
        if any(has_memory(value) and not self._known.get(value) for value in arguments):
            self._owners = [_ARGUMENTS] * len(self._owners)
            self._known = {each: frozenset((_ARGUMENTS,)) for each in arguments if has_memory(each)}
            self._tuples = {}
        self._is_changed = True
        while self._is_changed:
            self._is_changed = False
            self._region(function.body)

    def of(self, operation: Operation) -> Access:
        """Return what an operation accesses or orders, without those in its regions."""
        use = operation.attributes.get("use")
        if isinstance(use, IntrinsicUse):
            is_ordered = use.static.get("order", "relaxed") != "relaxed"
            if LanguageEffect.FENCE in use.intrinsic.effect or is_ordered:
                # A fence orders all memory: other blocks may read what was written before it, and
                # the reverse.
                everything = frozenset(self._owners)
                return Access(everything, everything)
        return self.elements(operation)

    def elements(self, operation: Operation) -> Access:
        """Return the memory with elements that an operation accesses, without its regions."""
        use = operation.attributes.get("use")
        if isinstance(use, IntrinsicUse):
            return self._of_intrinsic(operation, use)
        if operation.name in ("array.load", "tile.load"):
            return Access(self.memory(operation.operands[0]))
        if operation.name in _CHECKS:
            return Access()
        if operation.name in ("array.store", "tile.store"):
            return Access(written=self.memory(operation.operands[0]))
        memory = _NOTHING.union(*map(self.memory, operation.operands))
        effect = operation.effect
        if effect & (Effect.READ | Effect.WRITE):
            is_read, is_written = bool(effect & Effect.READ), bool(effect & Effect.WRITE)
            if operation.name == "numba":
                is_written = may_write(operation)
            return Access(memory if is_read else _NOTHING, memory if is_written else _NOTHING)
        if operation.name != "numba":
            return Access()
        # A function of Numba's may look into any array that it is given.
        return Access(memory, memory if may_write(operation) else _NOTHING)

    def with_regions(self, operation: Operation) -> Access:
        return join(map(self.of, operation.walk()))

    def memory(self, value: Value) -> frozenset[Owner]:
        """Return the owners of the memory that an array may be a part of.

        A thread's own arrays are not among them.
        """
        return frozenset(each for each in self.owners(value) if not is_own(each))

    def owners(self, value: Value) -> frozenset[Owner]:
        """Return the owners of the memory that an array may be a part of."""
        return self._known.get(value, _NOTHING)

    def _of_intrinsic(self, operation: Operation, use: IntrinsicUse) -> Access:
        effect = use.intrinsic.effect
        if not effect & ARRAY_ACCESS or not operation.operands:
            return Access()
        memory = self.memory(operation.operands[0])
        is_read = effect & (LanguageEffect.ATOMIC | LanguageEffect.READ)
        is_written = effect & (LanguageEffect.ATOMIC | LanguageEffect.WRITE)
        return Access(memory if is_read else _NOTHING, memory if is_written else _NOTHING)

    # -- values -----------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        for operation in region.operations:
            if operation.regions and not operation.name.startswith("tile."):
                for given, value in _sources_and_targets(operation):
                    self._add(value, self.owners(given))
            for inner in operation.regions:
                self._region(inner)
            for result in filter(has_memory, operation.results):
                self._add(result, self._made_by(operation))

    def _given(self, value: Value, kind: Kind, first: int) -> frozenset[Owner]:
        """Return the owners of an argument or member; `first` is the number of its first array."""
        if isinstance(kind, TupleKind):
            self._tuples[value] = kind, first
        return frozenset(self._owners[first : first + _count((kind,))])

    def _made_by(self, operation: Operation) -> frozenset[Owner]:
        if operation.name == "tuple.member" and operation.operands[0] in self._tuples:
            kind, first = self._tuples[operation.operands[0]]
            number = operation.attributes["number"]
            first += _count(kind.elements[:number])
            owners = self._given(operation.result, kind.elements[number], first)
            if owners:  # a record has none
                return owners
        if operation.name == "local.array":
            return frozenset((operation,))
        if operation.name == "shared.array":
            is_dynamic = tuple(operation.attributes.get("shape", ())) == (0,)
            return frozenset((_DYNAMIC if is_dynamic else operation,))
        return _NOTHING.union(*map(self.owners, operation.operands))

    def _add(self, value: Value, owners: frozenset[Owner]) -> None:
        known = self._known.get(value, _NOTHING)
        if not owners <= known:
            self._known[value] = known | owners
            self._is_changed = True


def is_own(owner: Owner) -> bool:
    """Return whether memory is a thread's own: a local array."""
    return isinstance(owner, Operation) and owner.name == "local.array"


def is_of_block(owner: Owner) -> bool:
    """Return whether each block has such memory for itself."""
    return owner == _DYNAMIC or (isinstance(owner, Operation) and owner.name == "shared.array")


def may_write(operation: Operation) -> bool:
    """Return whether a call of a function of Numba's may write to the arrays that it is given."""
    function = operation.attributes["function"]
    if operation.effect & Effect.WRITE and function is not print:
        return True
    key = key_of(function)
    if isinstance(key, np.ufunc):
        return len(operation.operands) > key.nin
    if isinstance(function, types.BoundFunction):
        method = method_of(function)
        return method not in READING_METHODS and method not in VIEW_METHODS
    module = str(getattr(key, "__module__", None)).partition(".")[0]
    if module == "numpy":
        return getattr(key, "__name__", "") in WRITING_FUNCTIONS
    return not isinstance(key, str) and module not in _COMPUTING_MODULES


def method_of(function: types.BoundFunction) -> str:
    """Return the name of a method of Numba's."""
    key = function.typing_key
    return str(key[-1]) if isinstance(key, tuple) else str(key).rpartition(".")[2]


def _sources_and_targets(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Return the values that an operation is given and that its regions give, and their targets."""
    for targets, sources in handed_on(operation):
        yield from itertools.product(sources, targets)
    if operation.name == "for_each":
        # The elements that the loop is over.
        count = len(operation.results)
        (region,) = operation.regions
        for value in operation.operands[: len(operation.operands) - count]:
            for argument in region.arguments[: len(region.arguments) - count]:
                yield value, argument


def has_memory(value: Value) -> bool:
    return _has_memory(value.type)


def _has_memory(kind: types.Type) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(map(_has_memory, kind.types))
    return not isinstance(kind, types.Number | types.Boolean | NumbaTile)


def _count(kinds: Sequence[Kind]) -> int:
    """Return the number of arrays among kinds, those in tuples included."""
    return sum(1 for _ in array_kinds(kinds))


def _owners(kinds: Sequence[Kind], promises: Promises) -> list[Owner]:
    """Return the owner of each array among the parameters, those in tuples included."""
    count = _count(kinds)
    if not promises.is_disjoint:
        return [_ARGUMENTS] * count
    owners: list[Owner] = list(range(count))
    for number in range(count):
        same = promises.array(number).same_as
        if same is not None:
            owners[number] = owners[same]
    return owners
