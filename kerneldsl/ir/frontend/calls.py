"""Calls: of the language, of device functions, of what Numba knows."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.reader import NotReadError, Reader, reads


@reads(ast.Call)
def read_value(reader: Reader, node: ast.Call) -> Any:
    found = read_call(reader, node)
    if found is None:
        raise NotReadError(ast.unparse(node))
    return found


def read_call(reader: Reader, node: ast.Call) -> Any:
    use = reader.unit.use_of(node)
    if use is not None:
        if use.intrinsic.is_index:
            return _read_id(reader, node, use)
        from kerneldsl.ir.frontend.intrinsics import read_intrinsic  # many kernels have none

        return read_intrinsic(reader, node, use)
    callee = reader.unit.callee_of(node)
    if callee is not None:
        arguments = [reader.value(each) for each in node.args]
        found = read_call_of(reader, callee, arguments)
        if reader.notes is not None:
            reader.notes.add_call(node, reader.notes.of_call(callee, arguments), found)
        return found
    from kerneldsl.ir.frontend.outside_calls import read_outside_call

    return read_outside_call(reader, node)


def _read_id(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    name, ndim = use.intrinsic.name, use.static.get("ndim", 1)
    if ndim > 1:
        axes = ({"ndim": 1, "axis": axis} for axis in range(ndim))
        return tuple(reader.add(name, [], (types.int64,), axis).result for axis in axes)
    assert isinstance(node.func, ast.Name)
    about = {"signature": types.int64(), "use": use, "site": (reader.unit, node.func.id)}
    return reader.add(name, [], (types.int64,), {**use.static, **about}).result
