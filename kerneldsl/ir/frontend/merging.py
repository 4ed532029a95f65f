"""Variables after branches and in loops.

A variable that several paths assign is merged when it is read, not before. So a temporary variable
may have different types on two paths if nothing reads it after them. A tuple is merged by its
members. On a path that does not assign the variable, its value is undefined.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import types

from kerneldsl.ir.frontend.members import MISSING, Lazy, is_typed, like, settled, type_of
from kerneldsl.ir.frontend.origins import Origin
from kerneldsl.ir.frontend.reader import NotReadError, Reader
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.refusals import Refusal, carried_refusal, unify_refusal

__all__ = ["End", "LoopVariables", "common", "fitted", "merge"]


class End:
    """A region from which control leaves an operation, and the variables there."""

    def __init__(self, region: Region, variables: dict[str, Any]) -> None:
        self.region = region
        self.variables = variables


def merge(
    reader: Reader, operation: Operation, ends: list[End], before: dict[str, Any]
) -> dict[str, Any]:
    """Return the variables after an operation that control leaves by several regions."""

    def merged(name: str, found: list[Any], member: str = "") -> Any:
        known = next((value for value in found if isinstance(value, tuple)), None)
        if known is not None:
            found = [_as_tuple(reader, value, known) for value in found]
            if not all(v is MISSING or _is_like(v, known) for v in found):
                raise _refusal(name, found)
            members = [(MISSING,) * len(known) if v is MISSING else v for v in found]
            columns = enumerate(zip(*members, strict=True))
            return like(
                known, [merged(name, [*each], f"{member}[{number}]") for number, each in columns]
            )
        kind = common(reader, name, [value for value in found if value is not MISSING])
        for end, value in zip(ends, found, strict=True):
            _yield_more(reader, end.region, value, kind, name + member)
        result = Value(kind, operation, name)
        operation.results.append(result)
        reader.origins.set_joined(result, found)
        return result

    def read(name: str) -> Any:
        found = [settled(end.variables.get(name, MISSING)) for end in ends]
        unread = before.get(name, MISSING)
        old = unread.seen if isinstance(unread, Lazy) else unread
        is_known = old is not None and old is not MISSING
        if is_known and all(value is old for value in found):
            return old  # it was read in a region, and assigned in none
        try:
            return merged(name, found)
        except Refusal:
            if found[-1] is not settled(unread):
                raise
            raise _refusal(name, found[::-1]) from None  # what is before the branch comes first

    variables = dict(before)
    for name in dict.fromkeys(name for end in ends for name in end.variables):
        old = before.get(name, MISSING)
        if any(end.variables.get(name, MISSING) is not old for end in ends):
            variables[name] = Lazy(partial(read, name))
    return variables


def _as_tuple(reader: Reader, value: Any, known: tuple[Any, ...]) -> Any:
    """Return the members of a variable of a loop that has no type yet, as a tuple without types."""
    if isinstance(value, tuple) or is_typed(value):
        return value
    if value in reader.expansions:
        reader.expansions[value](known)
    return like(known, [Value(None, None) for _ in known])


def _members(reader: Reader, value: Any, known: tuple[Any, ...]) -> Any:
    """Return what is known of a variable that is a tuple."""
    return (
        like(known, [MISSING] * len(known)) if value is MISSING else _as_tuple(reader, value, known)
    )


def _is_like(value: Any, known: tuple[Any, ...]) -> bool:
    """Return whether a value is a tuple with as many members."""
    return type(value) is type(known) and len(value) == len(known)


def common(reader: Reader, name: str, values: list[Any]) -> Any:
    """Return the type that holds several values, ``None`` if the type of none is known yet."""
    kinds = []
    for value in values:
        if not isinstance(value, Value):
            raise _refusal(name, values)
        if value.type is not None:
            kinds.append(value.type)
    found = kinds[0] if kinds else None
    if len(kinds) == len(values) > 1 and reader.origins.are_wide(values):
        return types.uint64
    for kind in kinds[1:]:
        found = reader.typing.unify(found, kind, name)
    return found


def _refusal(name: str, values: list[Any]) -> Refusal:
    """Return the refusal of a variable that is a tuple on one path, and no such one on others."""
    kinds = [type_of(value) for value in values if value is not MISSING and is_typed(value)]
    others = (kind for kind in kinds if kind != kinds[0])
    return unify_refusal(kinds[0], next(others, kinds[0]), name)


def _yield_more(reader: Reader, region: Region, value: Any, kind: Any, name: str) -> None:
    """Add a value to those that the end of a region yields."""
    last = region.operations.pop()
    reader.into(region, lambda: last.operands.append(fitted(reader, value, kind, name)))
    region.operations.append(last)


def fitted(reader: Reader, value: Any, kind: Any, name: str) -> Value:
    if value is MISSING:
        return reader.add("undefined", [], (kind,)).result
    if value.type is None:  # it is known later
        reader.guesses.setdefault(value, set()).add(kind)
        return value if kind is None else reader.add("cast", [value], (kind,)).result
    attributes = {"variable": name}
    if kind == types.uint64 and reader.origins.is_converted(value):
        return reader.origins.convert(reader, value, attributes)
    return reader.cast(value, kind, attributes)


class _Carried:
    """A variable of a loop, or a member of one that is a tuple."""

    def __init__(self, name: str, before: Any, kind: Any, arguments: list[Value]) -> None:
        self.name = name
        self.before = before
        self.kind = kind
        self.arguments = arguments
        self.result = Value(kind, None, arguments[0].name)

    def set_kind(self, kind: Any) -> None:
        """Set the type of a variable that had none and was read nowhere."""
        self.kind = kind
        for each in (*self.arguments, self.result):
            each.type = kind


def _fail(error: Exception) -> Any:
    raise error


_Path = tuple[Any, ...]


class LoopVariables:
    """The variables that a loop carries from one iteration to the next.

    Those are carried that the body reads before it assigns them, or does not always assign, and
    those that are read after the loop. `kinds` and `origins` have what an earlier reading of the
    body has found: types, and tuples for variables with as many members. A variable that is first
    assigned in the body has no type until the body is read. What reads it is skipped, and the
    variables that this assigns have no type, either. So a reading finds no type that a later one
    would not find.
    """

    def __init__(
        self,
        reader: Reader,
        regions: list[Region],
        names: list[str],
        kinds: dict[_Path, Any],
        origins: dict[_Path, Origin],
        *,
        carries: bool = True,
    ) -> None:
        self._reader = reader
        self._regions = regions
        self._names = names
        self._kinds = kinds
        self._origins = origins
        self._used = reader.origins.used
        self._carries = carries
        self._before = reader.variables
        self._end: dict[str, Any] | None = None
        self._carried: dict[_Path, _Carried] = {}
        #: Whether this reading has found that a variable without a type is a tuple.
        self._is_late = False
        self._operation: Operation | None = None
        self._container: Region | None = None

    def inside(self, number: int) -> dict[str, Any]:
        """Return the variables at the start of one of the loop's regions."""
        return {
            **self._before,
            **{name: Lazy(partial(self._at_start, name, number)) for name in self._names},
        }

    def _at_start(self, name: str, number: int) -> Any:
        if not self._carries:
            raise carried_refusal(name)
        return self._start((name,), settled(self._before.get(name, MISSING)), number)

    def _start(self, path: _Path, value: Any, number: int) -> Any:
        known = self._kinds.get(path)
        if isinstance(known, tuple):
            value = _members(self._reader, value, known)
        if isinstance(value, tuple):
            parts = enumerate(value)
            return like(value, [self._start((*path, n), each, number) for n, each in parts])
        carried = self._carried.get(path)
        if carried is None:
            assert self._operation is None
            given = [] if value is MISSING else [value]
            kind = known or common(self._reader, path[0], given)
            carried = self._add(path, value, kind)
            self._set_origins(path, carried)
        argument = carried.arguments[number]
        if carried.before is MISSING:
            self._reader.unassigned.add(argument)
        if carried.kind is None:
            self._reader.expansions[argument] = partial(self._note_tuple, path)
        return argument

    def _set_origins(self, path: _Path, carried: _Carried) -> None:
        """Note where the type of a variable comes from, by what an earlier reading has found."""
        origins, before = self._reader.origins, carried.before
        found = self._origins.get(path)
        if found is None and isinstance(before, Value) and before.type == carried.kind:
            found = origins.of(before)
        if found is not None:
            for each in carried.arguments:
                origins.set(each, origins.carried(found))

    def _note_tuple(self, path: _Path, known: tuple[Any, ...]) -> None:
        """Note that a variable that has no type yet is such a tuple, and read the body again."""
        self._kinds[path], self._is_late = known, True

    def _add(self, path: _Path, before: Any, kind: Any) -> _Carried:
        arguments = []
        for region in self._regions:
            argument = Value(kind, region, path[0])
            region.arguments.append(argument)
            arguments.append(argument)
        name = path[0] + "".join(f"[{number}]" for number in path[1:])
        self._carried[path] = made = _Carried(name, before, kind, arguments)
        return made

    def is_settled(self, end: dict[str, Any] | None, exits: list[End]) -> bool:
        """Compare the types with those at the end of the body; say whether they are equal.

        If not, the body is read again. `end` has the variables there, ``None`` if control never
        gets there. `exits` are the ends from which control leaves the loop otherwise.
        """
        self._end = end
        for variables in (each.variables for each in exits):
            self._settle(variables)
        if end is None:
            return not self._is_late
        self._settle(end)
        is_settled = True
        for path, carried in self._carried.items():
            last = self._at_end(path)
            if carried.kind is None and isinstance(last, tuple):
                self._note_tuple(path, last)
                continue
            kind = common(self._reader, path[0], [last, *carried.arguments[:1]])
            if kind != carried.kind:
                self._kinds[path] = kind
                is_settled &= self._is_unread(carried, kind)
            if carried.kind is None:
                carried.set_kind(kind)
            is_settled &= self._has_origin(path, carried, last)
        return is_settled and not self._is_late

    def _is_unread(self, carried: _Carried, kind: Any) -> bool:
        """Return whether a variable had no type, and nothing would be read otherwise with its type.

        If it is merged with other values, these must have given the result that type.
        """
        guesses = (self._reader.guesses.get(each, set()) for each in carried.arguments)
        is_skipped = carried.kind is not None or self._reader.skipped is not None
        return not is_skipped and set().union(*guesses) <= {kind}

    def _has_origin(self, path: _Path, carried: _Carried, last: Any) -> bool:
        """Return whether the origin of a variable was right while the body was read."""
        if carried.kind not in (types.int64, types.uint64) or not isinstance(last, Value):
            return True
        origins, argument = self._reader.origins, carried.arguments[0]
        found = origins.after(carried.before, [argument, last])
        is_same = origins.carried(found) is origins.of(argument)
        self._origins[path] = found
        return is_same or (carried.kind == types.int64 and self._used == origins.used)

    def _settle(self, variables: dict[str, Any]) -> None:
        """Read the variables at an end, while variables can still be carried.

        One of two types that no type holds is an error when it is read after the loop, not now.
        """
        for name in self._names:
            if isinstance(variables.get(name), Lazy):
                try:
                    variables[name] = settled(variables[name])
                except (Refusal, NotReadError) as error:
                    variables[name] = Lazy(partial(_fail, error))

    def _at_end(self, path: _Path) -> Any:
        assert self._end is not None
        name, *numbers = path
        found = settled(self._end.get(name, MISSING))
        for number in numbers:
            if not is_typed(found) and not isinstance(found, tuple):
                return found
            if not isinstance(found, tuple) or number >= len(found):
                raise _refusal(name, [found])
            found = found[number]
        return found

    def make(self, name: str, bounds: list[Value], attributes: dict[str, Any]) -> Operation:
        """Add the loop's operation, and bind the variables after it."""
        reader = self._reader
        carried = self._carried.values()
        given = [fitted(reader, each.before, each.kind, each.name) for each in carried]
        operation = reader.add(name, [*bounds, *given], (), attributes, self._regions)
        self._operation, self._container = operation, reader.region
        for path, each in self._carried.items():
            self._finish(path, each)
        reader.variables = {
            **self._before,
            **{each: Lazy(partial(self._after, each)) for each in self._names},
        }
        return operation

    def _finish(self, path: _Path, carried: _Carried) -> None:
        assert self._operation is not None
        if self._end is not None:
            last = self._at_end(path)
            _yield_more(self._reader, self._regions[-1], last, carried.kind, carried.name)
        carried.result.owner = self._operation
        self._operation.results.append(carried.result)
        found = self._origins.get(path)
        if found is not None:
            self._reader.origins.set(carried.result, found)

    def _after(self, name: str) -> Any:
        if not self._carries:
            raise carried_refusal(name)
        before = settled(self._before.get(name, MISSING))
        end = before if self._end is None else settled(self._end.get(name, MISSING))

        def found(path: _Path, one: Any, two: Any) -> Any:
            if isinstance(two, tuple):
                one = _as_tuple(self._reader, one, two)
            elif isinstance(one, tuple):
                two = _as_tuple(self._reader, two, one)
            if one is MISSING and two is MISSING:
                return MISSING
            if isinstance(one, tuple) or (one is MISSING and isinstance(two, tuple)):
                known = two if one is MISSING else one
                count = len(known)
                if two is not MISSING and not _is_like(two, known):
                    raise _refusal(name, [one, two])
                pairs = zip(
                    *((MISSING,) * count if each is MISSING else each for each in (one, two)),
                    strict=True,
                )
                return like(known, [found((*path, n), *pair) for n, pair in enumerate(pairs)])
            carried = self._carried.get(path)
            if carried is None:
                known = [value for value in (one, two) if value is not MISSING]
                carried = self._add(path, one, common(self._reader, name, known))
                if carried.kind is not None:
                    self._origins[path] = self._reader.origins.after(one, known)
                self._give(carried)
                self._finish(path, carried)
            return carried.result

        return found((name,), before, end)

    def _give(self, carried: _Carried) -> None:
        """Add a variable's value before the loop to the operands of the loop."""
        assert self._operation is not None
        assert self._container is not None
        before = self._container.operations
        position = before.index(self._operation)
        rest = before[position:]
        del before[position:]
        reader = self._reader
        operands = self._operation.operands
        reader.into(
            self._container,
            lambda: operands.append(fitted(reader, carried.before, carried.kind, carried.name)),
        )
        before.extend(rest)
