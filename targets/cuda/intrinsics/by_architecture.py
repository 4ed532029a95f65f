"""Operations that newer architectures have an instruction for, and older ones a sequence.

A kernel is lowered once for all architectures. If it needs such an operation it calls a function
by name, and what writes PTX links the definition for its architecture.

References
----------
PTX ISA, sections "dp4a", "nanosleep", "tanh", "activemask", "match.sync", "redux.sync" and "atom",
"Target ISA Notes" and "PTX ISA Notes".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir

from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.scalars import byte_dot, call_llvm
from targets.cuda.architectures import Architecture, PtxVersion
from targets.cuda.compile.requirements import VECTOR_ATOMICS, NewerOperation, Writer
from targets.cuda.intrinsics import atomic_accesses, warp_values
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["FAST_TANH", "ONE_PLUS_ERF", "call_by_architecture", "definitions", "is_by_architecture"]

_PREFIX = f"{RESERVED_PREFIX}by_architecture_"
#: The function of the approximate hyperbolic tangent.
FAST_TANH = f"{_PREFIX}tanhf"
#: The function of 1 + erf(x), in float32.
ONE_PLUS_ERF = f"{_PREFIX}one_plus_erff"
_VOID, _I1, _I32, _I64 = ir.VoidType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()


def call_by_architecture(
    builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value]
) -> ir.Value:
    """Call one of the operations."""
    return call_llvm(builder, _PREFIX + name, result, list(args))


def is_by_architecture(symbol: str) -> bool:
    """Return whether a function of a module is one that :func:`definitions` defines."""
    return symbol.startswith(_PREFIX) and _operation(symbol) is not None


def _operation(symbol: str) -> Any:
    """Return the operation of a function, ``None`` if there is none."""
    name = symbol.removeprefix(_PREFIX)
    if name.startswith("matrix_"):
        # Few kernels have products of tiles.
        from targets.cuda.compile.mma.functions import FUNCTIONS

        return FUNCTIONS.get(name)
    if name.startswith("warpgroup_"):
        from targets.cuda.compile.mma.wgmma import find_function

        return find_function(name)
    return _OPERATIONS.get(name)


def definitions(symbols: Iterable[str], arch: Architecture, ptx_version: PtxVersion) -> str:
    """Return a module that defines functions for an architecture and PTX ISA version."""
    module = ir.Module()
    for symbol in symbols:
        operation = _operation(symbol)
        function = ir.Function(module, operation.kind, symbol)
        builder = ir.IRBuilder(function.append_basic_block())
        value = operation.define(builder, function.args, arch, ptx_version)
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


def _active_lanes(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    return call_nvvm(builder, "activemask", _I32, [])


def _voting_lanes(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    return call_nvvm(builder, "vote.ballot", _I32, [_I1(1)])


def _hyperbolic_tangent(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    kind = ir.FunctionType(_F32, [_F32])
    return builder.asm(kind, "tanh.approx.f32 $0, $1;", "=f,f", args, side_effect=False)


def _older_tangent(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Write 1 - 2 / (exp(2 x) + 1), and near 0, to avoid cancellation, x - x³ / 3."""
    (x,) = args
    power = call_nvvm(builder, "ex2.approx.f", _F32, [builder.fmul(x, _F32(2 / math.log(2)))])
    wide = builder.fsub(_F32(1), builder.fdiv(_F32(2), builder.fadd(power, _F32(1))))
    square = builder.fmul(x, x)
    near = builder.fmul(x, builder.fsub(_F32(1), builder.fmul(square, _F32(1 / 3))))
    is_near = builder.fcmp_ordered("<", square, _F32(0.01))
    return builder.select(is_near, near, wide)


#: log2(erfc(x)) / x by powers of x, to 1.6e-8 of erfc(x).
_ERFC_POWERS = (
    -1.6279085874557495,
    -0.9184163808822632,
    -0.1484816074371338,
    0.02825368009507656,
    -0.0007746291230432689,
    -0.0014894419582560658,
    0.00044550769962370396,
    -4.535860352916643e-05,
)


def _one_plus_erf(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Write 2 - erfc(x), or erfc(-x) for negative numbers, with erfc as a power of 2."""
    (x,) = args
    size, total = call_llvm(builder, "llvm.fabs.f32", _F32, [x]), _F32(_ERFC_POWERS[-1])
    for power in _ERFC_POWERS[-2::-1]:
        total = builder.fma(total, size, _F32(power))
    rest = call_nvvm(builder, "ex2.approx.ftz.f", _F32, [builder.fmul(total, size)])
    is_negative = builder.fcmp_ordered("<", x, _F32(0))
    return builder.select(is_negative, rest, builder.fsub(_F32(2), rest))


_WORDS = ir.FunctionType(_I32, (_I32, _I32, _I32))


def _values() -> dict[str, NewerOperation]:
    """Return the operations on the bits of a warp's values."""
    found = {}
    for kind in (_I32, _I64):
        lanes = ir.FunctionType(_I32, (_I32, kind))
        found[f"match_any_{kind}"] = NewerOperation(
            lanes, 70, (6, 0), warp_values.match_any, warp_values.match_any_by_votes
        )
        found[f"match_all_{kind}"] = NewerOperation(
            lanes, 70, (6, 0), warp_values.match_all, warp_values.match_all_by_votes
        )
    return found


def _reductions() -> dict[str, NewerOperation]:
    found = {}
    for dtype, kind in _REDUCED.items():
        for name in ("add", "min", "max", *(("and", "or", "xor") if "int" in dtype else ())):
            older = partial(warp_values.reduce_by_shuffles, name, dtype)
            native: Writer = older
            is_bitwise = name in ("and", "or", "xor")
            if kind == _I32:
                prefix = "u" if dtype == "uint32" and name in ("min", "max") else ""
                native = partial(warp_values.reduce_word, prefix + name)
            elif kind == _I64 and is_bitwise:
                native = partial(warp_values.reduce_halves, name)
            signature = ir.FunctionType(kind, (_I32, kind))
            found[f"reduce_{name}_{dtype}"] = NewerOperation(signature, 80, (7, 0), native, older)
    return found


def _accesses() -> dict[str, NewerOperation]:
    """Return loads and stores of one to eight bytes that order others."""
    found = {}
    for access in atomic_accesses.ACCESSES:
        pointer = access.bits.as_pointer()
        kind = ir.FunctionType(access.bits, (pointer,))
        if access.is_store:
            kind = ir.FunctionType(_VOID, (pointer, access.bits))
        found[access.name] = NewerOperation(
            kind, 70, (6, 0), access.write, access.write_with_fences
        )
    return found


#: The dtypes of reductions.
_REDUCED = {
    "int32": _I32,
    "uint32": _I32,
    "int64": _I64,
    "uint64": _I64,
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
}
_OPERATIONS: dict[str, NewerOperation] = {
    **{
        f"dot4_{signs}": NewerOperation(
            _WORDS, 61, (5, 0), partial(_native_dot, signs), partial(_older_dot, signs)
        )
        for signs in ("ss", "su", "us", "uu")
    },
    "nanosleep": NewerOperation(ir.FunctionType(_VOID, (_I32,)), 70, (6, 3), _sleep, _go_on),
    "tanhf": NewerOperation(
        ir.FunctionType(_F32, (_F32,)), 75, (7, 0), _hyperbolic_tangent, _older_tangent
    ),
    "one_plus_erff": NewerOperation(
        ir.FunctionType(_F32, (_F32,)), 60, (5, 0), _one_plus_erf, _one_plus_erf
    ),
    "activemask": NewerOperation(
        ir.FunctionType(_I32, ()), 60, (6, 2), _active_lanes, _voting_lanes
    ),
    **{
        atomic_accesses.vector_add(count): NewerOperation(
            atomic_accesses.add_kind(count),
            *VECTOR_ATOMICS,
            atomic_accesses.add_vector,
            atomic_accesses.add_parts,
        )
        for count in (2, 4)
    },
    **_accesses(),
    **_values(),
    **_reductions(),
}
