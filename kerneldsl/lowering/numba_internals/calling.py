"""Calling convention of functions that Numba compiles for a device."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core.callconv import CPUCallConv, MinimalCallConv
from numba.core.typing.templates import fold_arguments

from kerneldsl.lowering.numba_internals.moved import overriding

__all__ = ["STATUS_FAULT", "DeviceCallConv", "fold_arguments"]

#: The status of a thread that has recorded a fault and ends.
STATUS_FAULT = 1


@overriding(beside=CPUCallConv)
class DeviceCallConv(MinimalCallConv):
    """Status, result pointer, arguments. A device reports no exception."""

    def decorate_function(
        self, fn: ir.Function, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        """Name the arguments."""
        super().decorate_function(fn, args, fe_argtypes, noalias)
        fn.attributes.add("convergent")  # it may hold a barrier; LLVM drops it where none is

    def return_user_exc(
        self,
        builder: ir.IRBuilder,
        exc: Any,
        exc_args: Any = None,
        loc: Any = None,
        func_name: Any = None,
    ) -> None:
        """End the thread."""
        self._return_errcode_raw(builder, STATUS_FAULT)

    return_dynamic_user_exc = return_user_exc
