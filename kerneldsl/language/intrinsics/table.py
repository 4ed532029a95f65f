"""List every intrinsic of the language.

A module's ``__all__`` names its intrinsics, and groups of them such as ``kd.atomic``.
"""

from __future__ import annotations

from kerneldsl.language.intrinsics import (
    atomics,
    barriers,
    chains,
    expert,
    groups,
    lanes,
    linked,
    matrix,
    memory,
    places,
    tiles,
    values,
    vectors,
)
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup

__all__ = ["INTERNAL", "INTRINSICS", "find_intrinsic"]

_KINDS = (
    *(
        places,
        barriers,
        lanes,
        groups,
        chains,
        values,
        memory,
        vectors,
        atomics,
    ),
    *(tiles, matrix, expert, linked),
)


def _table() -> dict[str, Intrinsic]:
    table = {}
    for declared in (getattr(kind, name) for kind in _KINDS for name in kind.__all__):
        match declared:
            case Intrinsic():
                table[declared.name] = declared
            case IntrinsicGroup():
                members = (getattr(declared, name) for name in dir(declared))
                table.update({member.name: member for member in members})
    return table


#: Every intrinsic by its dotted name.
INTRINSICS: dict[str, Intrinsic] = _table()
#: Intrinsics of the normal form, which programs cannot write.
INTERNAL = tiles.INTERNAL | linked.INTERNAL


def find_intrinsic(name: str) -> Intrinsic:
    """Return the intrinsic of a dotted name, of ``libdevice`` too; raises ``KeyError``."""
    if not name.startswith("libdevice."):
        return INTRINSICS[name]
    from kerneldsl.language.intrinsics.libdevice import FUNCTIONS  # hundreds, and seldom used

    return FUNCTIONS[name]
