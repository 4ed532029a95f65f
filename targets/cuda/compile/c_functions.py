"""Functions of C: those that kernels are linked with, and entries that other GPU code calls.

Values are passed as nvcc does. Complex numbers are structures of two numbers, and truth values are
bytes. Integers of less than 32 bits are passed in 32 bits, which LLVM sees to.

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

from kerneldsl.contract import Specialization
from kerneldsl.contract.options import EntryForm
from kerneldsl.frontend.linked_code import LinkedCode
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Value
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.types import element_type
from targets.cuda.compile.parameters import parameter_types

__all__ = ["ExportedEntry", "linked_emitter"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class ExportedEntry:
    """The function that a kernel's body is written into, with its result and its parameters.

    An array can only be the first parameter; its one element is the result.
    """

    def __init__(
        self,
        context: Any,
        module: ir.Module,
        name: str,
        spec: Specialization,
        arguments: Sequence[Value],
    ) -> None:
        kinds, plain = list(spec.kinds), list(parameter_types(context, spec.layout))
        self._array: Any = None
        self._element: ir.Type | None = None
        if kinds and isinstance(first := kinds[0], ArrayKind):
            self._array = arguments[0].type
            self._element = context.get_data_type(element_type(first.dtype))
            del kinds[0]
            del plain[:2]  # the address and the length
        passed: list[ir.Type] = []
        #: Whether each parameter is passed as a structure of its parts.
        self._is_pair: list[bool] = []
        for kind in kinds:
            is_pair = str(kind).startswith("complex")
            parts = [plain.pop(0) for _ in range(1 + is_pair)]
            passed.append(ir.LiteralStructType(parts) if is_pair else parts[0])
            self._is_pair.append(is_pair)
        self._by_address = spec.options.entry is EntryForm.STATUS
        result: ir.Type = self._element or ir.VoidType()
        if self._by_address:
            result = _I32
            passed.insert(0, (self._element or ir.IntType(8)).as_pointer())
        self.function = ir.Function(module, ir.FunctionType(result, passed), name)
        #: The parameters, once the body begins.
        self.parameters: list[ir.Value] = []
        self._slot: ir.Value | None = None

    def begin(self, builder: ir.IRBuilder) -> list[ir.Value]:
        """Make room for the result, and return the parameters as a kernel has them."""
        given = list(self.function.args)
        if self._by_address:
            self._slot = given.pop(0)
        elif self._element is not None:
            with builder.goto_entry_block():
                self._slot = builder.alloca(self._element, name="result")
        for value, is_pair in zip(given, self._is_pair, strict=True):
            parts = [builder.extract_value(value, part) for part in (0, 1)] if is_pair else [value]
            self.parameters += parts
        return self.parameters

    @property
    def result(self) -> ArrayParts:
        """The array of one element into which the body stores the result."""
        return ArrayParts(self._slot, [_I64(1)], self._array)

    def end(self, builder: ir.IRBuilder) -> None:
        """Return the result, or the status of success."""
        if self._by_address:
            builder.ret(_I32(0))
        elif self._element is None:
            builder.ret_void()
        else:
            builder.ret(builder.load(self._slot))


_I1, _I8 = ir.IntType(1), ir.IntType(8)


def linked_emitter(code: LinkedCode) -> Emitter:
    """Return what writes calls of a linked function, a symbol of another module."""

    def emit(written: Call) -> ir.Value:
        builder, signature = written.builder, written.signature
        values: list[ir.Value] = []
        for number, kind in enumerate(signature.args):
            has_strides = code.passes_strides(number)
            values += _passed(written, kind, written.args[number], has_strides=has_strides)
        result = _type_of(written, signature.return_type)
        slot: ir.Value = ir.Constant(_I8.as_pointer(), None)
        if code.by_address:
            model = written.context.data_model_manager[signature.return_type]
            if signature.return_type != types.void:
                slot = cgutils.alloca_once(builder, model.get_data_type())
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
            return model.load_from_data_pointer(builder, slot)
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
