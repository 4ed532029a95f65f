"""Operations of the language for many threads at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kerneldsl.explain.counting import count_floats
from kerneldsl.explain.explanation import TENSOR_FMA
from kerneldsl.explain.lane_memory import LaneMemory, parts_of
from kerneldsl.explain.reading import kind_of
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.subscripts import view_as, view_of
from kerneldsl.explain.values import UNKNOWN, Space, Value, View, choose, computed, possible
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.operations import Operation
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect, Typing
from kerneldsl.language.intrinsics.tiles import INTERNAL
from kerneldsl.language.kinds import ScalarKind

__all__ = ["INTRINSICS", "intrinsic"]

#: What threads do together, by memory and their own exchanges.
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
    reserved = operation.attributes.get("reserved")
    if reserved is None:  # packed numbers, element by element
        run.tallies.left_out.add("tile.load")
    else:
        called = operation.source.unit.uses[reserved].intrinsic
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
