"""Rewrites of ids: by the index of the thread and of the block."""

from __future__ import annotations

import operator
from typing import Any

from numba import types

from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.typing import Typing

__all__ = ["id_patterns"]


def id_patterns(typing: Typing, width: int) -> dict[str, Any]:
    """Return the rewrites of ids: by the index of the thread and of the block."""
    kind = types.int64

    def constant(value: int) -> Operation:
        return Operation("const", [], (kind,), {"value": value})

    def numba(function: Any, one: Operation, two: Operation) -> Operation:
        signature = typing.operator(function, (kind, kind))
        return Operation(
            "numba",
            [one.result, two.result],
            (signature.return_type,),
            {"function": function, "signature": signature},
        )

    def grid(operation: Operation) -> Any:
        if operation.attributes.get("axis", 0) or operation.attributes["ndim"] != 1:
            raise NotReadError("an index of several axes")
        block, thread = (Operation(f"{n}.x", [], (kind,)) for n in ("blockIdx", "threadIdx"))
        size = constant(width)
        start = numba(operator.mul, block, size)
        index = numba(operator.add, start, thread)
        index.result.name = operation.result.name
        return [block, thread, size, start, index], [index.result]

    def block_dim(operation: Operation) -> Any:
        made = constant(width)
        return [made], [made.result]

    def fold(operation: Operation) -> Any:
        values = []
        for operand in operation.operands:
            made = operand.owner
            is_constant = isinstance(made, Operation) and made.name == "const"
            value = (
                made.attributes["value"] if is_constant and isinstance(made, Operation) else None
            )
            if type(value) is not int:
                return None
            values.append(value)
        function = operation.attributes["function"]
        if len(values) != 2 or function not in _FOLDED or operation.result.type != kind:
            return None
        if values[1] == 0:
            return None
        made = constant(function(*values))
        return [made], [made.result]

    return {"grid": grid, "blockDim.x": block_dim, "numba": fold}


_FOLDED = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
