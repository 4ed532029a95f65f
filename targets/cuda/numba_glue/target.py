"""Registers ``kerneldsl_cuda`` with Numba: a GPU with its own typing and target contexts.

Being a target of its own makes Numba compile its overloads (``min``, ``round``, NumPy functions …)
for it; being no CPU target keeps whatever calls Python or allocates out.
"""

from __future__ import annotations

import operator
from functools import cached_property
from typing import Any

from numba import types
from numba.core import typing
from numba.core.base import BaseContext
from numba.core.compiler_lock import global_compiler_lock
from numba.core.descriptors import TargetDescriptor
from numba.core.dispatcher import Dispatcher
from numba.core.target_extension import (
    GPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)
from numba.np import ufunc_db

from targets.cuda.intrinsics.bound import BoundIntrinsic
from targets.cuda.numba_glue.callconv import KernelCallConv
from targets.cuda.numba_glue.dispatcher import (
    DeviceFunction,
    KernelOptions,
    device_function_of,
    jit,
)
from targets.cuda.numba_glue.library import KernelCodegen

__all__ = [
    "TARGET_NAME",
    "KernelDescriptor",
    "KernelTargetContext",
    "descriptor",
    "load_array_functions",
]

#: The name in Numba's registry of targets.
TARGET_NAME = "kerneldsl_cuda"

_OPERATORS = frozenset(
    value for name, value in vars(operator).items() if callable(value) and name[0] != "_"
)


class KernelGPU(GPU):  # type: ignore[misc]
    """The target's place in Numba's hierarchy of targets."""


class KernelTypingContext(typing.BaseContext):  # type: ignore[misc]
    """What calls and attributes mean, by type."""

    def load_additional_registries(self) -> None:
        """Install the declarations that a device can serve."""
        from numba.core.typing import cmathdecl, enumdecl, mathdecl, npydecl

        for module in (cmathdecl, enumdecl, mathdecl, npydecl):
            self.install_registry(module.registry)

    def __init__(self) -> None:
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
        """Type an outside object; functions that Numba compiles for the CPU become ours."""
        if isinstance(val, BoundIntrinsic):
            return val.numba_type
        if isinstance(val, DeviceFunction):
            return val._numba_type_
        if isinstance(val, Dispatcher):
            return device_function_of(val)._numba_type_
        return super().resolve_value_type(val)


class KernelTargetContext(BaseContext):  # type: ignore[misc]
    """How typed operations become LLVM instructions."""

    strict_alignment = True

    def init(self) -> None:
        """Called by Numba at the end of construction."""
        self._internal_codegen = KernelCodegen()

    def __repr__(self) -> str:
        return TARGET_NAME

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

        from targets.cuda.numba_glue import printing

        for module in (cmathimpl, mathimpl, npyimpl, printing):
            self.install_registry(module.registry)

    def get_constant_generic(self, builder: Any, ty: Any, val: Any) -> Any:
        """A constant; a device function as a value is nothing at run time.

        Calls of it are resolved by its type. Numba's own rule, which it registers for every target
        once function types have been used, stores the function's address in this process.
        """
        if isinstance(ty, types.Dispatcher):
            return self.get_dummy_value()
        return super().get_constant_generic(builder, ty, val)

    def create_module(self, name: str) -> Any:
        """An empty module for NVPTX."""
        return self._internal_codegen._create_empty_module(name)

    def codegen(self) -> KernelCodegen:
        """What makes libraries."""
        return self._internal_codegen

    @property
    def target_data(self) -> Any:
        """Sizes and alignments of LLVM types."""
        return self._internal_codegen.target_data

    @cached_property
    def call_conv(self) -> KernelCallConv:
        """How functions call each other."""
        return KernelCallConv(self)

    @property
    def enable_boundscheck(self) -> bool:
        """Debug mode checks indices by itself."""
        return False

    @enable_boundscheck.setter
    def enable_boundscheck(self, value: bool) -> None:
        """Numba sets it from flags that are never set here."""

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """The lowering of a call; intrinsics bring their own."""
        if isinstance(fn, types.Function) and isinstance(fn.typing_key, BoundIntrinsic):
            return fn.typing_key.lowering(self, sig)
        return super().get_function(fn, sig, _firstcall)

    def compile_subroutine(self, *args: Any, **options: Any) -> Any:
        """Compile a helper of Numba's; without lines, so that one serves every kernel."""
        plain = self.subtarget(enable_debuginfo=False) if self.enable_debuginfo else self
        return BaseContext.compile_subroutine(plain, *args, **options)

    def get_ufunc_info(self, ufunc_key: Any) -> Any:
        """Loops of a NumPy ufunc; what they call is renamed when modules are linked."""
        return ufunc_db.get_ufunc_info(ufunc_key)

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Give a body to functions that Numba expects of its C library."""
        from targets.cuda.numba_glue.complex_power import define_complex_power

        define_complex_power(self, mod)

    def declare_env_global(self, module: Any, envname: str) -> None:
        """Numba's Python environment does not exist on a device."""

    def insert_const_string(self, mod: Any, string: str) -> Any:
        """A constant string of the module, under a readable name."""
        from targets.cuda.numba_glue.arrays import constant_string

        return constant_string(mod, string)

    def make_constant_array(self, builder: Any, typ: Any, ary: Any) -> Any:
        """A captured array becomes constant global memory, read through ``ld.global.nc``."""
        from targets.cuda.numba_glue.arrays import constant_array

        return constant_array(self, builder, typ, ary)


class KernelDescriptor(TargetDescriptor):  # type: ignore[misc]
    """The two contexts, as Numba's overload machinery asks for them."""

    options = KernelOptions
    has_array_functions = False

    @cached_property
    def typing_context(self) -> KernelTypingContext:
        """One for the process, as Numba's caches expect."""
        return KernelTypingContext()

    @cached_property
    def target_context(self) -> KernelTargetContext:
        """One for the process."""
        return KernelTargetContext(self.typing_context, TARGET_NAME)


def load_array_functions() -> bool:
    """Install NumPy's functions of whole arrays; say whether they were not there before.

    Few kernels use one, and their module looks for a BLAS library, which imports SciPy: so they
    are loaded when a kernel could not be typed without them.
    """
    contexts = descriptor()
    if contexts.has_array_functions:
        return False
    from numba.np import arraymath  # noqa: F401 - registers

    contexts.typing_context.refresh()
    contexts.target_context.refresh()
    contexts.has_array_functions = True
    return True


@global_compiler_lock  # type: ignore[untyped-decorator]
def descriptor() -> KernelDescriptor:
    """Return the target's contexts, registered and loaded on the first call."""
    made: KernelDescriptor | None = DeviceFunction.targetdescr
    if made is None:
        made = KernelDescriptor(TARGET_NAME)
        target_registry[TARGET_NAME] = KernelGPU
        jit_registry[KernelGPU] = jit
        dispatcher_registry[KernelGPU] = DeviceFunction
        DeviceFunction.targetdescr = made
        with target_override(TARGET_NAME):
            made.target_context.refresh()
    return made
