"""How functions of the CUDA target call each other.

A function returns a status and takes, before its own arguments, a pointer for its result and what
the entry knows of the launch: the fault record, this thread's place in the grid (or in the extent),
its size, and what to do at the kernel's guard. Everything is inlined into the entry in the end, so
the hidden arguments are free; and a device function needs to know nothing of the kind of launch it
serves.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import MinimalCallConv

__all__ = [
    "FAULT",
    "GUARD",
    "GUARD_ASKED",
    "GUARD_PASSED",
    "GUARD_TESTED",
    "HIDDEN_COUNT",
    "INDEX",
    "SIZE",
    "STATUS_FAULT",
    "STATUS_PASSES",
    "KernelCallConv",
]

#: Positions of the hidden arguments, after the pointer for the result.
FAULT = 1
INDEX = 2
SIZE = 5
GUARD = 8
HIDDEN_COUNT = 8

#: The status of a thread that has recorded a fault and ends.
STATUS_FAULT = 1
#: The status of a kernel that was asked whether the index passes its guard, and does.
STATUS_PASSES = 2

#: What to do at the guard: test it; go on, as it is known to be passed; return whether it is.
GUARD_TESTED, GUARD_PASSED, GUARD_ASKED = 0, 1, 2

_i64 = ir.IntType(64)
_HIDDEN_TYPES = [ir.IntType(8).as_pointer(), *[_i64] * 6, ir.IntType(32)]
_HIDDEN_NAMES = ["fault", "index0", "index1", "index2", "size0", "size1", "size2", "guard"]


class KernelCallConv(MinimalCallConv):  # type: ignore[misc]
    """Status, result pointer, launch, arguments."""

    def get_function_type(self, restype: Any, argtypes: Any) -> ir.FunctionType:
        """The LLVM type of a function with these Numba types."""
        packer = self._get_arg_packer(argtypes)
        result = self.get_return_type(restype)
        arguments = [result, *_HIDDEN_TYPES, *packer.argument_types]
        return ir.FunctionType(ir.IntType(32), arguments)

    def decorate_function(
        self, fn: ir.Function, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        """Name the arguments."""
        packer = self._get_arg_packer(fe_argtypes)
        packer.assign_names(self.get_arguments(fn), ["arg." + a for a in args])
        fn.args[0].name = ".ret"
        fn.attributes.add("convergent")  # it may hold a barrier; LLVM drops it where none is
        for argument, name in zip(fn.args[1:], _HIDDEN_NAMES, strict=False):
            argument.name = "." + name

    def get_arguments(self, func: ir.Function) -> Any:
        """The function's own arguments, flattened."""
        return func.args[1 + HIDDEN_COUNT :]

    def call_function(
        self, builder: ir.IRBuilder, callee: Any, resty: Any, argtys: Any, args: Any
    ) -> tuple[Any, ir.Value]:
        """Call a function from another of ours, handing on what is hidden."""
        hidden = list(builder.function.args[1 : 1 + HIDDEN_COUNT])
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
