"""Compute in 32 bits what is converted from 64 bits to 32 at once, such as ``u32(a * state + c)``.

Numba computes with 64 bits, and LLVM narrows that after inlining. If the next iteration reads the
number, LLVM may widen the variable that holds it instead. It sees both conversions, and its order
of visits decides. A GPU has registers of 32 bits, so a product of 64 takes several instructions.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Report
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of
from kerneldsl.ir.recognize import constant_number, operator_of
from targets.cuda.compile.regions.walks import location

__all__ = ["convert_short", "narrow_arithmetic", "narrow_variables", "write_narrow"]

_I32 = ir.IntType(32)
_BITS = 32
#: Operators that compute the lower bits of a result from those of the operands alone.
_INSTRUCTIONS = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
}


def narrow_arithmetic(function: Function, known: Mapping[Value, Interval]) -> frozenset[Operation]:
    """Return the operations that are written in 32 bits, where their conversions are.

    They are made of numbers of 32 bits, and nothing else reads them. They are in the region of the
    conversion. LLVM itself narrows others better, such as a shift by a count that may be 32.
    """
    uses = Counter(value for each in function.body.walk() for value in each.operands)
    found: set[Operation] = set()

    def taken(value: Value, region: set[Operation]) -> list[Operation] | None:
        """Return the operations that make a number of others with 32 bits; ``None`` otherwise."""
        made = value.owner
        if _is_small(value):
            return []
        if made not in region or uses[value] != 1 or not _is_narrowable(made, known):
            return None
        inner = [taken(each, region) for each in made.operands]
        return None if None in inner else [made, *(one for each in inner for one in each or ())]

    def search(region: Region) -> None:
        inside = set(region.operations)
        for each in region.operations:
            if each.name == "cast" and _bits(each.result.type) == _BITS:
                found.update(taken(each.operands[0], inside) or ())
            for inner in each.regions:
                search(inner)

    search(function.body)
    return frozenset(found)


def write_narrow(emitter: Emitter, value: Value, narrow: frozenset[Operation]) -> ir.Value:
    """Write the lower 32 bits of an integer, and the operations of `narrow` that it is made by."""
    made, builder = value.owner, emitter.builder
    if made not in narrow:
        return _lower_bits(emitter, value)
    assert isinstance(made, Operation)
    function, (one, two) = operator_of(made), made.operands
    left = write_narrow(emitter, one, narrow)
    right = write_narrow(emitter, two, narrow)
    if function is operator.lshift:
        return builder.shl(left, right)
    if function is operator.rshift:
        shift = builder.ashr if one.type.signed else builder.lshr
        return shift(left, right)
    return getattr(builder, _INSTRUCTIONS[function])(left, right)


def _lower_bits(emitter: Emitter, value: Value) -> ir.Value:
    number = constant_number(value)
    if number is not None:
        return _I32((number + 2**31) % 2**32 - 2**31)
    found, builder = emitter.get(value), emitter.builder
    if found.type.width > _BITS:
        return builder.trunc(found, _I32)
    if found.type.width == _BITS:
        return found
    is_signed = isinstance(value.type, types.Integer) and value.type.signed
    return builder.sext(found, _I32) if is_signed else builder.zext(found, _I32)


def _is_narrowable(made: Operation, known: Mapping[Value, Interval]) -> bool:
    """Return whether the lower 32 bits of a result follow from those of the operands."""
    if made.name != "numba" or len(made.operands) != 2:
        return False
    signature, function = made.attributes["signature"], operator_of(made)
    kinds = [*signature.args, signature.return_type, made.result.type]
    if function is operator.rshift:  # Numba computes with the number as it is
        del kinds[0]
    if not all(_bits(kind) == 2 * _BITS for kind in kinds):
        return False
    one, two = made.operands
    if not all(isinstance(each.type, types.Integer | types.Boolean) for each in made.operands):
        return False
    if function in (operator.lshift, operator.rshift):
        number = constant_number(two)
        low, high = known.get(two, (-1, -1)) if number is None else (number, number)
        is_exact = isinstance(one.type, types.Integer) and _bits(one.type) <= _BITS
        return 0 <= low <= high < _BITS and (is_exact or function is operator.lshift)
    return function in _INSTRUCTIONS


def _is_small(value: Value) -> bool:
    """Return whether a number has 32 bits or fewer, also if it was converted from them."""
    made = value.owner
    is_bool = isinstance(value.type, types.Boolean)
    if is_bool or 0 < _bits(value.type) <= _BITS or constant_number(value) is not None:
        return True
    return isinstance(made, Operation) and made.name == "cast" and _is_small(made.operands[0])


def _bits(kind: Any) -> int:
    return int(kind.bitwidth) if isinstance(kind, types.Integer) else 0


# Keep variables in 32 bits that are halved or doubled in loops, if their values are known to fit.
#
# LLVM follows sums through loops, but not products: it does not know how large `step` is after
# ``step //= 2``. So it keeps the variable, and what is computed from it, in 64 bits: two registers
# and two instructions. Such variables are mostly distances within a block, which has 1024 threads.

_LARGEST = 2**31 - 1
_UPDATES = (operator.mul, operator.floordiv, operator.lshift, operator.rshift)


def narrow_variables(function: Function, report: Report) -> None:
    """Mark such variables of loops."""
    found = [
        (loop, number, update)
        for loop in function.body.walk()
        if loop.name in ("while", "for")
        for number, update in _updates(loop)
    ]
    if not found:
        return
    known = ranges_of(function)
    for loop, number, update in found:
        body = loop.regions[-1]
        first = len(body.arguments) - len(loop.results)
        arguments = [region.arguments[number + (region is body) * first] for region in loop.regions]
        if all(_fits(known.get(each)) for each in arguments):
            loop.attributes["narrow"] = (*loop.attributes.get("narrow", ()), arguments[-1])
            given = loop.operands[len(loop.operands) - len(loop.results) + number].owner
            places = [each for each in (given, update) if isinstance(each, Operation)]
            where = [location(function, each) for each in places]
            report("variable", "kept in 32 bits", where=where)


def _updates(loop: Operation) -> list[tuple[int, Operation]]:
    """Return the numbers of the variables that a loop changes by a factor, and the updates."""
    body = loop.regions[-1]
    first = len(body.arguments) - len(loop.results)
    found = []
    for number, value in enumerate(body.yielded):
        update = value.owner
        if (
            isinstance(update, Operation)
            and value.type == types.int64
            and operator_of(update) in _UPDATES
            and update.operands[0] is body.arguments[first + number]
            and (constant_number(update.operands[1]) or 0) > 0
        ):
            found.append((number, update))
    return found


def _fits(interval: Interval | None) -> bool:
    return interval is not None and interval[0] >= 0 and interval[1] <= _LARGEST


# Convert integers of 64 bits to floats as ones of 32 bits, if their range says that they fit.
#
# A multiprocessor converts fewer numbers of 64 bits in a cycle than of 32 bits. LLVM narrows what
# was widened just before. It does not know the ranges of loop counters and indices.
#
# See CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": type
# conversions.

_FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}


def convert_short(
    emitter: Emitter, value: Value, kind: Any, known: Mapping[Value, Interval]
) -> ir.Value | None:
    """Write a conversion from 64 bits to a float by 32 bits; return ``None`` if it may not fit."""
    is_float = isinstance(kind, types.Float) and kind.bitwidth in _FLOATS
    if not is_float or not isinstance(value.type, types.Integer) or value.type.bitwidth != 64:
        return None
    interval = known.get(value)
    if interval is None:
        return None
    low, high = interval
    convert = None
    if low >= 0 and high < 2**32:
        convert = emitter.builder.uitofp
    elif low >= -(2**31) and high < 2**31:
        convert = emitter.builder.sitofp
    if convert is None:
        return None
    return convert(emitter.builder.trunc(emitter.get(value), _I32), _FLOATS[kind.bitwidth])
