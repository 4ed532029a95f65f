"""``for`` loops: over ranges, tuples and arrays, and over ``enumerate`` and ``zip`` of these."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

from numba import types

from kerneldsl.errors import KernelTypingError
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.arrays import load
from kerneldsl.ir.frontend.block_loops import BlockLoop, tile_loop
from kerneldsl.ir.frontend.control import assigned, read_body, read_loop
from kerneldsl.ir.frontend.exits import has, labeled, unreachable
from kerneldsl.ir.frontend.findings.flow import is_unsigned
from kerneldsl.ir.frontend.members import leaves, packed, type_of, unpacked
from kerneldsl.ir.frontend.merging import LoopVariables
from kerneldsl.ir.frontend.origins import Origin, joined
from kerneldsl.ir.frontend.outside_calls import call_function
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.frontend.statements import bind_target
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.refusals import Refusal, loop_refusal, words
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.matrix import tiles


class _Range(NamedTuple):
    start: Value
    stop: Value
    step: Value
    kind: Any
    #: Trip count of a range of uint64, which a loop counts from 0; ``None`` for other ranges.
    length: Value | None


class _Zip(NamedTuple):
    """Several sources; a source without an end is the first number of a count."""

    sources: list[Any]


#: A range, a tuple of values, an array, or several of these.
_Source = Any


def read_for(reader: Reader, node: ast.For) -> None:
    source = _block_loop(reader, node) or _source(reader, node.iter)
    if has(node.body, ast.Break):
        labeled(reader, "break", lambda: _for(reader, node, source))
    else:
        _for(reader, node, source)


def _block_loop(reader: Reader, node: ast.For) -> BlockLoop | None:
    """Read the head of a loop of blocks; return ``None`` for other loops."""
    use = reader.unit.use_of(node.iter)
    if use is None or use.intrinsic.typing is not Typing.LOOP:
        return None
    assert isinstance(node.iter, ast.Call)
    if use.intrinsic is tiles:
        return tile_loop(reader, node, use)
    match node.iter.args[0]:
        case ast.Call(func=function, args=args) as call if reader.outside(function) is range:
            found = _range(reader, call, args)
            attributes = {"pipelined": use.static["stages"] or 0}
            return BlockLoop(*_counter(reader, found), attributes)
        case other:
            raise Refusal(
                f"kd.pipelined runs over {written(other, reader.unit)}, which is not a range",
                "Write kd.pipelined(range(…))",
            ).at(Part(reader.unit, other))


def _source(reader: Reader, node: ast.expr) -> _Source:
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            called = reader.outside(function)
            if called is range:
                return _range(reader, node, args)
            if called is zip:
                return _Zip([_source(reader, each) for each in args])
            if called is enumerate:
                args = [*args, *(each.value for each in keywords)]
                start = reader.number(args[1]) if len(args) > 1 else reader.constant(0)
                return _Zip([start, _source(reader, args[0])])
    found = reader.value(node)
    if not isinstance(found, tuple) and not isinstance(found.type, types.Array):
        raise loop_refusal(found.type).at(Part(reader.unit, node))
    return found


def _range(reader: Reader, call: ast.Call, args: list[ast.expr]) -> _Range:
    found = [reader.number(each) for each in args]
    for node, value in zip(args, found, strict=True):
        if isinstance(value.type, types.Float):
            raise _float_refusal(reader, node, value)
    kinds = tuple(each.type for each in found)
    is_unsigned = any(isinstance(each, types.Integer) and not each.signed for each in kinds)
    if is_unsigned:
        found, kinds = _converted_bounds(reader, found)
    signature = reader.typing.call(reader.typing.function(range), kinds)
    if reader.notes is not None:
        reader.notes.add_type(call, signature.return_type)
    kind = signature.return_type.dtype
    if len(found) == 1:
        found.insert(0, reader.constant(0, kind))
    if len(found) == 2:
        found.append(reader.constant(1, kind))
    length = _length_of_range(reader, *found) if is_unsigned and kind == types.uint64 else None
    start, stop, step = reader.casts(found, [kind] * 3)
    return _Range(start, stop, step, kind, length)


def _float_refusal(reader: Reader, node: ast.expr, value: Value) -> KernelTypingError:
    """Return the error for a float in ``range``, which Numba cuts off without a word."""
    unit = reader.unit
    text = written(node, unit)
    remedy = f"Write int({text})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        remedy += f", or {written(node.left, unit)} // {written(node.right, unit)}"
    return KernelTypingError(
        f"{unit.qualname} gives {text}, a {value.type}, to range",
        where=unit.locate(node),
        value=text,
        limit="range takes integers, as in Python",
        remedy=remedy,
    )


def _for(reader: Reader, node: ast.For, source: _Source) -> None:
    match source:
        case BlockLoop(bounds, kind, item, attributes):
            _counted(reader, node, bounds, kind, item, attributes)
        case _Range():
            _counted(reader, node, *_counter(reader, source))
        case tuple() if not isinstance(source, _Zip):
            _each(reader, node, list(source))
        case _Zip() if (items := _together(reader, source)) is not None:
            _each(reader, node, items)
        case _:
            stop = _length(reader, source)
            bounds = [reader.constant(0), stop, reader.constant(1)]
            _counted(reader, node, bounds, types.int64, partial(_item, reader, source))


def _counter(reader: Reader, source: _Range) -> tuple[list[Value], Any, Callable[[Value], Any]]:
    """Return the bounds and type of a range's counter, and what gives an item by it."""
    if source.length is None:
        bounds = [source.start, source.stop, source.step]
        return bounds, source.kind, lambda number: number
    bounds = [reader.constant(0), source.length, reader.constant(1)]
    return bounds, types.int64, partial(_item, reader, source)


def _together(reader: Reader, source: _Source) -> list[Any] | None:
    """Return the elements of tuples, ``None`` if a source is no tuple."""
    if not isinstance(source, _Zip):
        is_tuple = isinstance(source, tuple) and not isinstance(source, _Range)
        return list(source) if is_tuple else None
    columns = [None if _is_count(each) else _together(reader, each) for each in source.sources]
    lengths = [len(column) for column in columns if column is not None]
    if not lengths or len(lengths) < sum(not _is_count(each) for each in source.sources):
        return None
    found = []
    for number in range(min(lengths)):
        given = zip(source.sources, columns, strict=True)
        found.append(
            tuple(
                _plus(reader, each, reader.constant(number)) if column is None else column[number]
                for each, column in given
            )
        )
    return found


def _is_count(source: _Source) -> bool:
    return isinstance(source, Value) and isinstance(source.type, types.Integer)


def _length(reader: Reader, source: _Source) -> Value:
    match source:
        case _Range(length=Value() as length):
            return length
        case _Range(start, stop, step):
            distance = reader.numba(operator.sub, [stop, start])
            given = constant_of(step)
            if given != 1:
                if type(given) is not int or given == 0:
                    called = partial(call_function, reader, keywords={})
                    made = called(reader.typing.function(range), [start, stop, step])
                    found_count: Value = called(reader.typing.function(len), [made])
                    return found_count
                rest = reader.constant(given - 1 if given > 0 else given + 1)
                distance = reader.numba(operator.add, [distance, rest])
                distance = reader.numba(operator.floordiv, [distance, reader.constant(given)])
            return _extreme(reader, max, reader.cast(distance, types.int64), reader.constant(0))
        case _Zip(sources):
            found = None
            for each in sources:
                if _is_count(each):
                    continue
                length = _length(reader, each)
                found = length if found is None else _extreme(reader, min, found, length)
            if found is None:
                raise Refusal("zip() has no arguments", "Pass ranges, tuples or arrays")
            return found
        case tuple():
            found_length: Value = reader.constant(len(source))
            return found_length
    return reader.add("array.extent", [source], (types.int64,), {"axis": 0}).result


def _extreme(reader: Reader, function: Any, one: Value, two: Value) -> Value:
    found: Value = call_function(reader, reader.typing.function(function), [one, two], {})
    return found


def _plus(reader: Reader, start: Value, number: Value) -> Value:
    if constant_of(start) == 0:
        return number
    return reader.numba(operator.add, [start, number])


def _item(reader: Reader, source: _Source, number: Value) -> Any:
    match source:
        case _Range(start, _, step, kind, _):
            place = reader.cast(number, kind)
            if constant_of(step) != 1:
                place = reader.cast(reader.numba(operator.mul, [place, step]), kind)
            return reader.cast(_plus(reader, start, place), kind)
        case _Zip(sources):
            return tuple(_item(reader, each, number) for each in sources)
        case tuple():
            first, *others = (type_of(each) for each in source)
            if any(each != first for each in others):
                raise Refusal(
                    f"zip combines an array or a range with {words(types.Tuple((first, *others)))}",
                    "Make the tuple's members of one type, as in (1.5, 2.0)",
                )
            whole = packed(reader, source)
            return unpacked(reader, reader.numba(operator.getitem, [whole, number]))
    if _is_count(source):
        return _plus(reader, source, number)
    return load(reader, source, [number])


def _counted(
    reader: Reader,
    node: ast.For,
    bounds: list[Value],
    kind: Any,
    item: Callable[[Value], Any],
    attributes: dict[str, Any] | None = None,
) -> None:
    def read(variables: LoopVariables, regions: list[Region]) -> dict[str, Any] | None:
        (body,) = regions
        reader.variables = variables.inside(0)
        counter = body.arguments[0]
        reader.origins.set(counter, Origin.OTHER)

        def bind() -> None:
            bind_target(reader, node.target, item(counter))

        return read_body(reader, body, node.body, bind)

    read_loop(reader, "for", bounds, attributes or {}, 1, _names(node), read, (kind,))


def _each(reader: Reader, node: ast.For, items: list[Any]) -> None:
    """Read a loop over values that are known by their number."""
    if not items:
        return
    parts = [leaves(each) for each in items]
    kinds = [[value.type for value in each] for each in parts]
    if any(each != kinds[0] for each in kinds):
        _one_by_one(reader, node, items)
        return
    numbers = [constant_of(each[0]) for each in parts]
    attributes: dict[str, Any]
    if kinds[0] == [types.int64] and all(type(number) is int for number in numbers):
        attributes, operands = {"values": tuple(numbers)}, []
    else:
        attributes = {"count": len(items), "width": len(kinds[0])}
        operands = [value for each in parts for value in each]

    def read(variables: LoopVariables, regions: list[Region]) -> dict[str, Any] | None:
        (body,) = regions
        reader.variables = variables.inside(0)
        item = _nested(items[0], iter(list(body.arguments)))
        return read_body(reader, body, node.body, lambda: bind_target(reader, node.target, item))

    names = _names(node)
    if not read_loop(reader, "for_each", operands, attributes, 1, names, read, tuple(kinds[0])):
        unreachable(reader)


def _one_by_one(reader: Reader, node: ast.For, items: list[Any]) -> None:
    """Read the body of a loop for each of several values, which have different types."""
    for item in items:

        def read(item: Any = item) -> None:
            bind_target(reader, node.target, item)
            reader.block(node.body)

        if has(node.body, ast.Continue):
            labeled(reader, "continue", read)
        else:
            read()
        if reader.region.is_left:
            return


def _nested(item: Any, values: Any) -> Any:
    """Return values in the form of an item."""
    if isinstance(item, tuple):
        return tuple(_nested(each, values) for each in item)
    return next(values)


def _names(node: ast.For) -> list[str]:
    return list(dict.fromkeys((*assigned([ast.Expr(node.target)]), *assigned(node.body))))


# Start and stop decide the type of the numbers of a range, as operands do:
# ``docs/adr/0031-integers-stay-integers.md``. The loops of the IR count in signed integers. A range
# of uint64 is counted from 0 instead. Its length is at most the largest int64, which no loop
# reaches.

_SIGNED, _WIDE = types.int64, types.uint64
_MOST = int(_SIGNED.maxval)


def _converted_bounds(
    reader: Reader, found: list[Value]
) -> tuple[list[Value], tuple[types.Type, ...]]:
    """Return the arguments of a ``range``, and the types by which Numba chooses its type."""
    bounds, origins = found[:2], reader.origins
    if reduce(joined, map(origins.of, bounds)) is Origin.WIDE and all(
        is_unsigned(each) or origins.is_converted(each) for each in bounds
    ):
        wide = [_as_wide(reader, each) for each in bounds]
        return [*wide, *found[2:]], (_WIDE,) * len(found)
    signs = {each.type.signed for each in found if isinstance(each.type, types.Integer)}
    # Numba takes an int32 beside an unsigned number for the type of both.
    kinds = (_SIGNED,) * len(found) if len(signs) > 1 else tuple(each.type for each in found)
    return found, kinds


def _as_wide(reader: Reader, value: Value) -> Value:
    if reader.origins.is_converted(value):
        return reader.origins.convert(reader, value)
    return reader.cast(value, _WIDE)


def _length_of_range(reader: Reader, start: Value, stop: Value, step: Value) -> Value | None:
    """Return the length of a range of uint64, at most the largest int64.

    Without a bound that the program makes a uint64, or with small constants, return ``None``: the
    range can be counted in signed integers.
    """
    is_wide = all(reader.origins.of(each) is Origin.WIDE for each in (start, stop))
    numbers = constant_of(start), constant_of(stop)
    if not is_wide or all(each is not None and 0 <= each <= _MOST for each in numbers):
        return None
    given = constant_of(step)
    distance, size = (
        _distance_by(reader, start, stop, step)
        if given is None
        else _distance_by_constant(reader, start, stop, given)
    )
    if constant_of(size) != 1:
        rest = reader.numba(operator.mod, [distance, size])
        distance = reader.numba(operator.floordiv, [distance, size])
        is_inside = reader.numba(operator.ne, [rest, reader.constant(0, _WIDE)])
        distance = reader.numba(operator.add, [distance, reader.cast(is_inside, _WIDE)])
    return reader.cast(_bound(reader, min, distance, reader.constant(_MOST, _WIDE)), _SIGNED)


def _distance_by_constant(
    reader: Reader, start: Value, stop: Value, step: int
) -> tuple[Value, Value]:
    """Return the distance in the direction of a step, 0 if it leads away, and the step's size."""
    size = reader.constant(max(abs(step), 1), _WIDE)
    if step == 0:
        return reader.constant(0, _WIDE), size
    return _distance(reader, *((start, stop) if step > 0 else (stop, start))), size


def _distance_by(reader: Reader, start: Value, stop: Value, step: Value) -> tuple[Value, Value]:
    zero = reader.constant(0, step.type)
    is_up = reader.numba(operator.gt, [step, zero])
    distance = _if(reader, is_up, _distance(reader, start, stop))
    size = step
    if step.type.signed:
        is_down = reader.numba(operator.lt, [step, zero])
        down = _if(reader, is_down, _distance(reader, stop, start))
        distance = reader.numba(operator.add, [distance, down])
        size = call_function(reader, reader.typing.function(abs), [step], {})
    return distance, _bound(reader, max, reader.cast(size, _WIDE), reader.constant(1, _WIDE))


def _distance(reader: Reader, low: Value, high: Value) -> Value:
    """Return the distance between two uint64, 0 if they are in the other order."""
    if constant_of(low) == 0:
        return high
    return reader.numba(operator.sub, [_bound(reader, max, low, high), low])


def _if(reader: Reader, test: Value, number: Value) -> Value:
    """Return a uint64 if a test holds, else 0."""
    return reader.numba(operator.mul, [number, reader.cast(test, _WIDE)])


def _bound(reader: Reader, function: Any, one: Value, two: Value) -> Value:
    found = _extreme(reader, function, one, two)
    assert isinstance(found.owner, Operation)
    found.owner.attributes["bounds_range"] = True
    return found
