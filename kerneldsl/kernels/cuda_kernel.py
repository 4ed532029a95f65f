"""A kernel of CUDA C++, PTX or a cubin, with the kernel that runs instead without a GPU."""

from __future__ import annotations

import keyword
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.contract.device_code import CodeModule, DeviceCode, parameters_in_text
from kerneldsl.errors import SourceUnavailableError, UnsupportedConstructError
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.language.kinds import Kind
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.tracebacks import shorten_errors
from kerneldsl.utilities.written_functions import written_function

if TYPE_CHECKING:
    from kerneldsl.launch.state import Definition

__all__ = ["CudaKernel", "make_cuda_kernel"]


class CudaKernel(Kernel[..., None]):
    """A kernel of CUDA C++, PTX or a cubin.

    Made by :func:`kerneldsl.cuda_source` and :meth:`CudaModule.kernel`. It is launched, planned,
    captured, profiled and counted as every :class:`kerneldsl.Kernel`.

    Attributes
    ----------
    cpu : Kernel or None
        The kernel that runs instead without a GPU.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> def on_cpu(x, n):
    ...     i = kd.grid(1)
    ...     if i < n:
    ...         x[i] *= 2
    >>> double = kd.cuda_source('''
    ... extern "C" __global__ void twice(float *x, long long n) {
    ...     long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    ...     if (i < n) x[i] *= 2;
    ... }''', "twice", "float32[::1], int64", cpu=on_cpu)
    >>> x = np.ones(5, np.float32)
    >>> with kd.use("cpu"):
    ...     double.forall(x.size)(x, x.size)
    >>> x
    array([2., 2., 2., 2., 2.], dtype=float32)
    """

    def __init__(
        self,
        function: FunctionType,
        options: KernelOptions,
        code: DeviceCode,
        cpu: Kernel[..., Any] | None,
    ) -> None:
        super().__init__(function, options)
        self._code = code
        self.cpu = cpu

    def _define(self, make: type[Definition]) -> Definition:
        host = None if self.cpu is None else self.cpu._dispatcher
        return super()._define(make)._replace(code=self._code, host=host)

    @property
    def source(self) -> str:
        """The text of the CUDA C++ or the PTX.

        Raises
        ------
        SourceUnavailableError
            If the kernel is from a cubin.
        """
        module = self._code.module
        if not module.is_text:
            raise SourceUnavailableError(
                f"{module.name} is a {module.form}, which has no source",
                value=module.name,
                remedy="Look at its machine code: kernel.artifact().text('sass')",
            )
        return module.text

    @property
    def log(self) -> str:
        """Messages of the compiler about what was compiled in this process, such as warnings."""
        return "\n".join(dict.fromkeys(made.log for _, made in self._compiled() if made.log))

    @shorten_errors
    def explain(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: only Python is explained.

        Raises
        ------
        UnsupportedConstructError
            Always.
        """
        raise UnsupportedConstructError(
            f"{self.__qualname__} is {self._code.module.form}",
            value=self.__qualname__,
            limit="Only kernels in Python are explained",
            remedy="Explain the CPU function: kernel.cpu.explain(…)",
        )

    def __repr__(self) -> str:
        module = self._code.module
        return f"<kernel {self.__qualname__} of {module.form}, {module.name}>"

    def __reduce__(self) -> Any:
        module = self._code.module
        parts = (module.form, module.name, module.contents, module.options, module.written_in)
        return _load, (parts, self._code.entry, self.__module__, self.cpu, self.options)


_Parts: TypeAlias = tuple[CodeForm, str, bytes, CudaOptions, str]
#: Modules that came with pickled kernels, so that kernels of one module share it here too.
_loaded: dict[_Parts, CodeModule] = {}


def _load(
    parts: _Parts,
    entry: str,
    module_name: str,
    cpu: Kernel[..., Any] | None,
    options: KernelOptions,
) -> CudaKernel:
    """Make a kernel that was pickled."""
    module = _loaded.setdefault(parts, CodeModule(*parts))
    kinds = options.signatures[0]
    return make_cuda_kernel(module, entry, kinds, cpu, options, module_name)


def make_cuda_kernel(
    code_module: CodeModule,
    entry: str,
    kinds: tuple[Kind, ...],
    cpu: Kernel[..., Any] | None,
    options: KernelOptions,
    module_name: str,
) -> CudaKernel:
    code = code_module.declare(entry)
    function = _stub(code, _names(code, kinds, cpu), module_name)
    if cpu is not None:
        function.__doc__ = cpu.__doc__
    return CudaKernel(function, options, code, cpu)


def _names(
    code: DeviceCode, kinds: tuple[Kind, ...], cpu: Kernel[..., Any] | None
) -> tuple[str, ...]:
    """Return names of the parameters: the CPU function's, or else those in the source."""
    count = len(kinds)
    if cpu is not None:
        return tuple(cpu.function.__code__.co_varnames[:count])
    found = parameters_in_text(code)
    is_usable = len({*found}) == len(found) == count and not any(
        keyword.iskeyword(name) or name.startswith(RESERVED_PREFIX) for name in found
    )
    return found if is_usable else tuple(f"arg{i}" for i in range(count))


def _stub(code: DeviceCode, names: tuple[str, ...], module_name: str) -> FunctionType:
    """Write the Python function with a kernel's name and parameters; it is never run."""
    name = re.sub(r"\W", "_", code.entry)
    text = f"def _{name}({', '.join(names)}):\n    pass\n"
    function: FunctionType = written_function(f"_{name}", text, {}, module_name)
    function.__name__ = function.__qualname__ = code.entry
    return function
