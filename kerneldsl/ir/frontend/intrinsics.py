"""Calls of the language, without those of tiles.

A device function among the arguments, as in ``kd.block.reduce(x, op)``, is a region of the
operation, with an argument for each of the two values. It yields their combination in the type of
the values.
"""

from __future__ import annotations

import ast
from typing import Any

from numba import errors, types

from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.ir.frontend.faults import read_index
from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.members import packed, unpacked
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.refusals import Refusal
from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics import intrinsic as language
from kerneldsl.lowering.groups import WrittenOperation

__all__ = ["read_intrinsic"]


def read_intrinsic(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    name = use.intrinsic.name
    if use.intrinsic.typing is language.Typing.LOOP:
        example = "range(0, n, 32)" if name == "pipelined" else "c.shape, (64, 64)"
        raise Refusal(
            f"kd.{name} is used outside the head of a loop",
            f"Write for … in kd.{name}({example}):",
        )
    if use.intrinsic.typing is language.Typing.ELEMENT:
        return read_hinted(reader, node, use)
    if use.intrinsic.typing is language.Typing.ARRAY and use.static["dtype"] is None:
        use, node = _with_dtype(reader, node, use)
    assert isinstance(node.func, ast.Name)
    reserved = node.func.id
    signature, operands, regions = _read_operands(reader, node, use)
    result = signature.return_type
    made = reader.add(
        name,
        operands,
        () if result == types.none else (result,),
        {**use.static, "signature": signature, "use": use, "site": (reader.unit, reserved)},
        regions,
        _effect(use, has_result=result != types.none),
    )
    if not made.results:
        return reader.constant(None)
    reader.origins.set_intrinsic(name, operands, made.result)
    return unpacked(reader, made.result)


def _with_dtype(reader: Reader, node: ast.Call, use: IntrinsicUse) -> tuple[IntrinsicUse, ast.Call]:
    """Return the declaration of an array of the dtype that an expression gives, with a name."""
    found = reader.value(node.args[0])
    dtype = str(getattr(found.type, "dtype", None)) if isinstance(found, Value) else ""
    if dtype not in ELEMENT_TYPES:
        text = ast.unparse(node.args[0])
        raise Refusal(f"{text} is no dtype of a kernel's arrays", "Name the dtype, as np.float32")
    named = use._replace(static={**use.static, "dtype": dtype})
    return named, ast.copy_location(ast.Call(node.func, [], []), node)


def read_hinted(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    """Read an element with a hint, or what is stored with one."""
    found = reader.value(node.args[0])
    value = packed(reader, found)
    match node.args[0]:
        case ast.Subscript(slice=index) if isinstance(value.type, types.Array):
            _refuse_part(reader, use, value.type, reader.value(index))
    typing_rule(use.intrinsic)((value.type,), use.static)
    made = value.owner
    if isinstance(made, Operation) and made.name == "array.load" and use.intrinsic.name == "load":
        made.attributes["hint"] = use.static["cache"]
    return found


def _refuse_part(reader: Reader, use: IntrinsicUse, part: Any, index: Any) -> None:
    """Refuse indices of a part of an array: a hint needs those of an element."""
    given = packed(reader, index).type
    count = len(given) if isinstance(given, types.BaseTuple) else 1
    if not all(isinstance(each, types.Integer) for each in getattr(given, "types", (given,))):
        return  # a slice, of which the typing rule says that it is none
    shown = f"a tuple of {count}" if isinstance(given, types.BaseTuple) else "a number"
    what = f"kd.{use.intrinsic.name}: array has {part.ndim + count} axes, and index is {shown}"
    raise Refusal(what, "Give an index for each axis")


#: Typings of intrinsics with a body that is not known here.
_UNKNOWN = (language.Typing.INLINE, language.Typing.LINKED, language.Typing.LINKED_ARRAY)


def _effect(use: IntrinsicUse, *, has_result: bool) -> Effect:
    given = use.intrinsic.effect
    found = Effect.NONE
    if given & language.Effect.BARRIER:
        is_wait = use.intrinsic.name in ("syncthreads", "syncwarp")
        found |= Effect.WAIT if is_wait else Effect.EXCHANGE
    if use.intrinsic.name.startswith("shfl"):
        found |= Effect.EXCHANGE
    if given & language.Effect.ALLOCATE_SHARED:
        found |= Effect.ALLOCATE
    if given & language.ARRAY_ACCESS:
        found |= Effect.READ | Effect.WRITE
    is_silent = not given & ~language.Effect.ALLOCATE_LOCAL and use.intrinsic.typing not in _UNKNOWN
    return found if is_silent and has_result else found | Effect.WRITE


def _read_operands(
    reader: Reader, node: ast.Call, use: IntrinsicUse
) -> tuple[Any, list[Value], list[Region]]:
    """Return the signature of a call, its operands, and a region for a function among them."""
    given: list[Value | FunctionUnit] = []
    for each in node.args:
        if isinstance(each, ast.Name) and each.id in reader.unit.callees:
            given.append(reader.unit.callees[each.id])
        elif len(given) == 1 and language.Effect.ATOMIC in use.intrinsic.effect:
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
