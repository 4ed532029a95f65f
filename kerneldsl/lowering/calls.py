"""Calls of an intrinsic as targets that compile with Numba type and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Call", "Emitter", "join", "loop_while"]


@dataclass(frozen=True, slots=True)
class Call:
    """The call of an intrinsic that an emitter writes."""

    #: The target's, where types have a representation.
    context: Any
    #: Builder at the place of the call.
    builder: ir.IRBuilder
    #: Types of the arguments and the result.
    signature: Any
    #: The arguments, converted to those types.
    args: tuple[ir.Value, ...]
    #: Constant parameters.
    static: Mapping[str, Any]


#: Writes the instructions of one call and returns its value, or ``None`` if nothing reads one.
Emitter: TypeAlias = Callable[[Call], ir.Value | None]


def join(builder: ir.IRBuilder, *incoming: tuple[ir.Value, ir.Block]) -> ir.Value:
    """Return one of several values, by the block that was before."""
    found = builder.phi(incoming[0][0].type)
    for value, block in incoming:
        found.add_incoming(value, block)
    return found


# Write loops.


@contextmanager
def loop_while(builder: ir.IRBuilder, test: Callable[[], ir.Value]) -> Iterator[None]:
    """Repeat what is written inside as long as what `test` writes is true."""
    head, body, end = (builder.append_basic_block(f"while.{x}") for x in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    builder.cbranch(test(), body, end)
    builder.position_at_end(body)
    yield
    builder.branch(head)
    builder.position_at_end(end)
