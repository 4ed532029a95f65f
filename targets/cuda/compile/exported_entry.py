"""The entry of a kernel that other GPU code calls, as a function of C.

Complex numbers are passed as structures of two numbers, and truth values as bytes, as nvcc does.

References
----------
PTX Writer's Guide to Interoperability, section "Function Calling Sequence".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.contract.options import EntryForm
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Value
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.lowering.types import element_type
from targets.cuda.compile.parameters import parameter_types

__all__ = ["ExportedEntry"]

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
        #: Of each parameter, whether it is a structure of the parts.
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
