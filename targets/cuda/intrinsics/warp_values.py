"""Matches and reductions of a warp's values, by one instruction and by shuffles and votes.

References
----------
PTX ISA, sections "Parallel Synchronization and Communication Instructions: match.sync, redux.sync".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from kerneldsl.lowering.scalars import call_llvm
from targets.cuda.intrinsics.synchronize import call_nvvm, shuffle

__all__ = [
    "match_all",
    "match_all_by_votes",
    "match_any",
    "match_any_by_votes",
    "reduce_by_shuffles",
    "reduce_halves",
    "reduce_word",
]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


# -- matches ----------------------------------------------------------------------------------


def match_any(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Return the lanes whose value is this lane's."""
    return call_nvvm(builder, f"match.any.sync.{args[1].type}", _I32, list(args))


def match_any_by_votes(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Return the same by a vote for each bit."""
    mask, value = args
    result = mask
    for number in range(value.type.width):
        bit = builder.trunc(builder.lshr(value, value.type(number)), _I1)
        with_bit = call_nvvm(builder, "vote.ballot.sync", _I32, [mask, bit])
        same = builder.select(bit, with_bit, builder.not_(with_bit))
        result = builder.and_(result, same)
    return result


def match_all(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Return the mask if all its lanes have one value, else 0."""
    pair = ir.LiteralStructType((_I32, _I1))
    found = call_nvvm(builder, f"match.all.sync.{args[1].type}p", pair, list(args))
    return builder.extract_value(found, 0)


def match_all_by_votes(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Return the same by the value of the lowest lane."""
    mask, value = args
    other = shuffle(builder, "idx", mask, value, builder.cttz(mask, _I1(0)))
    is_same = builder.icmp_unsigned("==", value, other)
    is_one = call_nvvm(builder, "vote.all.sync", _I1, [mask, is_same])
    return builder.select(is_one, mask, _I32(0))


# -- reductions -------------------------------------------------------------------------------


def reduce_word(name: str, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Reduce words of 32 bits; a name such as ``"umax"`` is that of LLVM's function."""
    mask, value = args
    return call_nvvm(builder, f"redux.sync.{name}", _I32, [value, mask])


def reduce_halves(name: str, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Reduce each half of 64 bits, for what treats every bit alone."""
    mask, value = args
    low, high = (
        reduce_word(name, builder, [mask, builder.trunc(part, _I32)])
        for part in (value, builder.lshr(value, _I64(32)))
    )
    return builder.or_(builder.zext(low, _I64), builder.shl(builder.zext(high, _I64), _I64(32)))


#: Masks of the lanes that are multiples of 32, 16, 8, 4 and 2.
_EVERY = {32: 0x00000001, 16: 0x00010001, 8: 0x01010101, 4: 0x11111111, 2: 0x55555555}


def reduce_by_shuffles(
    name: str, kind: str, builder: ir.IRBuilder, args: Sequence[ir.Value]
) -> ir.Value:
    """Reduce values of a dtype in five steps.

    After the step of a distance d all lanes of the mask with one number modulo d hold the same
    value, that of all these lanes. So a lane takes the other half of the next step from any lane
    that has it, and if none of them is in the mask, there is nothing to take.
    """
    mask, value = args
    lane = call_nvvm(builder, "read.ptx.sreg.laneid", _I32, [])
    combine = _COMBINE[name]
    for width, every in _EVERY.items():
        distance = width // 2
        group = builder.and_(builder.xor(lane, _I32(distance)), _I32(width - 1))
        others = builder.and_(mask, builder.shl(_I32(every), group))
        is_there = builder.icmp_unsigned("!=", others, _I32(0))
        source = builder.select(is_there, builder.cttz(others, _I1(0)), lane)
        other = shuffle(builder, "idx", mask, value, source)
        value = builder.select(is_there, combine(builder, kind, value, other), value)
    return value


#: Combines two values of a dtype.
_Combine = Callable[[ir.IRBuilder, str, ir.Value, ir.Value], ir.Value]


def _sum(builder: ir.IRBuilder, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fadd(a, b) if kind.startswith("float") else builder.add(a, b)


def _extremum(name: str) -> _Combine:
    def combine(builder: ir.IRBuilder, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
        if kind.startswith("float"):
            function = f"llvm.{name}imumnum.f{kind.removeprefix('float')}"
            return call_llvm(builder, function, a.type, [a, b])
        function = f"llvm.{'u' if kind.startswith('u') else 's'}{name}.{a.type}"
        return call_llvm(builder, function, a.type, [a, b])

    return combine


_COMBINE: dict[str, _Combine] = {
    "add": _sum,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "and": lambda builder, kind, a, b: builder.and_(a, b),
    "or": lambda builder, kind, a, b: builder.or_(a, b),
    "xor": lambda builder, kind, a, b: builder.xor(a, b),
}
