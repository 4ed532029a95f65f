"""Calls of the language. Tile operations are in their own module."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.operation_arguments import read_operands
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.frontend.tiles import read_tile
from kerneldsl.ir.frontend.tuples import packed, unpacked
from kerneldsl.ir.operations import Effect, Operation
from kerneldsl.language.intrinsics import intrinsic as language
from kerneldsl.lowering.typing_rules import typing_rule

__all__ = ["read_intrinsic"]


def read_intrinsic(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    name = use.intrinsic.name
    if name.startswith("tile."):
        return read_tile(reader, node, use)
    if use.intrinsic.typing is language.Typing.ELEMENT:
        return read_hinted(reader, node, use)
    assert isinstance(node.func, ast.Name)
    reserved = node.func.id
    if name in ("grid", "gridsize") and use.static["ndim"] > 1:
        return tuple(
            reader.add(name, [], (types.int64,), {"ndim": 1, "axis": axis}).result
            for axis in range(use.static["ndim"])
        )
    signature, operands, regions = read_operands(reader, node, use)
    result = signature.return_type
    made = reader.add(
        name,
        operands,
        () if result == types.none else (result,),
        {**use.static, "signature": signature, "use": use, "site": (reader.unit, reserved)},
        regions,
        _effect(use, has_result=result != types.none),
    )
    return unpacked(reader, made.result) if made.results else reader.constant(None)


def read_hinted(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    """Read an element with a hint, or what is stored with one."""
    found = reader.value(node.args[0])
    value = packed(reader, found)
    typing_rule(use.intrinsic)((value.type,), use.static)
    made = value.owner
    if isinstance(made, Operation) and made.name == "array.load" and use.intrinsic.name == "load":
        made.attributes["hint"] = use.static["cache"]
    return found


#: What is called is not known.
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
