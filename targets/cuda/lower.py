"""From a kernel's normal form to LLVM modules: shared passes, then Numba."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.errors import NumbaError

from kerneldsl.errors import KernelError
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.passes.drop_exceptions import DropExceptions
from kerneldsl.lowering.types import numba_types
from kerneldsl.target import Specialization
from targets.cuda.intrinsics.faults import HELPERS
from targets.cuda.intrinsics.table import bind
from targets.cuda.numba_glue.dispatcher import DeviceFunction, set_common_flags
from targets.cuda.numba_glue.library import ModuleLibrary
from targets.cuda.numba_glue.pipeline import KernelCompiler
from targets.cuda.numba_glue.target import KernelTargetContext, descriptor

__all__ = ["Lowered", "lower_unit"]


@dataclass(frozen=True)
class Lowered:
    """A kernel's body in LLVM's form, with everything it calls.

    Parameters
    ----------
    context : KernelTargetContext
        Where it was lowered.
    fndesc : numba FunctionDescriptor
        Name and types of the body.
    library : ModuleLibrary
        Its modules.
    fault_table : object or None
        Debug mode: what the sites mean.
    """

    context: KernelTargetContext
    fndesc: Any
    library: ModuleLibrary
    fault_table: Any


def lower_unit(specialization: Specialization, timings: dict[str, float]) -> Lowered:
    """Lower a kernel and what it calls. The caller holds Numba's compiler lock,
    and has made ours the current target.

    Parameters
    ----------
    specialization : Specialization
        The kernel.
    timings : dict
        Gets ``prepare`` (Numba's registries, the first time; passes) and ``numba``.

    Returns
    -------
    Lowered

    Raises
    ------
    KernelTypingError
        Where Numba cannot type it.
    """
    started = time.perf_counter()
    contexts = descriptor()
    builder = _FunctionBuilder(specialization)
    function = builder.kernel()
    flags = Flags()
    set_common_flags(flags)
    flags.dbg_directives_only = flags.debuginfo = specialization.options.lineinfo
    prepared = time.perf_counter()
    timings["prepare"] = prepared - started
    try:
        result = compile_extra(
            contexts.typing_context,
            contexts.target_context,
            function,
            numba_types(specialization.kinds),
            types.void,
            flags,
            {},
            pipeline_class=KernelCompiler,
        )
    except NumbaError as error:
        raise _translated(error, specialization) from error
    timings["numba"] = time.perf_counter() - prepared
    return Lowered(
        contexts.target_context, result.fndesc, result.library, builder.fault_table
    )


def _translated(error: NumbaError, specialization: Specialization) -> KernelError:
    from kerneldsl.lowering.errors import translate

    return translate(error, specialization.unit)


class _FunctionBuilder:
    """Makes Python functions of a kernel's unit and of the units it calls."""

    def __init__(self, specialization: Specialization) -> None:
        self._unit = specialization.unit
        self._options = specialization.options
        self._kinds = specialization.kinds
        self._devices: dict[int, DeviceFunction] = {}
        self.fault_table: Any = None

    def kernel(self) -> Callable[..., Any]:
        """The kernel's body."""
        return self._build(self._unit)

    def _build(self, unit: FunctionUnit) -> Callable[..., Any]:
        tree = DropExceptions()(unit.tree)
        namespace = {
            **unit.namespace,
            **HELPERS,
            **{name: captured.value for name, captured in unit.constants.items()},
            **{name: bind(use) for name, use in unit.uses.items()},
        }
        function = build_function(tree, unit.name, namespace, unit.filename)
        for name, callee in unit.callees.items():
            function.__globals__[name] = self._device(callee)
        return function

    def _device(self, unit: FunctionUnit) -> DeviceFunction:
        known = self._devices.get(id(unit))
        if known is None:
            function = unit.function if unit.is_plain_numba else None
            made = DeviceFunction(
                function or self._build(unit), {"lineinfo": self._options.lineinfo}
            )
            known = self._devices.setdefault(id(unit), made)
        return known
