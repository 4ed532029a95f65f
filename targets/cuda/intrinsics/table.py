"""Every intrinsic of the language with the CUDA target's emitter."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.rules import linked
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics import atomics, chains, ids, inline, synchronize, values, warp
from targets.cuda.intrinsics.groups import table as groups

__all__ = ["EMITTERS"]

#: Intrinsics that depend on the kernel, with handlers in :mod:`targets.cuda.compile.region_code`.
_WRITTEN_FROM_REGIONS = (
    *("grid", "gridsize", "shared.array", "local.array"),
    *(name for name, row in INTRINSICS.items() if row.typing in (Typing.TILE, Typing.LOOP)),
)


def _refuse(call: Call) -> ir.Value:
    raise AssertionError("the operation is written by targets.cuda.compile.region_code")


#: Functions that write an intrinsic's instructions, by its name.
EMITTERS: dict[str, Emitter] = {
    **ids.EMITTERS,
    **synchronize.EMITTERS,
    **warp.EMITTERS,
    **groups.EMITTERS,
    **chains.EMITTERS,
    **atomics.EMITTERS,
    **scalars.EMITTERS,
    **linked.EMITTERS,
    **dict.fromkeys(_WRITTEN_FROM_REGIONS, _refuse),
    **inline.EMITTERS,
    **values.EMITTERS,  # in place of what LLVM makes of the same
}
