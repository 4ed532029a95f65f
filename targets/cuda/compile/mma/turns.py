"""Turns of warpgroups, so that one begins products while others compute.

Two warpgroups meet at a barrier: the one that waits for its turn, and the one before it.
"""

from __future__ import annotations

from llvmlite import ir

from targets.cuda.compile.mma.wgmma import WARPGROUP
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["write_turn"]

_VOID, _I32 = ir.VoidType(), ir.IntType(32)
#: First barrier of turns. Lower ones are of the block, of all warpgroups, and of each.
_FIRST_TURN = 5


def write_turn(builder: ir.IRBuilder, word: str, warpgroup: ir.Value, count: int) -> None:
    """Write the ``"begin"`` or ``"end"`` of a turn, or what is ``"first"``; `count` take turns."""
    if count == 1:
        return
    is_last = builder.icmp_unsigned("==", warpgroup, _I32(count - 1))
    following = builder.select(is_last, _I32(0), builder.add(warpgroup, _I32(1)))

    def meet(word: str, number: ir.Value) -> None:
        numbers = [builder.add(number, _I32(_FIRST_TURN)), _I32(2 * WARPGROUP)]
        call_nvvm(builder, f"barrier.cta.{word}.aligned.count", _VOID, numbers)

    match word:
        case "first":  # as if the last one had had a turn
            with builder.if_then(is_last):
                meet("arrive", following)
        case "begin":
            meet("sync", warpgroup)
        case "end":
            meet("arrive", following)
