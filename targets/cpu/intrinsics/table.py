"""Every intrinsic of the language with the way in which the CPU target performs it.

An id is an expression over the loop variables. At a barrier the kernel is cut, and at an exchange
between the lanes of a warp or the threads of a block too. What the threads of a block do together
is done once. An array is in the storage of the block. All else is an operation that generated
code calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn, TypeAlias

from kerneldsl.errors import SourceLocation, UnsupportedConstructError
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering import linked_rules, scalars
from kerneldsl.lowering.calls import Emitter
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.intrinsics import byte_dots, ptx_words, warp, warp_values
from targets.cpu.intrinsics.atomics import ATOMICS, fence
from targets.cpu.intrinsics.chains import chain_operation
from targets.cpu.intrinsics.groups.table import GROUPS
from targets.cpu.intrinsics.operations import operation
from targets.cpu.intrinsics.warp import Exchange
from targets.cpu.passes.ids import EXPRESSIONS, Expression
from targets.cpu.passes.items import GridBarrier, Item

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
    """An expression over the loop variables, for which :mod:`targets.cpu.passes.ids` puts it."""

    #: Writes it.
    expression: Expression


@dataclass(frozen=True)
class Cut:
    """A barrier: all threads run what is before it, then all run what is after it."""

    #: How the predicates of a vote are combined: see :class:`targets.cpu.passes.items.Vote`.
    form: str | None = None
    #: What a barrier without a vote is, if that is more than the end of the items before it.
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Stored:
    """An array in the storage of the block (:mod:`targets.cpu.codegen.storage`)."""


@dataclass(frozen=True)
class Atomic:
    """An operation on an element of an array."""

    #: Write it, for memory of all blocks and for memory of one block.
    shared: Emitter
    private: Emitter

    def function(self, use: IntrinsicUse, *, is_private: bool) -> Callable[..., Any]:
        """Return what generated code calls for one use; uses with equal constants share it."""
        emitter = self.private if is_private else self.shared
        return _function(use.intrinsic.name, emitter, tuple(sorted(use.static.items())))


@dataclass(frozen=True)
class ScalarOperation:
    """An operation on numbers."""

    #: Writes it.
    emitter: Emitter

    def function(self, use: IntrinsicUse) -> Callable[..., Any]:
        """Return what generated code calls for one use; uses with equal constants share it."""
        return _function(use.intrinsic.name, self.emitter, tuple(sorted(use.static.items())))


@cache
def _function(
    name: str, emitter: Emitter, static: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    return operation(name, emitter, dict(static))


@dataclass(frozen=True)
class Elements:
    """An operation on tiles, which becomes loops over elements: `targets/cpu/regions/tiles`."""


@dataclass(frozen=True)
class Together:
    """An operation that a block does once, for all of its threads."""

    #: The intrinsic's name.
    name: str

    def calling(self, function: Any = None) -> Callable[..., Any]:
        """Return what generated code calls: ``(blocks, fault record, *arguments)``.

        A function that the intrinsic is given is left out of the arguments.
        """
        return chain_operation(self.name, function)


@dataclass(frozen=True)
class Refused:
    """An operation that a processor does not have."""

    #: Why it has none.
    reason: str


Lowering: TypeAlias = (
    Id | Cut | Exchange | Stored | Atomic | ScalarOperation | Elements | Together | Refused
)

#: Name of each intrinsic to its lowering.
LOWERINGS: dict[str, Lowering] = {
    **{name: Id(expression) for name, expression in EXPRESSIONS.items()},
    "syncthreads": Cut(),
    "syncthreads_count": Cut("count"),
    "syncthreads_and": Cut("and"),
    "syncthreads_or": Cut("or"),
    "syncwarp": Cut(),
    "grid_group.sync": Cut(items=(GridBarrier(),)),
    **warp.EXCHANGES,
    **warp_values.EXCHANGES,
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
    **{name: Elements() for name, row in INTRINSICS.items() if row.typing is Typing.TILE},
    **{name: Atomic(*operations) for name, operations in ATOMICS.items()},
    **{
        name: ScalarOperation(emit)
        for name, emit in (scalars.EMITTERS | byte_dots.EMITTERS).items()
    },
    **{name: ScalarOperation(emit) for name, emit in linked_rules.EMITTERS.items()},
    **{name: ScalarOperation(emit) for name, emit in ptx_words.EMITTERS.items()},
    **{name: Refused(reason) for name, reason in ptx_words.REFUSED.items()},
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
