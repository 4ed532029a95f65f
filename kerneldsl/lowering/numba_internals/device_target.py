"""Registers a device with Numba, as a GPU with its own typing and target contexts.

Numba compiles its overloads (``min``, ``round``, NumPy functions …) for a separate target.
Functions that call Python or allocate are left out, because it is not a CPU target.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.core.base import BaseContext
from numba.core.cpu import CPUContext
from numba.core.descriptors import TargetDescriptor
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import Registry
from numba.core.target_extension import (
    GPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)

from kerneldsl.lowering.numba_internals.compiling import kernel_flags
from kerneldsl.lowering.numba_internals.device_code import DeviceCallConv, DeviceCodegen
from kerneldsl.lowering.numba_internals.device_functions import (
    DeviceFunction,
    DeviceOptions,
    compiled_for,
)
from kerneldsl.lowering.numba_internals.integer_typing import IntegerTyping
from kerneldsl.lowering.numba_internals.moved import overriding
from kerneldsl.lowering.numba_internals.scalar_lowerings import (
    lowered_by,
    operator_lowering,
    ufunc_loops,
)
from kerneldsl.lowering.quotients import call_division
from kerneldsl.lowering.shifts import call_shift
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Device", "DeviceContext", "DeviceDescriptor", "Registry", "load_array_functions"]


@dataclass(frozen=True)
class Device:
    """Parts of a device target that Numba's lowering leaves to it."""

    #: Name in Numba's registry of targets.
    name: str
    #: Makes modules.
    codegen: DeviceCodegen
    #: Lowerings of Python's functions that the target brings along.
    registry: Registry
    #: ``(module, text)`` to the address of the text, with a zero at its end.
    constant_string: Callable[[Any, str], Any]
    #: ``(context, builder, type, values)`` to a captured array, as constant memory of the module.
    constant_array: Callable[[Any, Any, Any, Any], Any]
    #: ``(builder, value, pointer)`` stores an LLVM value at an address that may not be aligned.
    store_unaligned: Callable[[Any, Any, Any], None]


_OPERATORS = frozenset(
    value for name, value in vars(operator).items() if callable(value) and name[0] != "_"
)
#: Shift operators; true for shifts to the left.
_SHIFTS = {
    **dict.fromkeys((operator.lshift, operator.ilshift, np.left_shift), True),
    **dict.fromkeys((operator.rshift, operator.irshift, np.right_shift), False),
}
#: Operators that divide integers, with their result: quotient or remainder.
_DIVISIONS = {
    **dict.fromkeys((operator.floordiv, operator.ifloordiv), "div"),
    **dict.fromkeys((operator.mod, operator.imod), "rem"),
}


@overriding()
class DeviceTypingContext(IntegerTyping):
    """Typing context: the types of calls and attributes."""

    def load_additional_registries(self) -> None:
        """Install the declarations that a device can serve."""
        from numba.core.typing import cmathdecl, enumdecl, mathdecl, npydecl

        for module in (cmathdecl, enumdecl, mathdecl, npydecl):
            self.install_registry(module.registry)

    def __init__(self, descriptor: DeviceDescriptor) -> None:
        self._descriptor = descriptor
        #: Signatures of Python's operators by operator and argument types.
        self._operators: dict[tuple[Any, ...], Any] = {}
        super().__init__()

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Type a call; what an operator means for given types is looked up once.

        Numba tries an operator's declarations one after the other, at every use of it.
        """
        if kws or func not in _OPERATORS:
            return super().resolve_function_type(func, args, kws)
        key = (func, *args)
        found = self._operators.get(key)
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            if found is not None:
                self._operators[key] = found
        return found

    def resolve_value_type(self, val: Any) -> Any:
        """Type an outside object; functions for the CPU become those of the device."""
        if isinstance(val, DeviceFunction):
            return val._numba_type_
        if isinstance(val, Dispatcher):
            return compiled_for(self._descriptor, val)._numba_type_
        return super().resolve_value_type(val)


@overriding("device", beside=CPUContext)
class DeviceContext(BaseContext):
    """Target context: the LLVM instructions of typed operations."""

    strict_alignment = False  # accesses to packed records say that they are not aligned

    def __init__(self, typing_context: DeviceTypingContext, device: Device) -> None:
        self.device = device
        super().__init__(typing_context, device.name)

    def __repr__(self) -> str:
        return self.device.name

    def load_additional_registries(self) -> None:
        """Install the lowerings that need neither Python nor an allocator."""
        # Importing these registers their lowerings as built-in ones.
        from numba.core import optional  # noqa: F401
        from numba.cpython import (  # noqa: F401
            builtins,
            cmathimpl,
            enumimpl,
            iterators,
            mathimpl,
            numbers,
            rangeobj,
            slicing,
            tupleobj,
        )
        from numba.misc import literal  # noqa: F401
        from numba.np import arrayobj, npyimpl  # noqa: F401
        from numba.np.unsafe import ndarray  # noqa: F401

        for module in (cmathimpl, mathimpl, npyimpl):
            self.install_registry(module.registry)
        self.install_registry(self.device.registry)

    def get_constant_generic(self, builder: Any, ty: Any, val: Any) -> Any:
        """Return a constant; a device function as a value is nothing at run time.

        Calls of it are resolved by its type. Numba's own rule, which it registers for every target
        once function types have been used, stores the function's address in this process.
        """
        if isinstance(ty, types.Dispatcher):
            return self.get_dummy_value()
        return super().get_constant_generic(builder, ty, val)

    def pack_value(
        self, builder: Any, ty: Any, value: Any, ptr: Any, align: int | None = None
    ) -> None:
        """Store a value in memory; fields of packed records are not aligned."""
        if align == 1:
            data = self.data_model_manager[ty].as_data(builder, value)
            self.device.store_unaligned(builder, data, ptr)
        else:
            super().pack_value(builder, ty, value, ptr, align)

    def create_module(self, name: str) -> Any:
        """Return an empty module."""
        return self.device.codegen._create_empty_module(name)

    def codegen(self) -> DeviceCodegen:
        """Return what makes libraries."""
        return self.device.codegen

    @property
    def target_data(self) -> Any:
        """Sizes and alignments of LLVM types."""
        return self.device.codegen.target_data

    @cached_property
    def call_conv(self) -> DeviceCallConv:
        """Calling convention."""
        return DeviceCallConv(self)

    @property
    def enable_boundscheck(self) -> bool:
        """Debug mode checks indices by itself."""
        return False

    @enable_boundscheck.setter
    def enable_boundscheck(self, value: bool) -> None:
        """Numba sets it from flags that are never set here."""

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Return the lowering of a call."""
        is_left = _SHIFTS.get(fn.typing_key if isinstance(fn, types.Function) else fn)
        if is_left is not None and all(isinstance(each, types.Integer) for each in sig.args):
            return lowered_by(partial(call_shift, is_left), self, sig)
        ours = operator_lowering(fn, sig)
        if ours is not None:
            name = _DIVISIONS.get(fn.typing_key if isinstance(fn, types.Function) else fn)
            if name is not None and all(isinstance(each, types.Integer) for each in sig.args):
                ours = partial(call_division, name, ours)
            return lowered_by(ours, self, sig)
        return super().get_function(fn, sig, _firstcall)

    def compile_subroutine(self, *given: Any, flags: Any = None, **named: Any) -> Any:
        """Compile a helper of Numba's with a kernel's flags; see `helpers_of_kernels`.

        It has no lines, so that one serves every kernel.
        """
        plain = self.subtarget(enable_debuginfo=False) if self.enable_debuginfo else self
        flags = flags or kernel_flags()
        return BaseContext.compile_subroutine(plain, *given, flags=flags, **named)

    def get_ufunc_info(self, ufunc_key: Any) -> Any:
        """Return loops of a NumPy ufunc; what they call is renamed when modules are linked."""
        loops = ufunc_loops(ufunc_key)
        is_left = _SHIFTS.get(ufunc_key)
        if is_left is None:
            return loops
        return dict.fromkeys(loops, partial(call_shift, is_left))

    def declare_env_global(self, module: Any, envname: str) -> None:
        """Declare nothing: Numba's Python environment does not exist on a device."""

    def insert_const_string(self, mod: Any, string: str) -> Any:
        """Return a constant string of the module."""
        return self.device.constant_string(mod, string)

    def make_constant_array(self, builder: Any, typ: Any, ary: Any) -> Any:
        """Return a captured array."""
        return self.device.constant_array(self, builder, typ, ary)


class DeviceDescriptor(TargetDescriptor):
    """The two contexts of a device, as Numba's overloads need them.

    Making one registers it; it is made once for a process, under Numba's compiler lock.
    """

    options = DeviceOptions

    def __init__(self, device: Device) -> None:
        super().__init__(device.name)
        self.device = device
        self.has_array_functions = False
        #: Functions that were compiled for the CPU, with their counterparts.
        self.converted: WeakKeyDictionary[Any, DeviceFunction] = WeakKeyDictionary()
        place = type(device.name, (GPU,), {"__doc__": "Stands in Numba's hierarchy of targets."})
        target_registry[device.name] = place
        jit_registry[place] = self._jit
        # Numba reads only this attribute of the registered class of dispatchers.
        dispatcher_registry[place] = type("Dispatcher", (), {"targetdescr": self})
        with target_override(device.name):
            self.target_context.refresh()

    def _jit(self, *args: Any, **options: Any) -> Any:
        """Return the decorator with which Numba compiles its overloads for the target."""
        if args and callable(args[0]):
            return DeviceFunction(args[0], self, **options)
        return lambda function: DeviceFunction(function, self, **options)

    @cached_property
    def typing_context(self) -> DeviceTypingContext:
        """Typing context of the process; Numba's caches expect a single one."""
        return DeviceTypingContext(self)

    @cached_property
    def target_context(self) -> DeviceContext:
        """Target context of the process."""
        return DeviceContext(self.typing_context, self.device)


def load_array_functions(descriptor: DeviceDescriptor) -> bool:
    """Install NumPy's functions of whole arrays; say whether they were not there before.

    Few kernels use one, so they are loaded when a kernel could not be typed without them.
    """
    if descriptor.has_array_functions:
        return False
    from kerneldsl.lowering.numba_internals.arrays import import_array_functions

    import_array_functions()
    descriptor.typing_context.refresh()
    descriptor.target_context.refresh()
    descriptor.has_array_functions = True
    return True
