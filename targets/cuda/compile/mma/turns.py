"""Turns of warpgroups, so that one begins products while others compute, and of slots of a ring.

Two warpgroups meet at a barrier: the one that waits for its turn, and the one before it.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Variable
from targets.cuda.compile.mma.wgmma import WARPGROUP
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["SlotTurns", "write_turn"]

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


class SlotTurns:
    """The slot of a turn of the ring, and the parity of its phase."""

    def __init__(self, builder: ir.IRBuilder, count: int, first_parity: int) -> None:
        self._builder, self._count = builder, count
        self._slot = Variable(builder, _I32(0))
        self._parity = Variable(builder, _I32(first_parity))

    @property
    def slot(self) -> ir.Value:
        """The current slot."""
        return self._slot.get()

    @property
    def parity(self) -> ir.Value:
        """The parity of the phase that ends the wait for the slot."""
        return self._parity.get()

    def advance(self) -> None:
        """Go on to the next slot."""
        builder = self._builder
        following = builder.add(self.slot, _I32(1))
        is_last = builder.icmp_unsigned("==", following, _I32(self._count))
        self._slot.set(builder.select(is_last, _I32(0), following))
        self._parity.set(builder.xor(self.parity, builder.zext(is_last, _I32)))

    def go_past(self, turns: ir.Value) -> None:
        """Go on by a number of slots."""
        builder, count = self._builder, _I32(self._count)
        following = builder.add(self.slot, turns)
        self._slot.set(builder.urem(following, count))
        phases = builder.and_(builder.udiv(following, count), _I32(1))
        self._parity.set(builder.xor(self.parity, phases))
