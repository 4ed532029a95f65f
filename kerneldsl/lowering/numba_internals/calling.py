"""Calling convention of functions on a device target.

A function returns a status and takes, before its own arguments, a pointer for its result and what
the target lets every function know of the launch. Everything is inlined into the entry in the end,
so these hidden arguments are free; and a device function need not be told which kind of launch it
serves.
"""

from __future__ import annotations

from typing import Any, ClassVar

from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import CPUCallConv, MinimalCallConv
from numba.core.typing.templates import fold_arguments

from kerneldsl.lowering.numba_internals.moved import overriding

__all__ = ["STATUS_FAULT", "HiddenArgumentsCallConv", "fold_arguments"]

#: The status of a thread that has recorded a fault and ends.
STATUS_FAULT = 1


@overriding("hidden", "call_with", beside=CPUCallConv)
class HiddenArgumentsCallConv(MinimalCallConv):
    """Status, result pointer, hidden arguments, arguments."""

    #: Names and types of the hidden arguments.
    hidden: ClassVar[tuple[tuple[str, ir.Type], ...]] = ()

    def get_function_type(self, restype: Any, argtypes: Any) -> ir.FunctionType:
        """Return the LLVM type of a function with these Numba types."""
        packer = self._get_arg_packer(argtypes)
        hidden = [kind for _, kind in self.hidden]
        arguments = [self.get_return_type(restype), *hidden, *packer.argument_types]
        return ir.FunctionType(ir.IntType(32), arguments)

    def decorate_function(
        self, fn: ir.Function, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        """Name the arguments."""
        packer = self._get_arg_packer(fe_argtypes)
        packer.assign_names(self.get_arguments(fn), ["arg." + a for a in args])
        fn.args[0].name = ".ret"
        fn.attributes.add("convergent")  # it may hold a barrier; LLVM drops it where none is
        for argument, (name, _) in zip(fn.args[1:], self.hidden, strict=False):
            argument.name = "." + name

    def get_arguments(self, func: ir.Function) -> Any:
        """Return the function's own arguments, flattened."""
        return func.args[1 + len(self.hidden) :]

    def call_function(
        self, builder: ir.IRBuilder, callee: Any, resty: Any, argtys: Any, args: Any
    ) -> tuple[Any, ir.Value]:
        """Call a function from another of ours, handing on what is hidden."""
        hidden = list(builder.function.args[1 : 1 + len(self.hidden)])
        return self.call_with(builder, callee, resty, argtys, args, hidden=hidden)

    def call_with(
        self,
        builder: ir.IRBuilder,
        callee: Any,
        resty: Any,
        argtys: Any,
        args: Any,
        *,
        hidden: list[ir.Value],
    ) -> tuple[Any, ir.Value]:
        """Call a function with hidden arguments of the caller's choice."""
        result_type = callee.args[0].type.pointee
        slot = cgutils.alloca_once(builder, result_type)
        builder.store(cgutils.get_null_value(result_type), slot)
        packed = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [slot, *hidden, *packed])
        status = self._get_return_status(builder, code)
        value = self.context.get_returned_value(builder, resty, builder.load(slot))
        return status, value

    def return_user_exc(
        self,
        builder: ir.IRBuilder,
        exc: Any,
        exc_args: Any = None,
        loc: Any = None,
        func_name: Any = None,
    ) -> None:
        """End the thread: a device has nobody to tell (debug mode's faults record themselves)."""
        self._return_errcode_raw(builder, STATUS_FAULT)

    return_dynamic_user_exc = return_user_exc
