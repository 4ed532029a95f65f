"""Read values of other lanes of a warp, of those that take part."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.groups import is_any
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.synchronize import call_nvvm, shuffle

__all__ = ["Warp", "first_of", "last_of"]

_i1 = ir.IntType(1)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)


class Warp:
    """The lanes of a warp that reach an operation together."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder
        #: A bit for each of them.
        self.present = call_nvvm(builder, "activemask", _i32, [])
        #: This one's index.
        self.lane = builder.trunc(read_register(builder, "laneid"), _i32)

    def read(self, value: ir.Value, lane: ir.Value) -> ir.Value:
        """Return the value of a lane that takes part."""
        return shuffle(self.builder, "idx", self.present, value, lane)

    def half(self, start: ir.Value, width: int) -> ir.Value:
        """Return who takes part of some lanes, from bit 0 on."""
        return self.builder.and_(self.builder.lshr(self.present, start), _i32((1 << width) - 1))

    def start_of(self, width: int) -> ir.Value:
        """Return the first lane of the aligned part of the warp in which this lane is."""
        return self.builder.and_(self.lane, _i32(-width))

    def is_upper(self, width: int) -> ir.Value:
        """Return whether this lane is in the upper half of a part of twice the width."""
        return is_any(self.builder, self.builder.and_(self.lane, _i32(width)))

    def before(self) -> ir.Value:
        """Return the lanes before this one that take part."""
        below = self.builder.sub(self.builder.shl(_i32(1), self.lane), _i32(1))
        return self.builder.and_(self.present, below)


def first_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the first of some lanes; of none it is not defined."""
    return builder.cttz(lanes, _i1(1))


def last_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes; -1 if there is none."""
    return builder.sub(_i32(WARP_SIZE - 1), builder.ctlz(lanes, _i1(0)))
