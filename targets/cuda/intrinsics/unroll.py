"""Intrinsics of unrolled loops: marks at their end, and a copy that LLVM cannot look into."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.loop_marks import (
    FULLY_UNROLLED,
    NOT_UNROLLED,
    UNROLLED_BY_FOUR,
    mark_loop,
)
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic

__all__ = [
    "BY_FOUR",
    "BY_FOUR_NAME",
    "MAX_UNROLLED",
    "ROLLED",
    "ROLLED_NAME",
    "SAME",
    "SAME_NAME",
    "UNROLL",
    "UNROLL_NAME",
]

#: Turns of a loop over a thread's elements beyond which it is left as it is. More elements than
#: half of the 255 registers of a thread (CUDA C++ Programming Guide, "Technical Specifications per
#: Compute Capability") are in local memory anyway; LLVM gives up at some number and warns,
#: and before that it writes code that takes many seconds to compile and to assemble.
MAX_UNROLLED = 128

#: The names that generated code calls them by.
UNROLL_NAME, ROLLED_NAME, SAME_NAME = "kd_unroll", "kd_rolled", "kd_same"
BY_FOUR_NAME = "kd_unroll_by_four"


def _rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.none()


def _mark(wish: str, call: Call) -> ir.Value:
    mark_loop(call.builder, wish)
    return call.context.get_dummy_value()


UNROLL = BoundIntrinsic("tile.unroll", _rule, partial(_mark, FULLY_UNROLLED), {})
BY_FOUR = BoundIntrinsic("loop.unroll_by_four", _rule, partial(_mark, UNROLLED_BY_FOUR), {})
ROLLED = BoundIntrinsic("loop.rolled", _rule, partial(_mark, NOT_UNROLLED), {})


def _rule_of_same(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.int64(types.int64)


def _copy(call: Call) -> ir.Value:
    (value,) = call.args
    kind = ir.FunctionType(value.type, [value.type])
    return call.builder.asm(kind, "mov.b64 $0, $1;", "=l,l", [value], side_effect=False)


#: The same int64.
SAME = BoundIntrinsic("loop.same", _rule_of_same, _copy, {})
