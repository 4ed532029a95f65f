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

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.recognize import constant_number, operator_of

__all__ = ["narrow_arithmetic", "write_narrow"]

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
