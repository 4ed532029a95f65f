"""Functions that the code of products calls, and what they are on each architecture.

References
----------
PTX ISA, sections "ldmatrix", "cp.async", "cp.async.commit_group", "cp.async.wait_group" and "cvt".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeAlias

from llvmlite import ir

from targets.cuda.architectures import Architecture, PtxVersion
from targets.cuda.compile.mma.instructions import STEPS
from targets.cuda.compile.requirements import NewerOperation
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["COPY_BYTES", "FUNCTIONS", "GLOBAL", "MOST_PENDING", "SHARED"]

_VOID, _FLOAT = ir.VoidType(), ir.FloatType()
_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
#: Pointers to bytes of shared and of global memory.
SHARED, GLOBAL = _I8.as_pointer(SHARED_SPACE), _I8.as_pointer(1)
#: Bytes of one asynchronous copy, and of a row of a matrix that ``ldmatrix`` loads.
COPY_BYTES = 16
#: Most groups of copies that may be pending when a thread waits.
MOST_PENDING = 7

_Arguments: TypeAlias = Sequence[ir.Value]


class _Definable(Protocol):
    @property
    def kind(self) -> ir.FunctionType: ...

    def define(
        self, builder: ir.IRBuilder, args: _Arguments, arch: Architecture, ptx_version: PtxVersion
    ) -> ir.Value | None: ...


# ------------------------------------------------------------ matrices of eight rows of 16 bytes


def _load_matrices(count: int, turned: str, builder: ir.IRBuilder, args: _Arguments) -> None:
    memory, row = args
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{turned}.b16.p3"
    found = call_nvvm(builder, name, ir.LiteralStructType([_I32] * count), [row])
    for number in range(count):
        builder.store(builder.extract_value(found, number), builder.gep(memory, [_I32(number)]))


def _matrices() -> dict[str, _Definable]:
    kind = ir.FunctionType(_VOID, (_I32.as_pointer(), SHARED))
    return {
        f"matrix_load_{count}{turned.replace('.', '_')}": NewerOperation(
            kind,
            75,
            (6, 5),
            partial(_load_matrices, count, turned),
            _refuse,
        )
        for count in (2, 4)
        for turned in ("", ".trans")
    }


def _refuse(builder: ir.IRBuilder, args: _Arguments) -> None:
    """Write nothing: products have no instruction on these architectures either."""
    raise AssertionError("ldmatrix of an architecture without it")


# ------------------------------------------------------------ copies from global to shared memory


def _copy(builder: ir.IRBuilder, args: _Arguments) -> None:
    call_nvvm(builder, "cp.async.cg.shared.global.16.s", _VOID, list(args))


def _copy_all(builder: ir.IRBuilder, args: _Arguments) -> None:
    call_nvvm(builder, "cp.async.cg.shared.global.16", _VOID, list(args))


def _copy_all_now(builder: ir.IRBuilder, args: _Arguments) -> None:
    """Copy, in place of starting to."""
    wide = ir.VectorType(_I32, 4)
    target, source = (builder.bitcast(each, wide.as_pointer(each.type.addrspace)) for each in args)
    loaded = builder.load(source)
    loaded.align = COPY_BYTES
    builder.store(loaded, target).align = COPY_BYTES


def _copy_now(builder: ir.IRBuilder, args: _Arguments) -> None:
    """Copy, in place of starting to: some bytes, and zeros after them."""
    target, source, nbytes = args
    four = ir.VectorType(_I32, 4)
    wide = builder.bitcast(target, four.as_pointer(SHARED_SPACE))
    is_whole = builder.icmp_unsigned("==", nbytes, _I32(COPY_BYTES))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            _copy_all_now(builder, (target, source))
        with part:
            builder.store(ir.Constant(four, [0] * 4), wide).align = COPY_BYTES
            for place in range(COPY_BYTES - 1):
                with builder.if_then(builder.icmp_unsigned("<", _I32(place), nbytes)):
                    byte = builder.load(builder.gep(source, [_I32(place)]))
                    builder.store(byte, builder.gep(target, [_I32(place)]))


def _commit(builder: ir.IRBuilder, args: _Arguments) -> None:
    call_nvvm(builder, "cp.async.commit.group", _VOID, [])


def _wait(pending: int, builder: ir.IRBuilder, args: _Arguments) -> None:
    call_nvvm(builder, "cp.async.wait.group", _VOID, [_I32(pending)])


def _nothing(builder: ir.IRBuilder, args: _Arguments) -> None:
    """Do nothing: all is copied already."""


def _copies() -> dict[str, _Definable]:
    kind, alone = ir.FunctionType(_VOID, (SHARED, GLOBAL, _I32)), ir.FunctionType(_VOID, ())
    return {
        "matrix_copy": NewerOperation(kind, 80, (7, 0), _copy, _copy_now),
        "matrix_copy_all": NewerOperation(
            ir.FunctionType(_VOID, kind.args[:2]), 80, (7, 0), _copy_all, _copy_all_now
        ),
        "matrix_commit": NewerOperation(alone, 80, (7, 0), _commit, _nothing),
        **{
            f"matrix_wait_{pending}": NewerOperation(
                alone, 80, (7, 0), partial(_wait, pending), _nothing
            )
            for pending in range(MOST_PENDING + 1)
        },
    }


def _store_pair(builder: ir.IRBuilder, args: _Arguments) -> None:
    kind = ir.FunctionType(_VOID, (SHARED, _I32, _I32))
    text = "st.shared.v2.b32 [$0], {$1, $2};"
    builder.asm(kind, text, "r,r,r,~{memory}", list(args), side_effect=True)


# ------------------------------------------------------------ numbers


def _round(builder: ir.IRBuilder, args: _Arguments) -> ir.Value:
    return call_nvvm(builder, "f2tf32.rna", _I32, [builder.bitcast(args[0], _FLOAT)])


def _same(builder: ir.IRBuilder, args: _Arguments) -> ir.Value:
    return args[0]


#: Each function by its name.
FUNCTIONS: dict[str, _Definable] = {
    **STEPS,
    **_matrices(),
    **_copies(),
    "matrix_store_pair": NewerOperation(
        ir.FunctionType(_VOID, (SHARED, _I32, _I32)), 50, (6, 0), _store_pair, _store_pair
    ),
    "matrix_round": NewerOperation(ir.FunctionType(_I32, (_I32,)), 80, (7, 0), _round, _same),
}
