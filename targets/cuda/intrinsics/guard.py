"""The guard of a kernel whose threads work on several indices: tested, passed or asked about.

The entry calls the body in three ways (:mod:`targets.cuda.compile.calling`). Each is inlined
for itself, so that nothing of the others is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.passes.mark_guard import GUARD as GUARD_NAME
from targets.cuda.compile.calling import GUARD, GUARD_ASKED, GUARD_PASSED, STATUS_PASSES

__all__ = ["guard_helper"]

_i32 = ir.IntType(32)


def _type_guard(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    if len(args) != 1:
        raise errors.TypingError(f"{GUARD_NAME} takes one argument")
    return types.boolean(types.boolean)


def _emit_guard(call: Call) -> ir.Value:
    builder = call.builder
    (passes,) = call.args
    wish = builder.function.args[GUARD]
    with builder.if_then(builder.icmp_unsigned("==", wish, _i32(GUARD_ASKED))):
        builder.ret(builder.select(passes, _i32(STATUS_PASSES), _i32(0)))
    return builder.or_(passes, builder.icmp_unsigned("==", wish, _i32(GUARD_PASSED)))


_GUARD = BoundIntrinsic(GUARD_NAME, _type_guard, _emit_guard, {})


def guard_helper() -> dict[str, BoundIntrinsic]:
    """Return what :class:`~kerneldsl.lowering.passes.mark_guard.MarkGuard` inserts, by name."""
    return {GUARD_NAME: _GUARD}
