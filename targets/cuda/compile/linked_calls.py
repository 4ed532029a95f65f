"""Calls of functions that kernels are linked with.

A linked function becomes a device function that calls a symbol of another module. Integers of less
than 32 bits and truth values are passed as nvcc does: in 32 bits, which LLVM sees to.

References
----------
PTX Writer's Guide to Interoperability, section "Function Calling Sequence".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.frontend.linked_code import LinkedCode
from kerneldsl.lowering.calls import Call, Emitter

__all__ = ["linked_emitter"]

_I1, _I8 = ir.IntType(1), ir.IntType(8)


def linked_emitter(code: LinkedCode) -> Emitter:
    """Return what writes calls of a linked function."""

    def emit(written: Call) -> ir.Value:
        builder, signature = written.builder, written.signature
        values: list[ir.Value] = []
        for number, kind in enumerate(signature.args):
            has_strides = code.passes_strides(number)
            values += _passed(written, kind, written.args[number], has_strides=has_strides)
        result = _type_of(written, signature.return_type)
        slot: ir.Value = ir.Constant(_I8.as_pointer(), None)
        if code.by_address:
            if signature.return_type != types.void:
                slot = cgutils.alloca_once(builder, result)
            values.insert(0, builder.bitcast(slot, _I8.as_pointer()))
        called = ir.FunctionType(
            ir.IntType(32) if code.by_address else result, [v.type for v in values]
        )
        function = cgutils.get_or_insert_function(builder.module, called, code.symbol)
        # Threads must meet at whatever the function has: an exchange, say.
        function.attributes.add("readnone" if code.is_pure else "convergent")
        function.attributes.add("nounwind")
        given = builder.call(function, values)
        if signature.return_type == types.void:
            return written.context.get_dummy_value()
        if code.by_address:
            given = builder.load(slot)
        if signature.return_type == types.boolean:
            return builder.icmp_unsigned("!=", given, given.type(0))
        return given

    return emit


def _type_of(written: Call, kind: Any) -> ir.Type:
    """Return the LLVM type of a result in a register."""
    if kind == types.void:
        return ir.VoidType()
    return _I8 if kind == types.boolean else written.context.get_value_type(kind)


def _passed(written: Call, kind: Any, value: ir.Value, *, has_strides: bool) -> Sequence[ir.Value]:
    """Return an argument as it is passed: of an array the address of its first element.

    numba.cuda passes two null pointers before that, the numbers of elements and of bytes of one,
    and the extents and strides after it.
    """
    builder = written.builder
    if not isinstance(kind, types.Array):
        return (builder.zext(value, _I8) if value.type == _I1 else value,)
    array = written.context.make_array(kind)(written.context, builder, value)
    data = builder.bitcast(array.data, _I8.as_pointer())
    if not has_strides:
        return (data,)
    null = ir.Constant(_I8.as_pointer(), None)
    axes = (cgutils.unpack_tuple(builder, each, kind.ndim) for each in (array.shape, array.strides))
    return (null, null, array.nitems, array.itemsize, data, *chain.from_iterable(axes))
