"""Let the lanes of a warp exchange values of tiles.

References
----------
CUDA C++ Programming Guide, section "Warp Shuffle Functions".
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.groups import WIDTHS
from targets.cuda.compile.tiles.thread_code import ThreadCode
from targets.cuda.intrinsics.synchronize import shuffle

__all__ = ["Lanes"]

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_ALL_LANES = 0xFFFFFFFF


class Lanes:
    """The lanes of a thread's warp.

    - `code`: code to which their operations are added.
    - `whole`: whether only threads of whole warps take part.
    """

    def __init__(self, code: ThreadCode, *, whole: bool = False) -> None:
        builder, threads = code.builder, code.threads
        self._builder, self._code = builder, code
        #: Index of the thread in its warp, and of the warp in the block.
        self.lane = builder.and_(code.thread, _I64(WARP_SIZE - 1))
        self.warp = builder.lshr(code.thread, _I64(WARP_SIZE.bit_length() - 1))
        rest = 0 if whole else threads % WARP_SIZE
        #: A bit for each lane of the warp, and their number.
        self.mask: ir.Value = _I32((1 << rest) - 1 if rest else _ALL_LANES)
        self.count: ir.Value = _I64(rest or WARP_SIZE)
        if rest and threads > WARP_SIZE:
            is_last = code.is_equal(self.warp, threads // WARP_SIZE)
            self.mask = builder.select(is_last, _I32((1 << rest) - 1), _I32(_ALL_LANES))
            self.count = builder.select(is_last, _I64(rest), _I64(WARP_SIZE))

    def exchanged(self, mode: str, value: ir.Value, lane: ir.Value) -> ir.Value:
        """Return the value of another lane; `mode` is "idx", "up", "down" or "bfly"."""
        where = self._builder.trunc(lane, _I32)
        return shuffle(self._builder, mode, self.mask, value, where)

    def met(
        self,
        value: ir.Value,
        combined: Callable[[ir.Value, ir.Value], ir.Value],
        width: int,
        place: ir.Value,
        count: ir.Value | int | None,
    ) -> ir.Value:
        """Combine the values of `width` lanes, neighbours first, to the first of them.

        `place` is the lane's number among them. Only the first `count` of them have a value, if it
        is given.
        """
        builder = self._builder
        for step in WIDTHS:
            if step >= width:
                break
            met = combined(value, self.exchanged("down", value, _I64(step)))
            if count is not None:
                has_other = self._code.is_below(builder.add(place, _I64(step)), count)
                met = builder.select(has_other, met, value)
            value = met
        return value
