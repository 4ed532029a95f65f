"""Every intrinsic of the language with the way in which the CPU target performs it.

An id is a counter of a loop. At a barrier the kernel is cut, and at an exchange between the lanes
of a warp or the threads of a block too. What the threads of a block do together is done once. An
array is in the storage of the block. All else is an operation on values.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import register_jitable

from kerneldsl.errors import SourceLocation, UnsupportedConstructError
from kerneldsl.ir.rules import linked
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.vectors import VectorType
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.vector_calls import add_products, most_words
from targets.cpu.intrinsics import warp
from targets.cpu.intrinsics.atomics import ATOMICS, fence
from targets.cpu.intrinsics.exchange import Exchange
from targets.cpu.intrinsics.groups import GROUPS
from targets.cpu.math.libdevice.emitters import compiled

__all__ = [
    "LOWERINGS",
    "Atomic",
    "Cut",
    "Exchange",
    "Lowering",
    "Refused",
    "ScalarOperation",
    "Together",
    "lowering_of",
    "refuse",
]


# References: PTX ISA, sections "prmt", "lop3", "bfe", "bfi" and "bfind", with their
# semantics as code.
def _permute(a: Any, b: Any, selector: Any) -> Any:
    pair = np.int64(a) | (np.int64(b) << 32)
    result = np.int64(0)
    for byte in range(4):
        number = (np.int64(selector) >> (4 * byte)) & 15
        picked = (pair >> (8 * (number & 7))) & 0xFF
        is_negative = (picked & 0x80) != 0
        if number & 8:
            result |= np.int64(0xFF if is_negative else 0) << (8 * byte)
        else:
            result |= picked << (8 * byte)
    return result


@register_jitable
def _ones(count: Any) -> Any:
    """Return a word with 1 in its lowest bits."""
    if count >= 64:
        return ~np.uint64(0)
    return ~(~np.uint64(0) << np.uint64(count))


def _extract(a: Any, position: Any, length: Any) -> Any:
    first, count = np.uint64(position) & np.uint64(255), np.uint64(length) & np.uint64(255)
    if first >= np.uint64(64):
        return np.uint64(0)
    return (np.uint64(a) >> first) & _ones(count)


def _extract_signed(a: Any, position: Any, length: Any) -> Any:
    first, count = np.int64(position) & 255, np.int64(length) & 255
    shifted = np.int64(a) >> np.minimum(first, 63)  # with copies of the sign above
    if count == 0:
        return np.int64(0)
    unused = 64 - np.minimum(count, 64)
    return (shifted << unused) >> unused


def _insert(a: Any, b: Any, position: Any, length: Any) -> Any:
    first, count = np.uint64(position) & np.uint64(255), np.uint64(length) & np.uint64(255)
    if first >= np.uint64(64):
        return np.uint64(b)
    mask = _ones(count) << first
    return (np.uint64(b) & ~mask) | ((np.uint64(a) << first) & mask)


def _find(call: Call) -> ir.Value:
    """Write the place of the highest bit that is not the sign's; -1 if there is none."""
    builder, (a,), last = call.builder, call.args, call.args[0].type.width - 1
    if call.signature.args[0].signed:
        a = builder.xor(a, builder.ashr(a, a.type(last)))
    place = builder.sub(a.type(last), builder.ctlz(a, ir.IntType(1)(0)))
    return place if place.type == _I32 else builder.trunc(place, _I32)


def _look_up(call: Call) -> ir.Value:
    """Write the function that a table of eight bits gives, a term for each bit that is 1."""
    builder, (a, b, c) = call.builder, call.args
    result: ir.Value = a.type(0)
    for number in range(8):
        if call.static["lut"] >> number & 1:
            term = a.type(-1)
            for value, weight in ((a, 4), (b, 2), (c, 1)):
                term = builder.and_(term, value if number & weight else builder.not_(value))
            result = builder.or_(result, term)
    return result


# -- products of bytes -----------------------------------------------------------------------------


_I32 = ir.IntType(32)
_FOUR_WORDS = ir.VectorType(_I32, 4)


def _dot(call: Call) -> ir.Value:
    kind, signs = call.signature.return_type, scalars.signs_of(call)
    is_vector = isinstance(kind, VectorType)
    if not most_words() or (is_vector and len(kind.fields) != 4):
        return scalars.EMITTERS["dot4"](call)
    builder = call.builder
    if not is_vector:
        return add_products(builder, call.args, signs)
    found = add_products(builder, tuple(_words(builder, arg) for arg in call.args), signs)
    parts = [builder.extract_element(found, _I32(n)) for n in range(4)]
    return cgutils.pack_struct(builder, parts)


def _words(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a vector of the language, or a word that counts for each part, as one of LLVM."""
    found = _FOUR_WORDS(ir.Undefined)
    for number in range(4):
        is_word = isinstance(value.type, ir.IntType)
        part = value if is_word else builder.extract_value(value, number)
        found = builder.insert_element(found, part, _I32(number))
    return found


EMITTERS: dict[str, Emitter] = {
    "dot4": _dot,
    "nv.prmt": compiled(_permute),
    "nv.lop3": _look_up,
    **{f"nv.bfe_u{width}": compiled(_extract) for width in (32, 64)},
    **{f"nv.bfe_s{width}": compiled(_extract_signed) for width in (32, 64)},
    **{f"nv.bfi_b{width}": compiled(_insert) for width in (32, 64)},
    **{f"nv.bfind_{kind}{width}": _find for kind in "us" for width in (32, 64)},
    "nv.ex2_approx_f32": compiled(math.exp2),
    "nv.lg2_approx_f32": compiled(math.log2),
    "nv.tanh_approx_f32": compiled(math.tanh),
    "nv.rcp_approx_f32": compiled(lambda x: np.float32(1) / x),
}
#: Name of each word that a processor has nothing for, with the reason.
REFUSED = {
    "ptx": "Instructions of PTX are a GPU's",
    **dict.fromkeys(("nv.clock64", "nv.globaltimer", "nv.smid"), "The register is one of a GPU's"),
}


@dataclass(frozen=True)
class Rewritten:
    """Operations that passes over the regions write: ids, arrays of a block, loops and tiles."""


@dataclass(frozen=True)
class Cut:
    """A barrier: all threads run what is before it, then all run what is after it."""

    #: Combination of the predicates of a vote: ``"count"``, ``"and"``, ``"or"``, ``"all"`` or
    #: ``"any"``; ``None`` for a barrier without a vote.
    form: str | None = None


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
class Together:
    """An operation that a block does once, for all of its threads."""


@dataclass(frozen=True)
class Refused:
    """An operation that a processor does not have."""

    #: Reason why it has no lowering.
    reason: str


Lowering: TypeAlias = Rewritten | Cut | Exchange | Atomic | ScalarOperation | Together | Refused

_PLACES = (Typing.INDEX, Typing.INDEX_TUPLE, Typing.LANE_MASK)
_REWRITTEN = (*_PLACES, Typing.ARRAY, Typing.LOOP, Typing.TILE)
#: Name of each intrinsic to its lowering.
LOWERINGS: dict[str, Lowering] = {
    **{name: Rewritten() for name, row in INTRINSICS.items() if row.typing in _REWRITTEN},
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
    **{name: Together() for name in INTRINSICS if name.startswith("chain.")},
    "threadfence": ScalarOperation(fence),
    "threadfence_block": ScalarOperation(fence),
    "threadfence_system": ScalarOperation(fence),
    **{name: Atomic(*operations) for name, operations in ATOMICS.items()},
    **{name: ScalarOperation(emit) for name, emit in (scalars.EMITTERS | EMITTERS).items()},
    **{name: ScalarOperation(emit) for name, emit in linked.EMITTERS.items()},
    **{name: Refused(reason) for name, reason in REFUSED.items()},
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
