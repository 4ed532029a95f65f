"""Calls of the language with a device function, as in ``kd.block.reduce(x, op)``.

The function is a region of the operation, with an argument for each of the two values. It yields
their combination in the type of the values.
"""

from __future__ import annotations

import ast
from typing import Any

from numba import errors, types

from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.ir.frontend.faults import read_index
from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.frontend.tuples import packed
from kerneldsl.ir.operations import Region, Value
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.groups import WrittenOperation
from kerneldsl.lowering.typing_rules import typing_rule

__all__ = ["read_operands"]


def read_operands(
    reader: Reader, node: ast.Call, use: IntrinsicUse
) -> tuple[Any, list[Value], list[Region]]:
    """Return the signature of a call, its operands, and a region for a function among them."""
    given: list[Value | FunctionUnit] = []
    for each in node.args:
        if isinstance(each, ast.Name) and each.id in reader.unit.callees:
            given.append(reader.unit.callees[each.id])
        elif len(given) == 1 and Effect.ATOMIC in use.intrinsic.effect:
            index = read_index(reader, node, node.args[0], given[0], each)
            given.append(packed(reader, index))
        else:
            given.append(packed(reader, reader.value(each)))
    kinds = tuple(v.type if isinstance(v, Value) else WrittenOperation() for v in given)
    signature = typing_rule(use.intrinsic)(kinds, use.static)
    operands, regions = [], []
    for position, (value, kind) in enumerate(zip(given, signature.args, strict=True)):
        if isinstance(value, Value):
            operands.append(reader.cast(value, kind))
        else:
            regions.append(_combined(reader, value, use, signature.args[position - 1]))
    return signature, operands, regions


def _combined(reader: Reader, unit: FunctionUnit, use: IntrinsicUse, kind: Any) -> Region:
    region = Region((kind, kind))

    def read() -> list[Value]:
        found = read_call_of(reader, unit, list(region.arguments))
        is_number = isinstance(found, Value) and isinstance(
            found.type, types.Number | types.Boolean
        )
        is_real = not is_number or not isinstance(found.type, types.Complex)
        if not is_number or not (is_real or isinstance(kind, types.Complex)):
            given = found.type if isinstance(found, Value) else "a tuple"
            raise errors.TypingError(
                f"{use.intrinsic!r}: {unit.name}({kind}, {kind}) must give a number that can be "
                f"converted to {kind}, and gives {given}"
            )
        return [reader.cast(found, kind)]

    reader.into(region, read)
    return region
