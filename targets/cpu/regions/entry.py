"""The entry of a kernel, which has the process's runner call the body."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.launch.native.builder import POINTER
from kerneldsl.lowering.numba_internals.regions import (
    EXCEPTION_POINTER,
)
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.runtime.native_tables import RUNNER, RunnerOption
from targets.cpu.runtime.runner_code import RUNNER_TYPE, write_runner

__all__ = ["BODY", "Entry", "write_entry"]

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_POINTER = _I8.as_pointer()

#: ``i32 body(ptr memory, ptr exception, i64 first, i64 last, ptr launch)``. Result and first
#: arguments are those of Numba's calling convention, by which what Numba has written in Python is
#: called and returns an exception.
BODY = ir.FunctionType(_I32, [_POINTER, EXCEPTION_POINTER.as_pointer(), _I64, _I64, _POINTER])


@dataclass(frozen=True)
class Entry:
    """Options of an entry beside the body."""

    scratch_bytes: int
    options: RunnerOption
    #: Whether the module has its own function that runs pieces, as a library for C has.
    has_runner: bool


def write_entry(module: ir.Module, body: ir.Function, name: str, entry: Entry) -> None:
    """Write the entry, which has a runner call the body for each piece of a range."""
    if entry.has_runner:
        runner = write_runner(module, is_internal=True)
    else:
        runner = ir.Function(module, RUNNER_TYPE, RUNNER)
    piece = _write_piece(module, body, f"{name}.piece")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ranges, counts, _, launch = function.args
    more = (_I64(entry.scratch_bytes), _I64(entry.options))
    builder.call(runner, [ranges, counts, launch, piece, *more])
    builder.ret_void()


def _write_piece(module: ir.Module, body: ir.Function, name: str) -> ir.Function:
    """Write ``i64 piece(i64 first, i64 last, ptr scratch, ptr launch)``, which calls the body."""
    piece = ir.Function(module, ir.FunctionType(_I64, [_I64, _I64, POINTER, POINTER]), name)
    piece.linkage = "internal"
    first, last, scratch, launch = piece.args
    builder = ir.IRBuilder(piece.append_basic_block("entry"))
    exception = cgutils.alloca_once(builder, EXCEPTION_POINTER)
    scratch, launch = (builder.bitcast(each, _POINTER) for each in (scratch, launch))
    code = builder.call(body, [scratch, exception, first, last, launch])
    told = builder.ptrtoint(builder.load(exception), _I64)
    builder.ret(builder.select(builder.icmp_signed("!=", code, _I32(0)), told, _I64(0)))
    return piece
