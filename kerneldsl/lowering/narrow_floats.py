"""float16, bfloat16 and those of 8 bits for Numba: stored so, computed in float32.

A value is in a float32 register and always one of its type. Operations and conversions round to
nearest, ties to even. float32 has at least twice the precision of each type and two bits more. So
it does not matter that sums, products, quotients and square roots are rounded to float32 first: the
result is that of one rounding. LLVM uses instructions for float16 if the machine has them.

Operators with operands of one narrow type give that type. With an operand of another type a narrow
one counts as float32, and so it does as the argument of a mathematical function.

Importing this module registers the types with Numba, for every target.

References
----------
S. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30 (1995); LLVM Language
Reference, "Floating-Point Types".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, lower_cast, models, register_model

from kerneldsl.frontend.operators import COMPARISONS, IN_PLACE, also_in_place
from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.language.reserved import ROUND_TO_BFLOAT16
from kerneldsl.lowering import float8
from kerneldsl.lowering.numba_internals.operators import (
    AbstractTemplate,
    Conversion,
    builtin_registry,
    supported_ufuncs,
)

__all__ = [
    "BFLOAT16",
    "FLOAT8_E4M3FN",
    "FLOAT8_E5M2",
    "FLOAT8_E8M0FNU",
    "FLOAT16",
    "NarrowFloat",
]

_F32, _I32, _I16 = ir.FloatType(), ir.IntType(32), ir.IntType(16)


class NarrowFloat(types.Float):
    """A floating-point type of 8 or 16 bits."""

    def __init__(self, name: str) -> None:
        types.Number.__init__(self, name=name)  # Float reads the bits from a name like "float32"
        self.bitwidth = 8 * ELEMENT_TYPES[name].nbytes

    def cast_python_value(self, value: Any) -> Any:
        """Return NumPy's scalar of a number."""
        return numpy_dtype(self.name).type(value)

    def can_convert_to(self, typingctx: Any, other: Any) -> Conversion | None:
        """Say how safe a conversion is: every number of the type is a float32."""
        if other == types.float32:
            return Conversion.promote
        if isinstance(other, types.Float | types.Complex):
            return Conversion.unsafe if isinstance(other, NarrowFloat) else Conversion.safe
        return Conversion.unsafe if isinstance(other, types.Integer | types.Boolean) else None

    def can_convert_from(self, typingctx: Any, other: Any) -> Conversion | None:
        """Say how safe a conversion is: real numbers are rounded."""
        is_real = isinstance(other, types.Integer | types.Float | types.Boolean)
        return Conversion.unsafe if is_real else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return the type of a variable that holds this and `other`: as if this were float32."""
        if isinstance(other, NarrowFloat):
            return types.float32
        if isinstance(other, types.Number):
            return typingctx.unify_pairs(types.float32, other)
        return None


FLOAT16 = NarrowFloat("float16")
BFLOAT16 = NarrowFloat("bfloat16")
FLOAT8_E4M3FN = NarrowFloat("float8_e4m3fn")
FLOAT8_E5M2 = NarrowFloat("float8_e5m2")
FLOAT8_E8M0FNU = NarrowFloat("float8_e8m0fnu")


# --------------------------------------------------------------------------- in memory


@register_model(NarrowFloat)
class _NarrowModel(models.PrimitiveModel):
    """float32 as a value; its 8 or 16 bits in memory and as a kernel's parameter."""

    def __init__(self, manager: Any, kind: NarrowFloat) -> None:
        super().__init__(manager, kind, _F32)
        self._kind = kind

    def get_data_type(self) -> ir.Type:
        """Return LLVM's type of an element."""
        return ir.HalfType() if self._kind == FLOAT16 else ir.IntType(self._kind.bitwidth)

    def as_data(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Narrow a value, which an element can hold."""
        if self._kind == FLOAT16:
            return builder.fptrunc(value, ir.HalfType())
        if self._kind.bitwidth == 8:
            return float8.to_bits(builder, self._kind.name, value)
        return builder.trunc(builder.lshr(builder.bitcast(value, _I32), _I32(16)), _I16)

    def from_data(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Widen an element to a float32."""
        if self._kind == FLOAT16:
            return builder.fpext(value, _F32)
        if self._kind.bitwidth == 8:
            return float8.from_bits(builder, self._kind.name, value)
        wide = builder.shl(builder.zext(value, _I32), _I32(16))
        return builder.bitcast(wide, _F32)


def _round_to_bfloat16(module: ir.Module) -> ir.Function:
    """Return the function of a module that gives the upper half of a float32's bits, rounded."""
    known = module.globals.get(ROUND_TO_BFLOAT16)
    if known is not None:
        return known
    function, builder = float8.begin_conversion(module, ROUND_TO_BFLOAT16, _I16, _F32)
    bits = builder.bitcast(function.args[0], _I32)
    upper = builder.lshr(bits, _I32(16))
    bias = builder.add(builder.and_(upper, _I32(1)), _I32(0x7FFF))
    rounded = builder.lshr(builder.add(bits, bias), _I32(16))
    # A carry would make infinity or zero of a NaN; its upper half with the quiet bit is one.
    magnitude = builder.and_(bits, _I32(0x7FFFFFFF))
    is_nan = builder.icmp_unsigned(">", magnitude, _I32(0x7F800000))
    upper = builder.select(is_nan, builder.or_(upper, _I32(0x40)), rounded)
    builder.ret(builder.trunc(upper, _I16))
    return function


def _rounded(context: Any, builder: ir.IRBuilder, kind: NarrowFloat, value: ir.Value) -> ir.Value:
    """Return a float32 as the nearest value of a narrow type."""
    model = context.data_model_manager[kind]
    if kind == FLOAT16:
        element = builder.fptrunc(value, ir.HalfType())
    elif kind.bitwidth == 8:
        element = float8.to_bits(builder, kind.name, value)
    else:
        element = builder.call(_round_to_bfloat16(builder.module), [value])
    return model.from_data(builder, element)


# --------------------------------------------------------------------------- conversions


@lower_cast(types.Boolean, NarrowFloat)
@lower_cast(types.Integer, NarrowFloat)
@lower_cast(types.Float, NarrowFloat)
@lower_cast(NarrowFloat, NarrowFloat)
def _to_narrow(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    if found == types.float64 and wanted == FLOAT16:
        # NumPy rounds once; ml_dtypes rounds to float32 first.
        value = _to_odd_float32(builder, value)
    elif not isinstance(found, NarrowFloat):
        value = context.cast(builder, value, found, types.float32)
    return _rounded(context, builder, wanted, value)


def _to_odd_float32(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a float64 as float32 with a last bit that is set if it was inexact.

    Rounding that again to fewer bits is rounding the float64 once. See S. Boldo and G. Melquiond,
    "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57 (2008).
    """
    nearest = builder.fptrunc(value, _F32)
    back = builder.fpext(nearest, ir.DoubleType())
    bits = builder.bitcast(nearest, _I32)
    is_exact = builder.fcmp_unordered("==", back, value)  # a NaN counts as exact
    # Toward zero first: one step back if the nearest is beyond the value.
    absolute = [builder.call(_fabs(builder, each.type), [each]) for each in (back, value)]
    is_beyond = builder.fcmp_ordered(">", *absolute)
    truncated = builder.sub(bits, builder.zext(is_beyond, _I32))
    odd = builder.or_(truncated, _I32(1))
    return builder.bitcast(builder.select(is_exact, bits, odd), _F32)


def _fabs(builder: ir.IRBuilder, kind: ir.Type) -> ir.Function:
    return builder.module.declare_intrinsic("llvm.fabs", [kind])


@lower_cast(types.IntegerLiteral, NarrowFloat)
@lower_cast(types.BooleanLiteral, NarrowFloat)
def _literal_to_narrow(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    value = context.get_constant_generic(builder, types.float32, found.literal_value)
    return _rounded(context, builder, wanted, value)


@lower_cast(NarrowFloat, types.Boolean)
@lower_cast(NarrowFloat, types.Integer)
@lower_cast(NarrowFloat, types.Float)
@lower_cast(NarrowFloat, types.Complex)
def _from_narrow(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    return value if wanted == types.float32 else context.cast(builder, value, types.float32, wanted)


# --------------------------------------------------------------------------- operations

_Operation = Callable[..., Any]

_OF_BITS = (operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor)
_BINARY = also_in_place(each for each in IN_PLACE if each not in _OF_BITS)
_UNARY: list[_Operation] = [operator.neg, operator.pos, abs]
#: Operations without a narrow result.
_WIDENED: list[_Operation] = [
    *COMPARISONS.values(),
    float,
    complex,
    round,
    divmod,
    *supported_ufuncs,
]


class _AsFloat32(AbstractTemplate):
    """Types an operation on narrow numbers as that on float32."""

    #: Whether operands of one narrow type have a result of that type.
    is_closed = False

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature where an argument is narrow."""
        if kws or not any(isinstance(arg, NarrowFloat) for arg in args):
            return None
        if self.is_closed and all(arg == args[0] for arg in args):
            return args[0](*args)
        wide = [types.float32 if isinstance(arg, NarrowFloat) else arg for arg in args]
        return self.context.resolve_function_type(self.key, tuple(wide), {})

    def get_impl_key(self, sig: Any) -> Any:
        """Return what the lowering is found by: for other types, what was found for float32."""
        if any(isinstance(arg, NarrowFloat) for arg in sig.args):
            return super().get_impl_key(sig)
        function = self.context.resolve_value_type(self.key)
        # A context may remember the signature from a time before these templates were added.
        function.get_call_type(self.context, sig.args, {})
        return function.get_impl_key(sig)


def _declare(operation: _Operation, *, is_closed: bool) -> None:
    # Templates of a target are tried before Numba's own, which would take narrow numbers by
    # converting them, and give float32.
    templates = [
        type(
            f"NarrowFloat({operation.__name__})",
            (_AsFloat32,),
            {"key": operation, "is_closed": is_closed, "metadata": {"target": target}},
        )
        for target in ("cpu", "gpu")
    ]
    builtin_registry.register_global(operation, types.Function(templates))


def _lower(operation: _Operation, operands: int) -> None:
    """Perform an operation in float32, and round."""

    @lower_builtin(operation, *[NarrowFloat] * operands)
    def perform(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = (types.float32,) * operands
        found = context.typing_context.resolve_function_type(operation, wide, {})
        result = context.get_function(operation, found)(builder, args)
        return _rounded(context, builder, sig.return_type, result)


for _operation in (*_BINARY, *_UNARY):
    _declare(_operation, is_closed=True)
    _lower(_operation, 1 if _operation in _UNARY else 2)
for _operation in _WIDENED:
    _declare(_operation, is_closed=False)
