"""Native code that looks at the context that Python code runs in: context variables, streams."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["ContextAddresses", "emit_no_streams", "read_variable"]


@dataclass(frozen=True)
class ContextAddresses:
    """Places in this process that describe the context."""

    #: Of two int64: tables of another generation than the first are passed over, and all native
    #: code that may is while the second is not 0.
    state: int
    #: Of an int64: whether a stream was ever made.
    streams_in_use: int
    #: The context variables with the active streams and pools, and what both hold for none.
    streams_variable: int
    pools_variable: int
    nothing: int


def read_variable(f: Function, variable: int, room: Any, bad: Any) -> Any:
    """Return what a context variable holds, as a number; the context keeps it alive."""
    status = f.python("PyContextVar_Get", I32, f.pointer(variable), I64(0).inttoptr(POINTER), room)
    f.require(f.equal(status, I32(0)), bad)
    value = f.load(room, 0, POINTER)
    f.python("Py_DecRef", ir.VoidType(), value)
    return f.b.ptrtoint(value, I64)


def emit_no_streams(
    f: Function, addresses: ContextAddresses, room: Any, bad: Any, broken: Any
) -> None:
    """Go on where no stream is active; else branch to `bad`, and for an error to `broken`."""
    ask, no_stream = f.block("ask_for_streams"), f.block("no_stream")
    in_use = f.load(f.pointer(addresses.streams_in_use))
    f.b.cbranch(f.equal(in_use, I64(0)), no_stream, ask)
    f.b.position_at_end(ask)
    active = read_variable(f, addresses.streams_variable, room, broken)
    f.b.cbranch(f.equal(active, I64(addresses.nothing)), no_stream, bad)
    f.b.position_at_end(no_stream)
