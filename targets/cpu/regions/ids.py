"""Rewrites of ids: by the indices of the block and the thread, or of a warp that runs by itself.

If all barriers of a kernel are those of warps, it does not depend on the order of its warps. Each
of them then goes through the whole kernel as a block of 32 threads does. What its lanes share has
one value, and branches and loops that they take together are branches and loops of the warp.

Lanes often share an index that is divided by the size of a warp. A warp begins at a multiple of
that, so ``(start + lane) // 32`` becomes ``start // 32``, and ``(start + lane) % 32`` the lane.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Dim3, Specialization
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.recognize import constant_number, operator_of
from kerneldsl.ir.rewriter import Builder, Pattern, if_then
from kerneldsl.ir.simplify import folded
from kerneldsl.ir.typing import Typing
from kerneldsl.language.intrinsics.intrinsic import Effect, Scope
from targets.cpu.intrinsics.table import Together, lowering_of
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter

__all__ = [
    "HANDLERS",
    "WARP",
    "guard_extent",
    "id_patterns",
    "in_warps",
    "position_of",
    "runs_by_warps",
]

#: Threads that run together.
WARP = (WARP_SIZE, 1, 1)
_I64 = ir.IntType(64)
_FLOOR = {operator.floordiv, operator.rshift}
_AXES = "xyz"


def id_patterns(
    typing: Typing, spec: Specialization, *, by_warps: bool = False
) -> dict[str, Pattern]:
    """Return the rewrites of ids; ``threadIdx``, ``blockIdx`` and ``gridDim`` remain.

    Along an axis with one thread ``threadIdx`` is 0. If each warp runs by itself, ``threadIdx.x``
    is the lane, and ``warp`` is where the warp begins in its block.
    """
    assert spec.block_dim is not None
    kind = _IdsOfWarps if by_warps else _Ids
    return kind(typing, spec.block_dim, is_forall=spec.mode.is_forall).patterns()


def guard_extent(function: Function, typing: Typing, ndim: int) -> None:
    """Let only threads with an index in the extent of ``forall`` run a kernel, in place."""
    body = function.body
    *operations, end = body.operations
    for axis in range(ndim):
        build = Builder(typing)
        index = build.add("grid", kind=types.int64)
        assert isinstance(index.owner, Operation)
        index.owner.attributes |= {"ndim": 1, "axis": axis}
        test = build.numba(operator.lt, index, build.add(f"extent.{_AXES[axis]}"))
        operations = [*build.operations, if_then(test, operations)]
    body.operations = [*operations, end]


def position_of(build: Builder, block_dim: Dim3) -> Value:
    """Return the index of a thread in its block, through x, then y, then z."""
    width, height, _ = block_dim
    found = build.add("threadIdx.x")
    for axis, step in (("y", width), ("z", width * height)):
        if block_dim[_AXES.index(axis)] > 1:
            place = build.numba(operator.mul, build.add(f"threadIdx.{axis}"), build.constant(step))
            found = build.numba(operator.add, place, found)
    return found


class _Ids:
    def __init__(self, typing: Typing, block_dim: Dim3, *, is_forall: bool) -> None:
        self.typing = typing
        self.block_dim = block_dim
        self.is_forall = is_forall

    def patterns(self) -> dict[str, Pattern]:
        found: dict[str, Pattern] = {
            "grid": self.written(self.grid),
            "gridsize": self.written(self.gridsize),
            "laneid": self.written(self.lane),
            "lanemask_lt": self.written(self.lower_lanes),
            "warpsize": self.written(lambda build, _: build.constant(WARP_SIZE)),
            "numba": folded,
        }
        for number, axis in enumerate(_AXES):
            found[f"blockDim.{axis}"] = self.known(self.block_dim[number])
            if self.block_dim[number] == 1:
                found[f"threadIdx.{axis}"] = self.known(0)
        return found

    def written(self, write: Callable[[Builder, Operation], Value]) -> Pattern:
        """Return a pattern of what writes the value that takes the place of an id."""

        def pattern(operation: Operation) -> Any:
            build = Builder(self.typing)
            found = build.cast(write(build, operation), operation.result.type)
            found.name = operation.result.name
            return build.operations, [found]

        return pattern

    def known(self, value: int) -> Pattern:
        return self.written(lambda build, _: build.constant(value))

    def grid(self, build: Builder, operation: Operation) -> Value:
        number = operation.attributes.get("axis", 0)
        axis = _AXES[number]
        block = build.add(f"blockIdx.{axis}")
        start = build.numba(operator.mul, block, build.constant(self.block_dim[number]))
        return build.numba(operator.add, start, build.add(f"threadIdx.{axis}"))

    def gridsize(self, build: Builder, operation: Operation) -> Value:
        number = operation.attributes.get("axis", 0)
        axis = _AXES[number]
        if self.is_forall:
            return build.add(f"extent.{axis}")
        count = build.constant(self.block_dim[number])
        return build.numba(operator.mul, build.add(f"gridDim.{axis}"), count)

    def lane(self, build: Builder, _: Operation) -> Value:
        position = position_of(build, self.block_dim)
        if math.prod(self.block_dim) <= WARP_SIZE:
            return position
        return build.numba(operator.mod, position, build.constant(WARP_SIZE))

    def lower_lanes(self, build: Builder, operation: Operation) -> Value:
        one = build.constant(1)
        bit = build.numba(operator.lshift, one, self.lane(build, operation))
        return build.cast(build.numba(operator.sub, bit, one), types.uint32)


class _IdsOfWarps(_Ids):
    def patterns(self) -> dict[str, Pattern]:
        found = super().patterns() | {"numba": self.fold}
        for number, axis in enumerate(_AXES):
            if axis == "x":
                found["threadIdx.x"] = self.thread
            elif self.block_dim[number] > 1:
                found[f"threadIdx.{axis}"] = self.written(partial(self.start, axis))
        return found

    def thread(self, operation: Operation) -> Any:
        """Return the start of the warp and the lane; a lane remains."""
        if "is_lane" in operation.attributes:
            return None
        return self.written(
            lambda build, each: build.numba(
                operator.add, build.add("warp.x"), self.lane(build, each)
            )
        )(operation)

    def start(self, axis: str, build: Builder, _: Operation) -> Value:
        return build.add(f"warp.{axis}")

    def lane(self, build: Builder, _: Operation) -> Value:
        found = build.add("threadIdx.x")
        assert isinstance(found.owner, Operation)
        found.owner.attributes["is_lane"] = True
        return found

    def fold(self, operation: Operation) -> Any:
        return folded(operation) or _divided(self.typing, operation)


# -- warps that run one after the other ------------------------------------------------------------


def runs_by_warps(function: Function, spec: Specialization) -> bool:
    """Return whether a kernel runs one warp at a time.

    In debug mode none does: it is what others are compared with.
    """
    if spec.block_dim is None or spec.block_dim[0] % WARP_SIZE or spec.options.debug:
        return False
    operations = list(function.body.walk())
    uses = [each.attributes["use"] for each in operations if "use" in each.attributes]
    return (
        any(use.intrinsic.is_barrier for use in uses)
        and not any(
            use.intrinsic.synchronizes(Scope.BLOCK)
            or isinstance(lowering_of(use.intrinsic), Together)
            for use in uses
        )
        and not any(each.name.startswith("tile.") for each in operations)
        and not any(map(_may_wait, operations))
    )


def _may_wait(operation: Operation) -> bool:
    """Return whether a loop may go on until another warp has done something.

    So may one that ends by what an atomic operation finds, or a function that is called.
    """
    if operation.name != "while":
        return False
    inner = list(operation.walk())
    intrinsics = [each.attributes["use"].intrinsic for each in inner if "use" in each.attributes]
    return any(each.is_barrier for each in intrinsics) and (
        any(each.effect & (Effect.ATOMIC | Effect.FENCE) for each in intrinsics)
        or any(each.name == "linked" for each in inner)
    )


def in_warps(operations: list[Operation], spec: Specialization) -> Operation:
    """Return the loop over the warps of a block around what each of them does."""
    return Operation("warps", [], (), {"block_dim": spec.block_dim}, [Region.of(operations)])


def _divided(typing: Typing, operation: Operation) -> Any:
    """Rewrite a division of an index of a thread, which is the start of a warp and a lane."""
    if len(operation.operands) != 2 or operation.result.type != types.int64:
        return None
    index, divisor = operation.operands
    function, by = operator_of(operation), _divisor(operation)
    if by is None or by % WARP_SIZE:
        return None
    build = Builder(typing)
    parts = _start_and_lane(build, index)
    if parts is None:
        return None
    start, lane = parts
    if function in _FLOOR:
        found = build.numba(function, start, divisor)
    elif by == WARP_SIZE:
        return [], [lane]
    else:
        found = build.numba(operator.add, build.numba(function, start, divisor), lane)
    found.name = operation.result.name
    return build.operations, [found]


def _divisor(operation: Operation) -> int | None:
    """Return by what a quotient or a remainder divides, if that is a positive constant."""
    number = constant_number(operation.operands[1])
    if number is None or number < 0:
        return None
    match operator_of(operation):
        case operator.floordiv | operator.mod:
            return number or None
        case operator.rshift if number < 32:
            return int(1 << number)
        case operator.and_ if number & (number + 1) == 0:
            return number + 1
    return None


def _start_and_lane(build: Builder, value: Value) -> tuple[Value, Value] | None:
    """Return an index as a multiple of the size of a warp, and a lane."""
    made = value.owner
    if not isinstance(made, Operation) or value.type != types.int64:
        return None
    if made.name == "threadIdx.x":
        return build.constant(0), value
    if operator_of(made) is not operator.add:
        return None
    one, two = made.operands
    for index, rest in ((one, two), (two, one)):
        if not _is_multiple(rest):
            continue
        parts = _start_and_lane(build, index)
        if parts is not None:
            start, lane = parts
            if constant_number(start) == 0:
                return rest, lane
            return build.numba(operator.add, rest, start), lane
    return None


def _is_multiple(value: Value) -> bool:
    """Return whether an int64 is a multiple of the size of a warp."""
    made, number = value.owner, constant_number(value)
    if number is not None:
        return number % WARP_SIZE == 0
    if not isinstance(made, Operation) or value.type != types.int64:
        return False
    if made.name == "warp.x":
        return True
    if made.name != "numba" or not all(each.type == types.int64 for each in made.operands):
        return False
    match operator_of(made):
        case operator.add | operator.sub:
            return all(map(_is_multiple, made.operands))
        case operator.mul:
            return any(map(_is_multiple, made.operands))
    return False


def _warps(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the loops over the warps of a block."""
    (region,) = operation.regions
    width, height, depth = operation.attributes["block_dim"]
    emitter.extents, emitter.threads_count = WARP, WARP_SIZE
    with ExitStack() as loops:
        for axis, extent, step in (("z", depth, 1), ("y", height, 1), ("x", width, WARP_SIZE)):
            start: Any = _I64(0)
            if extent > step:
                loop = CountedLoop(emitter.builder, _I64(0), _I64(extent), step=step)
                start = loops.enter_context(loop)
            emitter.ids[f"warp.{axis}"] = start
        emitter.operations(region.operations[:-1])


HANDLERS = {"warps": _warps}
