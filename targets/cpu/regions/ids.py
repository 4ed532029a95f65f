"""Rewrites of ids: by the index of the thread in its block, and of the block."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.contract import Dim3, Specialization
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import Builder, Pattern, if_then
from kerneldsl.ir.typing import Typing
from targets.cpu.regions.warps import divided

__all__ = ["guard_extent", "id_patterns", "position_of"]

_AXES = "xyz"
_FOLDED = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)


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
            "numba": self.fold,
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

    def fold(self, operation: Operation) -> Any:
        """Compute what constants of the block give."""
        function = operation.attributes["function"]
        if len(operation.operands) != 2 or function not in _FOLDED:
            return None
        one, two = map(constant_number, operation.operands)
        if operation.result.type != types.int64 or one is None or two is None or two == 0:
            return None
        found = function(one, two)
        if not -(2**63) <= found < 2**63:
            return None
        made = Operation("const", [], (types.int64,), {"value": found})
        return [made], [made.result]


class _IdsOfWarps(_Ids):
    def patterns(self) -> dict[str, Pattern]:
        found = super().patterns()
        for number, axis in enumerate(_AXES):
            if axis == "x":
                found["threadIdx.x"] = self.thread
            elif self.block_dim[number] > 1:
                found[f"threadIdx.{axis}"] = self.written(partial(_start_of_warp, axis))
        return found

    def thread(self, operation: Operation) -> Any:
        """Return the start of the warp and the lane; a lane remains."""
        if "is_lane" in operation.attributes:
            return None
        return self.written(
            lambda build, _: build.numba(operator.add, build.add("warp.x"), _lane(build))
        )(operation)

    def lane(self, build: Builder, _: Operation) -> Value:
        return _lane(build)

    def fold(self, operation: Operation) -> Any:
        return super().fold(operation) or divided(self.typing, operation)


def _start_of_warp(axis: str, build: Builder, _: Operation) -> Value:
    return build.add(f"warp.{axis}")


def _lane(build: Builder) -> Value:
    found = build.add("threadIdx.x")
    assert isinstance(found.owner, Operation)
    found.owner.attributes["is_lane"] = True
    return found
