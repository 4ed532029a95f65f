"""The types that functions are compiled for, and what is known of their code."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

from kerneldsl.analysis.analyze import SHARED_ALIGNMENT, shared_array_sizes
from kerneldsl.compat.numba_cuda.launches import checked_dimensions
from kerneldsl.compat.numba_cuda.modules import CodeLibrary
from kerneldsl.contract.options import EntryForm
from kerneldsl.frontend.names import names_grid_group
from kerneldsl.frontend.source import find_source
from kerneldsl.kernels.exported import OFFLINE, Exported, export_function, signature_of
from kerneldsl.language.kinds import Kind
from kerneldsl.language.signatures import read_signature
from kerneldsl.lowering.numba_internals.vocabulary import bytecode_of, jumps_of
from kerneldsl.placement.devices import current_device

__all__ = ["Overload", "arch_of"]


def _resource(name: str, what: str) -> property:
    """Return the property with a resource that the compiled kernel takes."""

    def read(self: Overload) -> int:
        kernel, given = self._kernel()
        return int(getattr(kernel.resources(*given, **_on_gpu()), name))

    return property(read, doc=what)


class Overload:
    """The types of parameters and result that a function is compiled for.

    Parameters
    ----------
    dispatcher : CUDADispatcher
        The function.
    argtypes : tuple
        Numba's types of the parameters.
    result : optional
        Numba's type of the result of a device function.
    """

    def __init__(self, dispatcher: Any, argtypes: tuple[Any, ...], result: Any = None) -> None:
        self._dispatcher = dispatcher
        self.argument_types = argtypes
        self._result = result

    @property
    def signature(self) -> Any:
        """Numba's signature."""
        from numba import types as numba_types

        return (self._result or numba_types.void)(*self.argument_types)

    @property
    def launch_config_sensitive(self) -> bool:
        """True if each launch configuration has its own code."""
        return bool(self._dispatcher._launch_config_sensitive)

    @property
    def _codelibrary(self) -> CodeLibrary:
        return CodeLibrary(getattr(self._dispatcher.py_func, "__kerneldsl_link__", ()))

    @property
    def fndesc(self) -> SimpleNamespace:
        """The name of the function in the code, as its `mangled_name`."""
        return SimpleNamespace(mangled_name=self._kernel()[0].__name__)

    @property
    def cooperative(self) -> bool:
        """True if numba.cuda runs all blocks of a launch at once: the code names the grid group.

        kerneldsl does so where the group is synchronized.
        """
        kernel, given = self._kernel()
        traits = kernel.specialization(*given, **OFFLINE)[1].traits
        is_named = names_grid_group(find_source(kernel.function).node)
        is_given = kernel.options.launch_attributes.is_cooperative
        return is_given or traits.syncs_grid or is_named

    def _kernel(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the kernel that is compiled, and what its methods take for the signature."""
        if self._dispatcher._is_device:
            found = self.exported()
            return found.kernel, signature_of(found.kinds)
        from numba import types as numba_types

        return self._dispatcher, (numba_types.void(*self.argument_types),)

    def exported(self, form: EntryForm = EntryForm.STATUS, name: str | None = None) -> Exported:
        """Return the device function as one that other GPU code calls."""
        function = self._dispatcher
        return export_function(
            function,
            read_signature(self.argument_types) if self.argument_types else (),
            name or re.sub(r"\W", "_", function.py_func.__name__),
            form=form,
            options=function.options.compile,
            made_by=type(function),
        )

    def typed(self) -> str:
        """Return the function with the types of its values."""
        kernel, given = self._kernel()
        return kernel.typed_source(*given)  # type: ignore[no-any-return]

    @property
    def _type_annotation(self) -> SimpleNamespace:
        """The types of variables, as its `typemap`."""
        from kerneldsl.compat.numba_cuda.typing import argument_types

        kernel, given = self._kernel()
        compiler, specialization = kernel.specialization(*given)
        typed = compiler.typed_unit(specialization.unit, specialization.kinds)
        kinds = {n: t for n, t in typed.variables().items() if isinstance(t, Kind)}
        return SimpleNamespace(
            typemap=dict(zip(kinds, argument_types((*kinds.values(),)), strict=True))
        )

    def inspect_llvm(self) -> str:
        """Return the LLVM IR."""
        kernel, given = self._kernel()
        where = OFFLINE if self._dispatcher._is_device else _on_gpu()
        return kernel.llvm(*given, **where)  # type: ignore[no-any-return]

    def inspect_asm(self, cc: Any = None) -> str:
        """Return the PTX."""
        kernel, given = self._kernel()
        where = {"arch": arch_of(cc)} if cc else _on_gpu()
        return kernel.ptx(*given, **where)  # type: ignore[no-any-return]

    def inspect_sass(self) -> str:
        """Return the machine code as text."""
        return self._dispatcher.asm(*self._kernel()[1])  # type: ignore[no-any-return]

    def dump(self) -> None:
        """Print the forms of the function that Numba's settings ``NUMBA_DUMP_*`` name."""
        from numba import config

        function = self._dispatcher.py_func
        if config.DUMP_BYTECODE:
            print(bytecode_of(function).dump())
        if config.DUMP_CFG:
            jumps_of(function).dump()
        for setting, title, read in (
            (config.DUMP_IR, "IR DUMP:", self.typed),
            (config.DUMP_LLVM, "LLVM DUMP", self.inspect_llvm),
            (config.DUMP_OPTIMIZED, "OPTIMIZED DUMP", self.inspect_llvm),
            (config.DUMP_ASSEMBLY, "ASSEMBLY", self.inspect_asm),
        ):
            if setting:
                head = f"{title} {function.__name__}".center(80, "-")
                print(head, read(), "=" * 80, sep="\n")

    @property
    def const_mem_size(self) -> int:
        """The bytes of the arrays and texts in the code; some are in global memory here."""
        return sum(map(int, _CONSTANT.findall(self.inspect_asm())))

    regs_per_thread = _resource("registers", "The registers of a thread.")
    local_mem_per_thread = _resource("local_bytes", "The bytes of local memory of a thread.")

    @property
    def shared_mem_per_block(self) -> int:
        """The bytes of static shared memory of a block, with arrays that the compiler has removed.

        numba.cuda's compiler keeps them.
        """
        kernel, given = self._kernel()
        specialization = kernel.specialization(*given, **OFFLINE)[1]
        *sizes, last = (0, *shared_array_sizes(specialization.unit, specialization.kinds))
        declared = last + sum(-(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT for size in sizes)
        return max(declared, int(kernel.resources(*given, **_on_gpu()).static_shared_bytes))

    @property
    def max_threads_per_block(self) -> int:
        """The largest number of threads of a block."""
        from kerneldsl.compat.numba_cuda.devices import get_current_device

        bounds = self._dispatcher.options.compile.launch_bounds
        return bounds[0] if bounds else int(get_current_device().MAX_THREADS_PER_BLOCK)

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Return how many blocks a cooperative launch may have; on a CPU they take turns."""
        device = current_device()
        if device.is_host:
            return 2**31 - 1
        from kerneldsl.launch.attributes import resident_blocks

        threads = math.prod(checked_dimensions(1, blockdim)[1])
        resources = self._dispatcher.resources(*self._kernel()[1])
        return resident_blocks(device, resources, threads, dynsmemsize)[1]


def arch_of(cc: Any) -> str:
    """Return the architecture of a compute capability, such as ``(9, 0)`` or ``(9, 0, "a")``."""
    return "sm_" + "".join(map(str, cc))


def _on_gpu() -> dict[str, Any]:
    return {"arch": "sm_90"} if current_device().is_host else {}


#: An array that PTX defines; kernels write none of them.
_CONSTANT = re.compile(r"\.(?:global|const)\s[^;({]*\.b8\s+\w+\[(\d+)\]")
