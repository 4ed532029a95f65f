"""Operations that newer architectures have an instruction for, and older ones a sequence.

A kernel is lowered once for all architectures. Where it needs such an operation it calls a function
by name, and what writes PTX links the definition for its architecture.

References
----------
PTX ISA, sections "dp4a" and "nanosleep", "Target ISA Notes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.scalars import byte_dot, call_llvm
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["call_by_architecture", "definitions", "is_by_architecture"]

_PREFIX = f"{RESERVED_PREFIX}by_architecture_"
_VOID, _I32 = ir.VoidType(), ir.IntType(32)

#: Writes an operation on some values; ``None`` where it has no result.
_Writer: TypeAlias = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value | None]


@dataclass(frozen=True)
class _Operation:
    #: Types of the arguments and the result.
    kind: ir.FunctionType
    #: The first compute capability with the instruction, as :attr:`Architecture.number` has it.
    since: int
    #: Writes the instruction.
    native: _Writer
    #: Writes what older architectures do.
    older: _Writer


def call_by_architecture(
    builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value]
) -> ir.Value:
    """Call one of the operations."""
    return call_llvm(builder, _PREFIX + name, result, list(args))


def is_by_architecture(symbol: str) -> bool:
    """Return whether a function of a module is one that :func:`definitions` defines."""
    return symbol.removeprefix(_PREFIX) in _OPERATIONS and symbol.startswith(_PREFIX)


def definitions(symbols: Iterable[str], number: int) -> str:
    """Return a module that defines functions for a compute capability such as 90."""
    module = ir.Module()
    for symbol in symbols:
        operation = _OPERATIONS[symbol.removeprefix(_PREFIX)]
        function = ir.Function(module, operation.kind, symbol)
        builder = ir.IRBuilder(function.append_basic_block())
        write = operation.native if number >= operation.since else operation.older
        value = write(builder, function.args)
        if value is None:
            builder.ret_void()
        else:
            builder.ret(value)
    return str(module)


def _native_dot(signs: str, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    return call_nvvm(builder, f"idp4a.{'.'.join(signs)}", _I32, list(args))


def _older_dot(signs: str, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    first, second = (sign == "s" for sign in signs)
    return byte_dot(builder, tuple(args), (first, second))


def _sleep(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    call_nvvm(builder, "nanosleep", _VOID, list(args))


def _go_on(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    """Sleep for no time, as a thread may."""


_WORDS = ir.FunctionType(_I32, (_I32, _I32, _I32))
_OPERATIONS: dict[str, _Operation] = {
    **{
        f"dot4_{signs}": _Operation(
            _WORDS, 61, partial(_native_dot, signs), partial(_older_dot, signs)
        )
        for signs in ("ss", "su", "us", "uu")
    },
    "nanosleep": _Operation(ir.FunctionType(_VOID, (_I32,)), 70, _sleep, _go_on),
}
