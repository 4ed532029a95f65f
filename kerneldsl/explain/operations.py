"""Operations for many threads at once: a function for each kind of operation.

Values that follow from the launch and the arguments are computed; what is read from memory is known
only where the array's contents are. Each access and each operation is counted for the lanes that
perform it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from kerneldsl.explain.counting import count_floats, count_operation
from kerneldsl.explain.explanation import TENSOR_FMA
from kerneldsl.explain.lane_memory import LaneMemory, parts_of, record_type
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.sites import site_of
from kerneldsl.explain.subscripts import elements, view_as, view_of
from kerneldsl.explain.values import (
    UNKNOWN,
    Space,
    Value,
    View,
    as_dtype,
    choose,
    computed,
    possible,
)
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.written import kind_of, language_type
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect, Typing
from kerneldsl.language.intrinsics.tiles import INTERNAL
from kerneldsl.language.kinds import ScalarKind

__all__ = ["EVALUATED", "INTRINSICS", "call_of_language", "intrinsic"]

_Evaluated = Callable[[LaneMemory, Operation], Value]

#: NumPy's functions of Python's operators.
_OPERATORS: dict[Any, Callable[..., Any]] = {
    operator.truediv: np.true_divide,
    operator.floordiv: np.floor_divide,
    operator.mod: np.mod,
    operator.pow: np.power,
    operator.lshift: np.left_shift,
    operator.rshift: np.right_shift,
    operator.and_: np.bitwise_and,
    operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor,
    operator.neg: np.negative,
    operator.pos: np.positive,
    operator.invert: np.invert,
    operator.not_: np.logical_not,
    **{
        each: each
        for each in (
            *(operator.add, operator.sub, operator.mul, operator.eq, operator.ne),
            *(operator.lt, operator.le, operator.gt, operator.ge),
        )
    },
}
#: NumPy's functions of mathematical functions, by the last part of their names.
_FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(("abs", "absolute", "fabs"), np.abs),
    **dict.fromkeys(("min", "minimum"), np.minimum),
    **dict.fromkeys(("max", "maximum"), np.maximum),
    **dict.fromkeys(("pow", "power"), np.power),
    **{
        name: getattr(np, name)
        for name in (
            *("sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor"),
            *("ceil", "trunc", "hypot", "sinh", "cosh", "isnan", "isinf", "isfinite", "sign"),
        )
    },
    "bool": np.bool_,
}
_EXTREMES = (np.minimum, np.maximum)
#: Operators that Numba computes in other types than their operands'.
_OWN_OPERANDS = (np.left_shift, np.right_shift, np.power)


def call_of_language(run: LaneMemory, operation: Operation) -> Value:
    """Return what a call of the language gives."""
    return INTRINSICS.get(operation.name, intrinsic)(run, operation)


# -- numbers ------------------------------------------------------------------------------------


def _constant(run: LaneMemory, operation: Operation) -> Value:
    value = operation.attributes["value"]
    if not isinstance(value, np.ndarray):
        return value
    name = operation.result.name or site_of(operation).text
    memory = run.made(id(value), name, Space.CONSTANT, value.dtype.name, value.shape, value)
    return view_of(memory)


def _cast(run: LaneMemory, operation: Operation) -> Value:
    return as_dtype(run.get(operation.operands[0]), kind_of(operation.result))


def _of_numba(run: LaneMemory, operation: Operation) -> Value:
    """Return what an operator or a function gives."""
    function = operator_of(operation)
    special = _SPECIAL.get(function)
    if special is not None:
        return special(run, operation)
    operands = operands_of(operation)
    values = list(map(run.get, operands))
    if not operation.results:
        return UNKNOWN
    name = str(getattr(function, "__name__", function)).rpartition(".")[2]
    called = _OPERATORS.get(function) or _FUNCTIONS.get(name)
    kinds = operation.attributes["signature"].args
    if called not in _OWN_OPERANDS and len(kinds) == len(values):
        values = [as_dtype(v, language_type(kind)) for v, kind in zip(values, kinds, strict=True)]
    result = kind_of(operation.result)
    count_operation(run, operation, values)
    if called in _EXTREMES:
        found = values[0]
        for each in values[1:]:
            found = computed(called, found, each)
    else:
        found = computed(called, *values)
    return as_dtype(found, result)


def _is_same(run: LaneMemory, operation: Operation) -> Value:
    one, two = map(run.get, operation.operands)
    return (one is two) == (operator_of(operation) is operator.is_)


def _slice(run: LaneMemory, operation: Operation) -> Value:
    return slice(*map(run.get, operation.operands))


# -- arrays -------------------------------------------------------------------------------------


def _of_view(read: Callable[[View, Operation], Value]) -> _Evaluated:
    """Return what evaluates an operation of an array that is known."""

    def evaluated(run: LaneMemory, operation: Operation) -> Value:
        array = run.get(operation.operands[0])
        return read(array, operation) if isinstance(array, View) else UNKNOWN

    return evaluated


def _transposed(array: View, operation: Operation) -> Value:
    shape, strides = array.shape[::-1], array.strides[::-1]
    return replace(array, shape=shape, strides=strides, chosen=None, part=None)


def _load(run: LaneMemory, operation: Operation) -> Value:
    array, *parts = map(run.get, operation.operands)
    return _element(run, operation, run.element(array, parts))


def _element(run: LaneMemory, operation: Operation, found: Value) -> Value:
    """Return an element that is read; of a record, its place."""
    is_record = record_type(kind_of(operation.result)) is not None
    if isinstance(found, View) and not found.shape and not is_record:
        run.access(operation, found)
        return elements(found, run.threads.lane_count)
    return found


def _get_item(run: LaneMemory, operation: Operation) -> Value:
    array, index = map(run.get, operation.operands)
    return _element(run, operation, run.element(array, parts_of(index)))


def _set_item(run: LaneMemory, operation: Operation) -> Value:
    _copy(run, operation)
    array, index, _ = map(run.get, operation.operands)
    return _write(run, operation, run.element(array, parts_of(index)))


def _store(run: LaneMemory, operation: Operation) -> Value:
    _copy(run, operation)
    array, *parts, _ = map(run.get, operation.operands)
    return _write(run, operation, run.element(array, parts))


def _copy(run: LaneMemory, operation: Operation) -> None:
    """Count the reading of a whole record that is stored."""
    stored = operation.operands[-1]
    value, made = run.get(stored), stored.owner
    if isinstance(value, View) and not value.shape:
        source = made if isinstance(made, Operation) else operation
        run.access(
            source,
            value,
            site=site_of(operation, run.statement.source.assigned_to(operation.source)),
        )


def _write(run: LaneMemory, operation: Operation, found: Value) -> Value:
    if isinstance(found, View) and not found.shape:
        run.access(operation, found, is_store=True)
    return UNKNOWN


# -- records and tuples -------------------------------------------------------------------------


def _field(run: LaneMemory, operation: Operation) -> Value:
    """Return a field of a record, or an attribute of an array."""
    base = run.get(operation.operands[0])
    found = run.field(base, kind_of(operation.operands[0]), _name_of(operation))
    if found is UNKNOWN and isinstance(base, View) and _name_of(operation) == "itemsize":
        return base.itemsize
    return _element(run, operation, found)


def _set_field(run: LaneMemory, operation: Operation) -> Value:
    _copy(run, operation)
    base = operation.operands[0]
    return _write(run, operation, run.field(run.get(base), kind_of(base), _name_of(operation)))


def _name_of(operation: Operation) -> str:
    attributes = operation.attributes
    name: str = attributes["attribute"] if "attribute" in attributes else attributes["index"]
    return name


def _tuple(run: LaneMemory, operation: Operation) -> Value:
    return tuple(map(run.get, operation.operands))


def _member(run: LaneMemory, operation: Operation) -> Value:
    found = run.get(operation.operands[0])
    return found[operation.attributes["number"]] if isinstance(found, tuple) else UNKNOWN


#: Functions of Numba's that have no function of NumPy's.
_SPECIAL: dict[Any, _Evaluated] = {
    operator.getitem: _get_item,
    operator.setitem: _set_item,
    operator.is_: _is_same,
    operator.is_not: _is_same,
    slice: _slice,
}
EVALUATED: dict[str, _Evaluated] = {
    **dict.fromkeys(("array.load", "array.part", "array.view", "packed.load"), _load),
    **dict.fromkeys(("attribute", "item"), _field),
    "item.set": _set_field,
    **dict.fromkeys(("bound", "undefined"), lambda run, operation: UNKNOWN),
    "array.extent": _of_view(lambda view, made: view.shape[made.attributes["axis"]]),
    "array.size": _of_view(lambda view, made: math.prod(map(int, view.shape))),
    "array.store": _store,
    "array.stride": _of_view(lambda view, made: view.strides[made.attributes["axis"]]),
    "array.transpose": _of_view(_transposed),
    "cast": _cast,
    "const": _constant,
    "numba": _of_numba,
    "tuple.make": _tuple,
    "tuple.member": _member,
}


# -- operations of the language -------------------------------------------------------------------


#: Prefixes of collective operations, which use memory or exchanges.
_GROUPS = ("block.", "warp.", "chain.")


def intrinsic(run: LaneMemory, operation: Operation) -> Value:
    """Return what an operation gives that is not in the table."""
    use = operation.attributes.get("use")
    if not isinstance(use, IntrinsicUse):
        return UNKNOWN
    name, effect = use.intrinsic.name, use.intrinsic.effect
    if Effect.ATOMIC in effect:
        return _atomic(run, operation)
    is_declared = use.intrinsic.typing is Typing.LINKED_ARRAY  # the Python body has accesses
    if name.startswith(_GROUPS) or (effect & (Effect.READ | Effect.WRITE) and not is_declared):
        run.tallies.left_out.add(name)
    return UNKNOWN


def _coordinate(run: LaneMemory, operation: Operation) -> Value:
    base, _, axis = operation.name.partition(".")
    found: Any = getattr(run.threads, _COORDINATES[base])["xyz".index(axis)]
    return found


_COORDINATES = {
    "threadIdx": "thread_index",
    "blockIdx": "block_index",
    "blockDim": "block_dim",
    "gridDim": "grid_dim",
}


def _grid(run: LaneMemory, operation: Operation) -> Value:
    axis = operation.attributes.get("axis", 0)
    return run.threads.global_index(axis) if run.indices is None else run.indices[axis]


def _grid_size(run: LaneMemory, operation: Operation) -> Value:
    axis = operation.attributes.get("axis", 0)
    return run.threads.block_dim[axis] * run.threads.grid_dim[axis]


def _array(run: LaneMemory, operation: Operation) -> Value:
    dtype, shape = str(operation.attributes["dtype"]), tuple(operation.attributes["shape"])
    if shape == (0,):
        shape = (max(1, run.shared_bytes // ELEMENT_TYPES[dtype].nbytes),)
    space = Space.SHARED if operation.name == "shared.array" else Space.LOCAL
    name = operation.result.name or operation.attributes["site"][1]
    return view_of(run.made(operation.source.node, name, space, dtype, shape))


def _atomic(run: LaneMemory, operation: Operation) -> Value:
    array, index = map(run.get, operation.operands[:2])
    found = run.element(array, parts_of(index))
    if isinstance(found, View):
        is_store = operation.name != "atomic.load"
        run.access(operation, found, is_store=is_store, is_atomic=True)
    return UNKNOWN


def _same(run: LaneMemory, operation: Operation) -> Value:
    return run.get(operation.operands[0])


def _select(run: LaneMemory, operation: Operation) -> Value:
    condition, yes, no = map(run.get, operation.operands)
    holds, is_data = possible(condition)
    return UNKNOWN if is_data else choose(holds, yes, no)


def _view(run: LaneMemory, operation: Operation) -> Value:
    array = run.get(operation.operands[0])
    if not isinstance(array, View):
        return UNKNOWN
    return view_as(array, ELEMENT_TYPES[str(operation.attributes["dtype"])].nbytes)


def _of_floats(run: LaneMemory, operation: Operation) -> Value:
    result = kind_of(operation.result)
    if isinstance(result, ScalarKind) and result.element.is_float:
        count_floats(run, operation, result, operation.name)
    if operation.name != "fma":
        return UNKNOWN
    return computed(lambda a, b, c: a * b + c, *map(run.get, operation.operands))


# -- tiles --------------------------------------------------------------------------------------


def _load_tile(run: LaneMemory, operation: Operation) -> Value:
    array, _, *at = map(run.get, operation.operands)
    return _tile(run, operation, array, at)


def _store_tile(run: LaneMemory, operation: Operation) -> Value:
    first = operation.attributes["first"]
    array, *at = map(run.get, operation.operands[:first])
    _tile_elements(run, operation)
    return _tile(run, operation, array, at)


def _tile(run: LaneMemory, operation: Operation, array: Value, at: list[Value]) -> Value:
    """Count the accesses of a tile."""
    if isinstance(array, View) and len(at) == len(array.shape):
        is_store = operation.name == "tile.store"
        run.tile_access(operation, array, at, operation.attributes["shape"], is_store=is_store)
    else:
        run.tallies.left_out.add(operation.name)
    return UNKNOWN


def _tile_operation(run: LaneMemory, operation: Operation) -> Value:
    called = operation.attributes["called"]
    if called not in INTERNAL:
        run.tallies.left_out.add(called.name)
    _tile_elements(run, operation)
    return UNKNOWN


def _product(run: LaneMemory, operation: Operation) -> Value:
    """Count the products of floats of a block, the same number for each thread."""
    dtype = str(operation.operands[0].type.dtype)
    if ELEMENT_TYPES[dtype].is_float:
        attributes = operation.attributes
        count = math.prod((*attributes["shape"], attributes["depth"]))
        is_ordered = dtype in ("float32", "float64") and attributes["precision"] != "tf32"
        name = "fma" if is_ordered or attributes["precision"] == "reference" else TENSOR_FMA
        times = Fraction(count, math.prod(run.threads.block_dim))
        count_floats(run, operation, ScalarKind(dtype), name, times)
    return UNKNOWN


def _tile_elements(run: LaneMemory, operation: Operation) -> None:
    """Run what is computed of elements, once for each thread."""
    if operation.regions:
        elements, *_ = operation.regions
        run.values.update(dict.fromkeys(elements.arguments, UNKNOWN))
        run.run(elements)


INTRINSICS: dict[str, Callable[[LaneMemory, Operation], Value]] = {
    **{f"{name}.{axis}": _coordinate for name in _COORDINATES for axis in "xyz"},
    "cbrt": _of_floats,
    "const.array_like": _same,
    "fma": _of_floats,
    "grid": _grid,
    "gridsize": _grid_size,
    "laneid": lambda run, operation: np.arange(run.threads.lane_count) % WARP_LANES,
    "local.array": _array,
    "rsqrt": _of_floats,
    "selp": _select,
    "shared.array": _array,
    "tile.load": _load_tile,
    "tile.mma": _product,
    "tile.place": _same,
    "tile.store": _store_tile,
    **dict.fromkeys(
        (
            *("tile.argsort", "tile.fold", "tile.map", "tile.of", "tile.own", "tile.scan"),
            *("tile.sort", "tile.take"),
        ),
        _tile_operation,
    ),
    "uniform": _same,
    "view": _view,
    "warpsize": lambda run, operation: WARP_LANES,
}
