"""The mark at the end of a loop that is unrolled in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, mark_loop
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic

__all__ = ["UNROLL", "UNROLL_NAME"]

#: The name that generated code calls it by.
UNROLL_NAME = "kd_unroll"


def _rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.none()


def _mark(call: Call) -> ir.Value:
    mark_loop(call.builder, FULLY_UNROLLED)
    return call.context.get_dummy_value()


UNROLL = BoundIntrinsic("tile.unroll", _rule, _mark, {})
