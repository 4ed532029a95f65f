"""Interprets straight code of a warp, with the instructions of tensor cores.

Which lane has which element is as in PTX ISA's figures.

A value has an element for each of the 32 lanes. Memory is a list of values.

References
----------
PTX ISA, sections "Matrix Fragments for mma.m8n8k16", "… mma.m8n8k4 with .f64 floating point type",
"… mma.m16n8k8", "… mma.m16n8k16 with floating point type", "… mma.m16n8k32", "prmt".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from llvmlite import ir

__all__ = ["LANES", "fragment_places", "multiply", "run_warp"]

LANES = np.arange(32)
_GROUP, _PLACE = LANES // 4, LANES % 4
_DTYPES = {
    "f16": np.float16,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def fragment_places(shape: str, operand: str, number: int) -> tuple[Any, Any]:
    """Return the row and column of element `number` of each lane, as PTX ISA writes them."""
    i = number
    match shape, operand:
        case "m8n8k16", "a":
            return _GROUP, _PLACE * 4 + i
        case "m8n8k16", "b":
            return _PLACE * 4 + i, _GROUP
        case "m8n8k16", "c":
            return _GROUP, _PLACE * 2 + i
        case "m8n8k4", "a":
            return _GROUP, _PLACE
        case "m8n8k4", "b":
            return _PLACE, _GROUP
        case "m8n8k4", "c":
            return _GROUP, _PLACE * 2 + i
        case "m16n8k8.tf32", "a":
            return _GROUP + 8 * (i in (1, 3)), _PLACE + 4 * (i in (2, 3))
        case "m16n8k8.tf32", "b":
            return _PLACE + 4 * i, _GROUP
        case "m16n8k8", "a":
            return _GROUP + 8 * (i >= 2), _PLACE * 2 + (i & 1)
        case "m16n8k8", "b":
            return _PLACE * 2 + i, _GROUP
        case "m16n8k16", "a":
            row = _GROUP + 8 * (not (0 <= i < 2 or 4 <= i < 6))
            return row, _PLACE * 2 + (i & 1) + 8 * (i >= 4)
        case "m16n8k16", "b":
            return _PLACE * 2 + (i & 1) + 8 * (i >= 2), _GROUP
        case "m16n8k32", "a":
            row = _GROUP + 8 * (not (0 <= i < 4 or 8 <= i < 12))
            return row, _PLACE * 4 + (i & 3) + 16 * (i >= 8)
        case "m16n8k32", "b":
            return _PLACE * 4 + (i & 3) + 16 * (i >= 4), _GROUP
        case _, "c":
            return _GROUP + 8 * (i >= 2), _PLACE * 2 + (i & 1)
    raise NotImplementedError(shape, operand)


def _words(values: Sequence[Any], dtype: Any) -> Any:
    """Return the elements of each lane in registers: an array with a row for each lane."""
    if np.dtype(dtype).itemsize == 8:
        return np.stack(values, 1)
    registers = np.stack([np.asarray(each).reshape(32, -1).view(np.uint32) for each in values], 1)
    return (
        np.ascontiguousarray(registers).reshape(32, -1).view(np.uint8).reshape(32, -1).view(dtype)
    )


def _mma(name: str, given: Sequence[Any]) -> list[Any]:
    """Run one instruction."""
    found = re.fullmatch(r"(m(\d+)n(\d+)k(\d+))\.row\.col\.(.*)", name)
    assert found is not None, name
    kinds = [each for each in found[5].split(".") if each not in ("f32",)] or ["f16"]
    kinds = kinds * 2 if len(kinds) == 1 else kinds
    rows, columns, depth = (int(found[n]) for n in (2, 3, 4))
    one, two = (np.dtype(_DTYPES[each]) for each in kinds)
    size = 8 if one.itemsize == 8 else 4
    counts = [each * depth * one.itemsize // 32 // size for each in (rows, columns)]
    a, b, c = given[: counts[0]], given[counts[0] : sum(counts)], given[sum(counts) :]
    shape = found[1] + (".tf32" if kinds[0] == "tf32" else "")

    def matrix(operand: str, values: Any, extents: tuple[int, int], dtype: Any) -> Any:
        made = np.zeros(extents, dtype)
        for number in range(values.shape[1]):
            made[fragment_places(shape, operand, number)] = values[:, number]
        return made

    total = np.int64 if kinds[0] in ("s8", "u8") else np.float64
    left = matrix("a", _words(a, one), (rows, depth), one).astype(total)
    right = matrix("b", _words(b, two), (depth, columns), two).astype(total)
    kind = np.int32 if total is np.int64 else np.float64 if size == 8 else np.float32
    added = matrix("c", np.stack([each.view(kind) for each in c], 1), (rows, columns), total)
    result = (left @ right + added).astype(kind)
    return [result[fragment_places(shape, "c", number)] for number in range(len(c))]


def multiply(dtypes: tuple[str, str], a: Any, b: Any, c: Any) -> list[Any]:
    """Multiply fragments of 32 bytes along k by the largest instruction for their dtypes."""
    letters = {np.dtype(kind).name: name for name, kind in _DTYPES.items()}
    names = list(dict.fromkeys(letters[each] for each in dtypes))
    if names == ["f64"]:
        low, high = (_mma("m8n8k4.row.col.f64", [a[n], *b, *c[2 * n : 2 * n + 2]]) for n in (0, 1))
        return [*low, *high]
    shape = {"f16": "m16n8k16", "bf16": "m16n8k16", "tf32": "m16n8k8"}.get(names[0], "m16n8k32")
    kinds = "f32.f32" if names == ["f16"] else ".".join(names)
    return _mma(f"{shape}.row.col.{kinds}", [*a, *b, *c])


def _dtype(kind: ir.Type) -> Any:
    if isinstance(kind, ir.VectorType):
        return _dtype(kind.element)
    if isinstance(kind, ir.IntType):
        return np.dtype(f"u{max(kind.width, 8) // 8}")
    return np.dtype({"half": "f2", "float": "f4", "double": "f8"}[str(kind)])


def run_warp(function: ir.Function, args: Sequence[Any]) -> Any:
    """Run a function of one block of instructions for all lanes; return what it returns."""
    values = dict(zip(function.args, args, strict=True))

    def get(value: Any) -> Any:
        if not isinstance(value, ir.Constant):
            return values[value]
        content = value.constant
        if isinstance(value.type, ir.VectorType):
            parts = [each.constant if isinstance(each, ir.Constant) else each for each in content]
            return np.tile(np.array(parts, _dtype(value.type)), (32, 1))
        return np.full(32, content & (1 << value.type.width) - 1, _dtype(value.type))

    (block,) = function.blocks
    with np.errstate(all="ignore"):
        for each in block.instructions:
            if each.opname == "ret void":
                return None
            if each.opname == "ret":
                return get(each.operands[0])
            values[each] = _step(each, get)
    return None


def _step(each: Any, get: Any) -> Any:
    kind = each.type
    match each.opname:
        case "getelementptr":
            memory, start = get(each.pointer)
            return memory, start + each.indices[0].constant
        case "load":
            memory, start = get(each.operands[0])
            return memory[start]
        case "store":
            memory, start = get(each.operands[1])
            memory[start] = get(each.operands[0])
            return None
        case "call":
            return _call(each.callee.name, [get(value) for value in each.args])
        case "extractvalue":
            return get(each.aggregate)[each.indices[0]]
        case "bitcast":
            lanes = np.ascontiguousarray(get(each.operands[0]))
            found = lanes.view(_dtype(kind)).reshape(32, -1)
            return found if isinstance(kind, ir.VectorType) else found[:, 0]
        case "trunc" | "zext":
            return get(each.operands[0]).astype(_dtype(kind))
        case "select":
            return np.where(get(each.cond), get(each.lhs), get(each.rhs))
        case "icmp":
            assert each.op == "eq"
            return np.equal(*map(get, each.operands))
    operation = {
        **{"and": np.bitwise_and, "or": np.bitwise_or, "shl": np.left_shift},
        **{"lshr": np.right_shift, "add": np.add, "mul": np.multiply, "fmul": np.multiply},
        **{"udiv": np.floor_divide, "urem": np.remainder, "xor": np.bitwise_xor},
    }[each.opname]
    one, two = map(get, each.operands)
    return operation(one, two).astype(one.dtype)


def _call(name: str, given: list[Any]) -> Any:
    match name.removeprefix("llvm.nvvm."):
        case "prmt":
            pool = np.stack([given[0], given[1]], 1).view(np.uint8).reshape(32, 8)
            places = [(given[2] >> 4 * number & 7).astype(int) for number in range(4)]
            found = np.stack([pool[LANES, place] for place in places], 1)
            return np.ascontiguousarray(found).view(np.uint32)[:, 0]
        case mma if mma.startswith("mma."):
            return _mma(mma.removeprefix("mma."), given)
    raise NotImplementedError(name)
