"""Ways to write the meaning of a function into a kernel.

A meaning is compiled without contraction, whatever the kernel allows. So errors that it computes
are those of the operations as written, and ``fadd_rn`` is never part of another operation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.language.intrinsics.table import find_intrinsic
from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.compiling import kernel_flags
from kerneldsl.lowering.scalars import call_llvm
from kerneldsl.lowering.types import element_type

__all__ = [
    "bits_of_half",
    "c_function",
    "compiled",
    "double_of_words",
    "half_of_bits",
    "intrinsic",
    "operation",
    "same_bits",
    "widened",
    "word_of_double",
]

_I64 = ir.IntType(64)


def compiled(function: Callable[..., Any]) -> Emitter:
    """Return what writes a call of a Python function."""
    return partial(_call_compiled, function, False)


def widened(function: Callable[..., Any]) -> Emitter:
    """Return what writes a call of a Python function of float64, and rounds its results."""
    return partial(_call_compiled, function, True)


def intrinsic(name: str) -> Emitter:
    """Return what writes a call of an intrinsic of the language."""
    return partial(_call_intrinsic, name)


def _call_compiled(function: Callable[..., Any], is_wide: bool, call: Call) -> ir.Value:
    context, builder, declared = call.context, call.builder, call.signature
    if not isinstance(function, FunctionType):
        function = _of_numba(function, len(call.args))
    widen = _wide if is_wide else _own
    given = tuple(widen(kind) for kind in declared.args)
    signature = widen(declared.return_type)(*given)
    args = [
        context.cast(builder, *each) for each in zip(call.args, declared.args, given, strict=True)
    ]
    made = context.compile_subroutine(builder, function, signature, flags=kernel_flags())
    value = context.call_internal(builder, made.fndesc, signature, args)
    return context.cast(builder, value, signature.return_type, declared.return_type)


def _of_numba(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a Python function that calls what Numba knows as a function of so many numbers."""

    def of_one(x: Any) -> Any:
        return function(x)

    def of_two(x: Any, y: Any) -> Any:
        return function(x, y)

    return of_one if count == 1 else of_two


def _own(kind: Any) -> Any:
    return kind


def _wide(kind: Any) -> Any:
    """Return a type with float64 in the place of float32."""
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([_wide(each) for each in kind.types])
    return types.float64 if kind == types.float32 else kind


def _call_intrinsic(name: str, call: Call) -> ir.Value:
    context, builder, declared = call.context, call.builder, call.signature
    signature = typing_rule(find_intrinsic(name))(declared.args, {})
    args = tuple(
        context.cast(builder, *each)
        for each in zip(call.args, declared.args, signature.args, strict=True)
    )
    value = scalars.EMITTERS[name](Call(context, builder, signature, args, {}))
    return context.cast(builder, value, signature.return_type, declared.return_type)


def bits_of_half(call: Call) -> ir.Value:
    """Write the conversion of a float32 to the bits of a float16."""
    half = element_type("float16")
    builder, single = call.builder, call.args[0]
    value = call.context.cast(builder, single, call.signature.args[0], half)
    bits = _bits_as(call, half, value, call.signature.return_type)
    is_nan = builder.fcmp_unordered("uno", single, single)
    return builder.select(is_nan, bits.type(0x7FFF), bits)  # PTX has one NaN


def half_of_bits(call: Call) -> ir.Value:
    """Write the conversion of the bits of a float16 to a float32."""
    half = element_type("float16")
    value = _bits_as(call, call.signature.args[0], call.args[0], half)
    return call.context.cast(call.builder, value, half, call.signature.return_type)


def same_bits(call: Call) -> ir.Value:
    """Write the conversion to a number of other type with the same bits."""
    return _bits_as(call, call.signature.args[0], call.args[0], call.signature.return_type)


def _bits_as(call: Call, given: Any, value: ir.Value, wanted: Any) -> ir.Value:
    return scalars.EMITTERS["bitcast"](
        Call(call.context, call.builder, wanted(given), (value,), {})
    )


def word_of_double(shift: int, call: Call) -> ir.Value:
    """Write the 32 bits of a float64 from a bit on."""
    bits = call.builder.bitcast(call.args[0], _I64)
    return call.builder.trunc(call.builder.lshr(bits, _I64(shift)), ir.IntType(32))


def double_of_words(call: Call) -> ir.Value:
    """Write the float64 of two halves, the upper one first."""
    high, low = (call.builder.zext(each, _I64) for each in call.args)
    bits = call.builder.or_(call.builder.shl(high, _I64(32)), low)
    return call.builder.bitcast(bits, ir.DoubleType())


# -- functions that meanings call ------------------------------------------------------------------


def operation(name: str, emitter: Emitter) -> Callable[..., Any]:
    """Make the function that generated code calls; the intrinsic's typing rule types the calls."""
    rule = typing_rule(find_intrinsic(name))

    @extending.intrinsic
    def call(typingctx: Any, *args: Any) -> Any:
        typed = rule(args, {})

        def generate(context: Any, builder: Any, packed: Any, values: Any) -> Any:
            members = tuple(cgutils.unpack_tuple(builder, values[0], len(typed.args)))
            return emitter(Call(context, builder, typed, members, {}))

        return typed.return_type(types.StarArgTuple(typed.args)), generate

    return call  # type: ignore[no-any-return]


def c_function(symbol: str, result: str, *arguments: str) -> Callable[..., Any]:
    """Return a function that compiled code calls, with the dtypes of its C declaration."""

    @extending.intrinsic
    def call(typingctx: Any, *args: Any) -> Any:
        kinds = [element_type(each) for each in arguments]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returned = context.get_value_type(signature.return_type)
            given = cgutils.unpack_tuple(builder, values[0], len(kinds))
            return call_llvm(builder, symbol, returned, given)

        return element_type(result)(types.StarArgTuple(kinds)), generate

    return call  # type: ignore[no-any-return]
