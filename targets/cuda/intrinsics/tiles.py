"""The language's operations on tiles: they are written from the region IR."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter

__all__ = ["EMITTERS"]


def _refuse(call: Call) -> ir.Value:
    raise AssertionError("operations on tiles are written by targets.cuda.compile.tiles")


EMITTERS: dict[str, Emitter] = {
    name: _refuse for name, row in INTRINSICS.items() if row.typing is Typing.TILE
}
