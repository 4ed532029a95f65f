"""Vectors for Numba: two or four numbers as one value, and arrays that are looked at as such.

A vector is a structure of its numbers. So LLVM vectorizes loops over vectors on a CPU as any other
loop. If an array is known to be aligned, LLVM joins the accesses to a vector's numbers to one.
Otherwise they stay separate, and are right at any address.

Importing this module registers vectors with Numba, for every target.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import (
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
)

from kerneldsl.frontend.operators import IN_PLACE, also_in_place
from kerneldsl.language.element_types import ElementType, vector_names
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.arrays import array_value, make_array
from kerneldsl.lowering.numba_internals.operators import (
    AbstractTemplate,
    AttributeTemplate,
    builtin_registry,
)

__all__ = ["EMITTERS", "VectorType", "each_part", "is_real", "item_of", "vector_type"]

_I64 = ir.IntType(64)
_Operation = Callable[..., Any]


class VectorType(types.Type):
    """A vector; `item` is the type of its numbers, `fields` are their names."""

    def __init__(self, row: ElementType, item: types.Type) -> None:
        self.item = item
        self.fields = tuple(field.name for field in row.fields)
        self.bitwidth = 8 * row.nbytes
        super().__init__(name=row.name)


@cache
def vector_type(row: ElementType, item_type: Callable[[str], types.Type]) -> VectorType:
    """Return the Numba type of a vector's element type, with the given type of numbers."""
    return VectorType(row, item_type(row.fields[0].dtype))


@register_model(VectorType)
class _VectorModel(models.StructModel):
    """A structure of the numbers."""

    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, [(name, kind.item) for name in kind.fields])


def is_real(kind: Any) -> bool:
    """Return whether a type is a real number's, or a bool's."""
    return isinstance(kind, types.Integer | types.Float | types.Boolean)


def item_of(kind: Any) -> Any:
    """Return the type of a vector's numbers, or that of a number as it is."""
    return kind.item if isinstance(kind, VectorType) else kind


def each_part(
    builder: ir.IRBuilder,
    kinds: Sequence[Any],
    args: Sequence[ir.Value],
    compute: Callable[[tuple[ir.Value, ...]], ir.Value],
) -> ir.Value:
    """Compute a vector part by part; arguments that are no vectors take part in each.

    Without a vector among the types of the arguments it is computed once.
    """
    vector = next((kind for kind in kinds if isinstance(kind, VectorType)), None)
    if vector is None:
        return compute(tuple(args))
    parts = []
    for number in range(len(vector.fields)):
        given = (
            builder.extract_value(arg, number) if isinstance(kind, VectorType) else arg
            for kind, arg in zip(kinds, args, strict=True)
        )
        parts.append(compute(tuple(given)))
    return cgutils.pack_struct(builder, parts)


# --------------------------------------------------------------------------- parts


@builtin_registry.register_attr
class _Attributes(AttributeTemplate):
    key = VectorType

    def resolve_shape(self, vector: VectorType) -> Any:
        """Return the type of the number of parts, as that of an array's extents."""
        return types.UniTuple(types.intp, 1)

    def generic_resolve(self, vector: VectorType, name: str) -> Any:
        return vector.item if name in vector.fields else None


@lower_getattr(VectorType, "shape")
def _shape(context: Any, builder: ir.IRBuilder, kind: Any, value: Any) -> Any:
    shape = types.UniTuple(types.intp, 1)
    return context.make_tuple(builder, shape, [_I64(len(kind.fields))])


@lower_getattr_generic(VectorType)
def _part(context: Any, builder: ir.IRBuilder, kind: Any, value: Any, name: str) -> Any:
    return builder.extract_value(value, kind.fields.index(name))


@builtin_registry.register_global(len)
class _Length(AbstractTemplate):
    key = len

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of the number of parts."""
        return types.intp(*args) if isinstance(args[0], VectorType) else None


@lower_builtin(len, VectorType)
def _length(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    return _I64(len(sig.args[0].fields))


@builtin_registry.register_global(operator.getitem)
class _Part(AbstractTemplate):
    key = operator.getitem

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of taking a part by its number."""
        vector, index = args
        if not isinstance(vector, VectorType) or not isinstance(index, types.Integer):
            return None
        return vector.item(vector, types.intp)


@lower_builtin(operator.getitem, VectorType, types.Integer)
def _getitem(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    """Select a part; a number from the end counts from there."""
    vector, index = args
    count = len(sig.args[0].fields)
    place = builder.and_(index, _I64(count - 1))
    found = builder.extract_value(vector, 0)
    for number in range(1, count):
        is_it = builder.icmp_unsigned("==", place, _I64(number))
        found = builder.select(is_it, builder.extract_value(vector, number), found)
    return found


# --------------------------------------------------------------------------- operators

#: Operators, in-place ones included, and the operation on each part.
_BINARY: dict[_Operation, _Operation] = {
    each: function for function in IN_PLACE for each in also_in_place([function])
}
_UNARY: tuple[_Operation, ...] = (operator.neg, operator.pos, operator.invert, abs)


class _EachPart(AbstractTemplate):
    """Types an operation on vectors as that on their parts; it gives a vector of the same type."""

    part: _Operation

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature where an argument is a vector."""
        vectors = [arg for arg in args if isinstance(arg, VectorType)]
        if kws or not vectors or any(vector != vectors[0] for vector in vectors):
            return None
        if not all(isinstance(arg, VectorType) or is_real(arg) for arg in args):
            return None
        vector = vectors[0]
        if self.part is operator.truediv and isinstance(vector.item, types.Integer):
            return None
        found = self.context.resolve_function_type(self.part, (vector.item,) * len(args), {})
        if found is None or not is_real(found.return_type):
            return None
        return vector(*[arg if isinstance(arg, VectorType) else vector.item for arg in args])


def _declare(operation: _Operation, part: _Operation, operands: int) -> None:
    members = {"key": operation, "part": staticmethod(part)}
    template = type(f"Vector({operation.__name__})", (_EachPart,), members)
    builtin_registry.register_global(operation)(template)

    def perform(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = sig.return_type
        found = context.typing_context.resolve_function_type(part, (vector.item,) * operands, {})
        compute = context.get_function(part, found)

        def of_parts(given: tuple[ir.Value, ...]) -> ir.Value:
            wide = [
                context.cast(builder, value, vector.item, kind)
                for value, kind in zip(given, found.args, strict=True)
            ]
            result = compute(builder, wide)
            return context.cast(builder, result, found.return_type, vector.item)

        return each_part(builder, sig.args, args, of_parts)

    if operands == 1:
        lower_builtin(operation, VectorType)(perform)
        return
    for kinds in ((VectorType, VectorType), (VectorType, types.Any), (types.Any, VectorType)):
        lower_builtin(operation, *kinds)(perform)


for _operation, _of_parts in _BINARY.items():
    _declare(_operation, _of_parts, 2)
for _operation in _UNARY:
    _declare(_operation, _operation, 1)


# --------------------------------------------------------------------------- the language


def _make(call: Call) -> ir.Value:
    return cgutils.pack_struct(call.builder, call.args)


def _view(call: Call) -> ir.Value:
    builder, context = call.builder, call.context
    source, result = call.signature.args[0], call.signature.return_type
    array = make_array(source)(context, builder, call.args[0])
    *rows, last = cgutils.unpack_tuple(builder, array.shape, count=source.ndim)
    shape = [*rows, builder.lshr(last, last.type(len(result.dtype.fields).bit_length() - 1))]
    strides = None
    if source.ndim > 1:
        *outer, _ = cgutils.unpack_tuple(builder, array.strides, count=source.ndim)
        strides = [*outer, _I64(result.dtype.bitwidth // 8)]
    return array_value(context, builder, result, array.data, shape, strides=strides)


#: Emitters of the language's operations on vectors.
EMITTERS: dict[str, Emitter] = {"view": _view, **dict.fromkeys(vector_names(), _make)}
