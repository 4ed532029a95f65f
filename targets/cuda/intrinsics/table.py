"""Every intrinsic of the language with the CUDA target's emitter."""

from __future__ import annotations

from typing import Any

from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.lowering import linked_rules, scalars
from kerneldsl.lowering.calls import Emitter
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.typing_rules import typing_rule
from targets.cuda.intrinsics import (
    atomics,
    chains,
    grids,
    ids,
    inline,
    memory,
    synchronize,
    tiles,
    values,
    warp,
)
from targets.cuda.intrinsics.groups import table as groups
from targets.cuda.intrinsics.libdevice import libdevice_emitter

__all__ = ["EMITTERS", "bind"]


#: Intrinsic name to what writes its instructions.
EMITTERS: dict[str, Emitter] = {
    **ids.EMITTERS,
    **synchronize.EMITTERS,
    **warp.EMITTERS,
    **groups.EMITTERS,
    **chains.EMITTERS,
    **grids.EMITTERS,
    **memory.EMITTERS,
    **atomics.EMITTERS,
    **scalars.EMITTERS,
    **linked_rules.EMITTERS,
    **tiles.EMITTERS,
    **inline.EMITTERS,
    **values.EMITTERS,  # in place of what LLVM makes of the same
}

_bound: dict[tuple[Any, ...], BoundIntrinsic] = {}


def bind(use: IntrinsicUse) -> BoundIntrinsic:
    """Return what stands for one use of an intrinsic in a function's globals.

    Uses that agree in their constants share one object, so that Numba's caches stay small.
    """
    name = use.intrinsic.name
    emitter = EMITTERS.get(name) or libdevice_emitter(name)
    if use.intrinsic.functions:  # Numba remembers the types of arguments, and these do not live on
        return BoundIntrinsic(name, typing_rule(use.intrinsic), emitter, use.static)
    key = (name, *sorted(use.static.items()))
    known = _bound.get(key)
    if known is None:
        if "dtype" in use.static:
            element_type(use.static["dtype"])  # known to Numba before inference begins
        made = BoundIntrinsic(name, typing_rule(use.intrinsic), emitter, use.static)
        known = _bound.setdefault(key, made)
    return known
