"""Debug mode: checks of indices, and faults in the place of ``assert`` and ``raise``.

A *site* is the number of a place that can fail. ``fault.check`` takes an index of 64 bits and the
extent of its axis; ``fault`` ends the thread.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from numba import types

from kerneldsl.frontend.expressions import written
from kerneldsl.ir.frontend.attributes import attribute
from kerneldsl.ir.frontend.control import read_branches, read_branches_of
from kerneldsl.ir.frontend.reader import Reader, constant_of, reads_statement
from kerneldsl.ir.operations import Effect, Value

if TYPE_CHECKING:
    from kerneldsl.lowering.faults import FaultSite

__all__ = ["Faults", "check_divisor", "fault", "read_index"]


class Faults:
    """Places of a kernel and its functions that can fail, in the order in which they are read."""

    def __init__(self, *, checks_division: bool = False) -> None:
        self.sites: list[FaultSite] = []
        self.checks_division = checks_division
        self._numbers: dict[tuple[ast.AST, type[BaseException]], int] = {}

    def number(
        self,
        reader: Reader,
        node: ast.AST,
        kind: type[BaseException],
        message: str = "",
        array: str | None = None,
    ) -> int:
        """Return the site of a node; one that is read again, as in a loop, has the same."""
        from kerneldsl.lowering.faults import FaultSite

        key = node, kind
        if key not in self._numbers:
            self._numbers[key] = len(self.sites)
            self.sites.append(FaultSite(kind, message, reader.unit.locate(node), array))
        return self._numbers[key]


# -- indices --------------------------------------------------------------------------------------


def read_index(
    reader: Reader, access: ast.AST, base: ast.expr, indexed: Any, index: ast.expr
) -> Any:
    """Read the index of an access. In debug mode each of its parts is checked once it is read.

    `indexed` is the value of the expression `base`.
    """
    if reader.faults is None:
        return reader.value(index)
    axis = 0
    found = []
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        value = reader.value(part)
        for each in value if isinstance(value, tuple) else (value,):
            if not isinstance(each, Value) or isinstance(each.type, types.EllipsisType):
                axis = _UNKNOWN
            elif not isinstance(each.type, types.NoneType):
                if isinstance(each.type, types.Integer):
                    _check(reader, access, base, indexed, each, axis)
                axis += 1
        found.append(value)
    return tuple(found) if isinstance(index, ast.Tuple) else found[0]


#: An axis after an ellipsis: no array has as many.
_UNKNOWN = 1 << 16


def _check(
    reader: Reader, access: ast.AST, base: ast.expr, indexed: Any, index: Value, axis: int
) -> None:
    if isinstance(indexed, tuple) and constant_of(index) is not None:
        return  # it is compared when the member is read
    extent = _extent(reader, indexed, axis)
    if extent is None:
        return
    site = reader.faults.number(reader, access, IndexError, array=written(base, reader.unit))
    wide = reader.cast(index, types.int64 if index.type.signed else types.uint64)
    attributes = {"site": site, "axis": axis}
    reader.add("fault.check", [wide, extent], (), attributes, effect=Effect.WRITE)


def _extent(reader: Reader, indexed: Any, axis: int) -> Value | None:
    """Return the extent of an axis of what is indexed; ``None`` if it has none."""
    found: Value
    if isinstance(indexed, tuple):
        found = reader.constant(len(indexed), types.int64)
        return found if axis == 0 else None
    kind = indexed.type
    if isinstance(kind, types.Array):
        if axis >= kind.ndim:
            return None
        return reader.add("array.extent", [indexed], (types.int64,), {"axis": axis}).result
    if not isinstance(reader.typing.context.resolve_getattr(kind, "shape"), types.BaseTuple):
        return None
    shape = attribute(reader, indexed, "shape")
    return shape[axis] if axis < len(shape) else None


# -- exceptions -----------------------------------------------------------------------------------


@reads_statement(ast.Assert)
def read_assert(reader: Reader, node: ast.Assert) -> None:
    """Read an ``assert``, which acts in debug mode alone."""
    if reader.faults is None:
        return
    message = str(node.msg.value) if isinstance(node.msg, ast.Constant) else ""
    site = reader.faults.number(reader, node, AssertionError, message)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    read_branches(reader, negated, lambda: fault(reader, site), lambda: None)


@reads_statement(ast.Raise)
def read_raise(reader: Reader, node: ast.Raise) -> None:
    """Read a ``raise``, which acts in debug mode alone."""
    if reader.faults is None:
        return
    message, kind = "", node.exc
    if isinstance(kind, ast.Call):
        if kind.args and isinstance(kind.args[0], ast.Constant):
            message = str(kind.args[0].value)
        kind = kind.func
    assert kind is not None
    # The front end has seen that it is a class of exceptions.
    fault(reader, reader.faults.number(reader, node, reader.outside(kind), message))


def check_divisor(reader: Reader, node: ast.BinOp | ast.AugAssign, one: Any, two: Any) -> None:
    """End the thread where a number is divided by zero, if divisions are checked."""
    if reader.faults is None or not reader.faults.checks_division:
        return
    if not isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        return
    if not all(isinstance(each, Value) and isinstance(each.type, _NUMBERS) for each in (one, two)):
        return
    site = reader.faults.number(reader, node, ZeroDivisionError, "division by zero")
    is_zero = reader.numba(operator.eq, [two, reader.constant(0)])
    read_branches_of(reader, is_zero, lambda: fault(reader, site), lambda: None)


_NUMBERS = (types.Number, types.Boolean)


def fault(reader: Reader, site: int) -> None:
    """End the thread."""
    reader.add("fault", [], (), {"site": site}, effect=Effect.WRITE)
