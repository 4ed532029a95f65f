"""Barriers by which copies, threads of a block and warpgroups wait for each other.

Copies and threads meet at barriers in shared memory, by phases. Warpgroups take turns, so that one
begins products while others compute.

References
----------
PTX ISA, section "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Variable
from targets.cuda.compile.mma.wgmma import WARPGROUP
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = [
    "BARRIER_BYTES",
    "SlotTurns",
    "arrive",
    "expect_bytes",
    "initialize",
    "make_visible",
    "wait_for",
    "write_turn",
]

#: Size of a barrier.
BARRIER_BYTES = 8
_VOID, _I1, _I32, _I64 = ir.VoidType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
_OF_BLOCK = "scope.cta.space.cta"


def initialize(builder: ir.IRBuilder, barrier: ir.Value, arrivals: int) -> None:
    """Make a barrier of memory; a phase ends with so many arrivals."""
    call_nvvm(builder, "mbarrier.init.shared", _VOID, [barrier, _I32(arrivals)])


def make_visible(builder: ir.IRBuilder) -> None:
    """Let copies see the barriers that this thread has made."""
    call_nvvm(builder, "fence.mbarrier_init.release.cluster", _VOID, [])


def wait_for(builder: ir.IRBuilder, barrier: ir.Value, parity: ir.Value) -> None:
    """Wait for the end of the current phase of a parity; of the one before phase 0 at once."""
    again, done = (builder.append_basic_block(f"phase.{each}") for each in ("wait", "done"))
    builder.branch(again)
    builder.position_at_end(again)
    name = f"mbarrier.try.wait.parity.{_OF_BLOCK}"
    builder.cbranch(call_nvvm(builder, name, _I1, [barrier, parity]), done, again)
    builder.position_at_end(done)


def expect_bytes(builder: ir.IRBuilder, barrier: ir.Value, nbytes: int) -> None:
    """Arrive at a barrier. Its phase ends when copies have brought so many bytes."""
    name = f"mbarrier.arrive.expect.tx.{_OF_BLOCK}"
    call_nvvm(builder, name, _I64, [barrier, _I32(nbytes)])


def arrive(builder: ir.IRBuilder, barrier: ir.Value) -> None:
    """Arrive at a barrier."""
    call_nvvm(builder, f"mbarrier.arrive.{_OF_BLOCK}", _I64, [barrier, _I32(1)])


#: First barrier of turns. Lower ones are of the block, of all warpgroups, and of each.
_FIRST_TURN = 5


def write_turn(builder: ir.IRBuilder, word: str, warpgroup: ir.Value, count: int) -> None:
    """Write the ``"begin"`` or ``"end"`` of a turn, or what is ``"first"``; `count` take turns.

    Two warpgroups meet at a barrier: the one that waits for its turn, and the one before it.
    """
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
