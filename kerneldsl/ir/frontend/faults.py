"""Debug mode: checks of indices, and faults in the place of ``assert`` and ``raise``."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.frontend.tuples import packed
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.lowering.checked_indices import checked_index
from kerneldsl.lowering.faults import FaultSite
from kerneldsl.lowering.passes.record_faults import CHECKED, FAULT, RecordFaults

__all__ = ["Faults", "read_check"]


class Faults:
    """Places of a kernel and its functions that can fail."""

    def __init__(self) -> None:
        #: By their number.
        self.sites: list[FaultSite] = []
        self._trees: dict[FunctionUnit, ast.FunctionDef] = {}

    def checked(self, unit: FunctionUnit) -> ast.FunctionDef:
        """Return a function with its checks; a function that is called twice has them once."""
        if unit not in self._trees:
            self._trees[unit], table = RecordFaults(first_site=len(self.sites))(unit)
            self.sites.extend(table.sites)
        return self._trees[unit]


def read_check(reader: Reader, node: ast.Call) -> Any:
    """Read a call that debug mode adds: the index that it checks, or a fault.

    Returns ``None`` for any other call.
    """
    match node:
        case ast.Call(func=ast.Name(id=name), args=[index, array, site, axis]) if name == CHECKED:
            values = reader.value(index), reader.value(array)
            return _check(reader, *values, _number(site), _number(axis))
        case ast.Call(func=ast.Name(id=name), args=[site]) if name == FAULT:
            reader.add("fault", [], (), {"site": _number(site)}, effect=Effect.WRITE)
            return reader.constant(None)
    return None


def _number(node: ast.expr) -> int:
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


def _check(reader: Reader, index: Any, array: Any, site: int, axis: int) -> Any:
    given, indexed = packed(reader, index), packed(reader, array)
    kind = given.type
    constant = constant_of(index) if isinstance(index, Value) else None
    if isinstance(indexed.type, types.BaseTuple) and type(constant) is int:
        kind = types.literal(constant)
    position = types.literal(axis)
    checked_index(kind, indexed.type, position)
    if not isinstance(kind, types.Literal):
        signature = types.void(kind, indexed.type, types.int32, position)
        attributes = {"site": site, "signature": signature}
        reader.add("fault.check", [given, indexed], (), attributes, effect=Effect.WRITE)
    return index
