"""Every intrinsic of the language with the way in which the CPU target performs it.

An id is a counter of a loop. At a barrier the kernel is cut, and at an exchange between the lanes
of a warp or the threads of a block too. What the threads of a block do together is done once. An
array is in the storage of the block. All else is an operation on values.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from kerneldsl.errors import SourceLocation, UnsupportedConstructError
from kerneldsl.ir.rules import linked
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Emitter
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.intrinsics import warp, words
from targets.cpu.intrinsics.atomics import ATOMICS, fence
from targets.cpu.intrinsics.exchange import Exchange
from targets.cpu.intrinsics.groups import GROUPS

__all__ = [
    "LOWERINGS",
    "Atomic",
    "Cut",
    "Elements",
    "Exchange",
    "Id",
    "Lowering",
    "Refused",
    "ScalarOperation",
    "Stored",
    "Together",
    "lowering_of",
    "refuse",
]


@dataclass(frozen=True)
class Id:
    """An index or a size of the launch."""


@dataclass(frozen=True)
class Cut:
    """A barrier: all threads run what is before it, then all run what is after it."""

    #: How the predicates of a vote are combined: ``"count"``, ``"and"``, ``"or"``, ``"all"`` or
    #: ``"any"``; ``None`` for a barrier without a vote.
    form: str | None = None


@dataclass(frozen=True)
class Stored:
    """An array in the storage of the block (:mod:`targets.cpu.codegen.storage`)."""


@dataclass(frozen=True)
class Atomic:
    """An operation on an element of an array."""

    #: Write it, for memory of all blocks and for memory of one block.
    shared: Emitter
    private: Emitter


@dataclass(frozen=True)
class ScalarOperation:
    """An operation on numbers."""

    #: Writes it.
    emitter: Emitter


@dataclass(frozen=True)
class Elements:
    """An operation on tiles, which becomes loops over elements: `targets/cpu/regions/tiles`."""


@dataclass(frozen=True)
class Together:
    """An operation that a block does once, for all of its threads."""

    #: The intrinsic's name.
    name: str


@dataclass(frozen=True)
class Refused:
    """An operation that a processor does not have."""

    #: Why it has none.
    reason: str


Lowering: TypeAlias = (
    Id | Cut | Exchange | Stored | Atomic | ScalarOperation | Elements | Together | Refused
)

_IDS = (
    *("grid", "gridsize", "laneid", "lanemask_lt", "warpsize"),
    *(
        f"{name}.{axis}"
        for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")
        for axis in "xyz"
    ),
)
#: Name of each intrinsic to its lowering.
LOWERINGS: dict[str, Lowering] = {
    **{name: Id() for name in _IDS},
    "syncthreads": Cut(),
    "syncthreads_count": Cut("count"),
    "syncthreads_and": Cut("and"),
    "syncthreads_or": Cut("or"),
    "syncwarp": Cut(),
    "grid_group.sync": Cut(),
    **warp.EXCHANGES,
    "block.count": Cut("count"),
    "block.all": Cut("all"),
    "block.any": Cut("any"),
    **GROUPS,
    **{name: Together(name) for name in INTRINSICS if name.startswith("chain.")},
    "threadfence": ScalarOperation(fence),
    "threadfence_block": ScalarOperation(fence),
    "threadfence_system": ScalarOperation(fence),
    "shared.array": Stored(),
    "local.array": Stored(),
    **{
        name: Elements()
        for name, row in INTRINSICS.items()
        if row.typing in (Typing.TILE, Typing.LOOP)
    },
    **{name: Atomic(*operations) for name, operations in ATOMICS.items()},
    **{name: ScalarOperation(emit) for name, emit in (scalars.EMITTERS | words.EMITTERS).items()},
    **{name: ScalarOperation(emit) for name, emit in linked.EMITTERS.items()},
    **{name: Refused(reason) for name, reason in words.REFUSED.items()},
}


def lowering_of(intrinsic: Intrinsic) -> Lowering:
    """Return the way in which the CPU target performs an intrinsic."""
    name = intrinsic.name
    if not name.startswith("libdevice."):
        return LOWERINGS[name]
    from targets.cpu.math.libdevice.table import MEANINGS  # hundreds, and seldom used

    if name in MEANINGS:
        return ScalarOperation(MEANINGS[name])
    return Refused("Compiled code of a processor rounds to nearest alone")


def refuse(where: SourceLocation, intrinsic: Intrinsic, reason: str) -> NoReturn:
    """Refuse a call of what a processor does not have."""
    raise UnsupportedConstructError(
        f"kd.{intrinsic.name} is not available on the CPU",
        where=where,
        value=intrinsic.name,
        limit=reason,
        remedy=f"Write {intrinsic.instead}, or launch the kernel on a GPU",
    )
