"""Calls: of the language, of device functions, of what Numba knows."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.intrinsics import read_intrinsic
from kerneldsl.ir.frontend.outside_calls import read_outside_call
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
        return read_intrinsic(reader, node, use)
    callee = reader.unit.callee_of(node)
    if callee is not None:
        return read_call_of(reader, callee, [reader.value(each) for each in node.args])
    return read_outside_call(reader, node)
