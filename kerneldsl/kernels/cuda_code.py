"""Kernels from CUDA C++, PTX and cubins: ``kd.cuda_source`` and ``kd.module``."""

from __future__ import annotations

import os
import re
import sys
from types import FrameType, FunctionType
from typing import Any, NoReturn, TypeAlias, overload

from kerneldsl.contract.cuda_options import DEFAULT_CUDA_OPTIONS, CudaOptions
from kerneldsl.contract.device_code import CodeModule
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceCodeError,
    SourceUnavailableError,
)
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.frontend.linked_code import CodeForm, form_of_binary, without_byte_order_mark
from kerneldsl.kernels.cuda_kernel import CudaKernel, make_cuda_kernel
from kerneldsl.kernels.decorators import kernel as make_kernel
from kerneldsl.kernels.decorators import read_signatures_of
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind, format_signature
from kerneldsl.launch.attributes import read_attributes
from kerneldsl.launch.dimensions import read_dim3
from kerneldsl.utilities import environment
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.paths import find_beside, path_text, read_beside
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["CudaModule", "cuda_source", "module"]

#: Text, or the path of a file.
_Source: TypeAlias = "str | os.PathLike[str]"
#: A kernel, or a Python function to make one of.
_Cpu: TypeAlias = "Kernel[..., Any] | FunctionType | None"


class CudaModule(Shown):
    """A source or a compiled file with several kernels, which share its variables.

    Made by :func:`kerneldsl.cuda_source` without a name, and by :func:`kerneldsl.module`. Name all
    kernels before the first launch. A source is compiled with the kernels that have been named.
    Later ones are in another compilation, with other variables.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> source = kd.cuda_source('''
    ... template<class T> __global__ void fill(T *x, T value, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) x[i] = value;
    ... }''')
    >>> source.kernel("fill<float>", "float32[::1], float32, int32")
    <kernel fill<float> of CUDA C++, <cuda_source>>
    """

    def __init__(self, module: CodeModule, module_name: str) -> None:
        self._module = module
        self._module_name = module_name

    @property
    def name(self) -> str:
        """The path of the file, or a short name of a text."""
        return self._module.name

    @shorten_errors
    def kernel(
        self,
        name: str,
        signature: Any,
        *,
        cpu: _Cpu = None,
        block: int | tuple[int, ...] | None = None,
        cluster: int | tuple[int, ...] | None = None,
        cooperative: bool = False,
    ) -> CudaKernel:
        """Return a kernel of the module.

        Parameters
        ----------
        name : str
            The kernel. Of CUDA C++ it may have a namespace and template arguments, such as
            ``"ns::scale<float>"``. Of PTX and cubins it is the name in the code, which C++ mangles
            unless the kernel is ``extern "C"``.
        signature : str, Numba signature or tuple of types
            Types of the parameters, as for :func:`kerneldsl.kernel`. Of an array, which must be
            contiguous, the kernel gets the address alone. A number is passed by value.
        cpu : Kernel or function, optional
            The kernel that runs instead without a GPU, with the same parameters. A Python function
            becomes a kernel.
        block : int or tuple of int, optional
            The block of ``forall``, x first.
        cluster : int or tuple of int, optional
            Blocks of a cluster.
        cooperative : bool, optional
            Run all blocks of a launch at once, or raise.

        Returns
        -------
        CudaKernel

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If an argument has another type, or the signature cannot be passed.
        """
        _check_name(name)
        kinds = _read_signature(signature, name)
        options = KernelOptions(
            (kinds,),
            block=None if block is None else read_dim3(block, "block_dim"),
            launch_attributes=read_attributes(cluster, cooperative),
        )
        host = _read_cpu(cpu, kinds, name)
        return make_cuda_kernel(self._module, name.strip(), kinds, host, options, self._module_name)

    def __getattr__(self, name: str) -> NoReturn:
        more = f". {self._not_launched()}" if name == "forall" else ""
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self
        )

    @shorten_errors
    def __getitem__(self, config: Any) -> NoReturn:
        raise self._not_launched()

    @shorten_errors
    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise self._not_launched()

    def _not_launched(self) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"{self.name} is a module, which is not launched",
            value=self,
            limit="It has several kernels",
            remedy='Name one: module.kernel("name", signature)[grid, block](…)',
        )

    def __repr__(self) -> str:
        return f"<CudaModule {self.name}: {self._module.form}>"


@overload
def cuda_source(
    source: _Source,
    name: str,
    signature: Any,
    *,
    cpu: _Cpu = None,
    options: CudaOptions = DEFAULT_CUDA_OPTIONS,
    block: int | tuple[int, ...] | None = None,
    cluster: int | tuple[int, ...] | None = None,
    cooperative: bool = False,
) -> CudaKernel: ...
@overload
def cuda_source(source: _Source, *, options: CudaOptions = DEFAULT_CUDA_OPTIONS) -> CudaModule: ...
@shorten_errors
def cuda_source(
    source: _Source,
    name: str | None = None,
    signature: Any = None,
    *,
    options: CudaOptions = DEFAULT_CUDA_OPTIONS,
    **about: Any,
) -> CudaKernel | CudaModule:
    """Make a kernel of CUDA C++, or with no name a module of several kernels.

    NVRTC compiles it at the first launch. It comes with the extra ``kerneldsl[nvrtc13]`` or
    ``[nvrtc12]``, and CUB's headers with ``[cccl13]`` or ``[cccl12]``.

    Parameters
    ----------
    source : str or path
        The text of a source, or the path of a file. A text has a brace or more than one line. A
        relative path begins at the folder of the Python file, and in a notebook at the current
        folder.
    name : str, optional
        The kernel, with template arguments if it is a template: ``"scale<float>"``.
    signature : str, Numba signature or tuple of types, optional
        Types of the parameters; see :meth:`CudaModule.kernel`.
    cpu : Kernel or function, optional
        The kernel that runs instead without a GPU.
    options : CudaOptions
        Options of the compiler.
    block, cluster, cooperative
        As for :meth:`CudaModule.kernel`.

    Returns
    -------
    CudaKernel or CudaModule

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If an argument has another type, or the signature cannot be passed.
    SourceUnavailableError
        If the file cannot be read.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> saxpy = kd.cuda_source('''
    ... extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) y[i] += a * x[i];
    ... }''', "saxpy", "float32, float32[::1], float32[::1], int32")
    >>> "fma.rn.f32" in saxpy.ptx(arch="sm_90")
    True
    """
    environment.configure_logging()
    if name is not None:
        _check_name(name)
    if not isinstance(options, CudaOptions):
        raise ArgumentTypeError(
            f"options is {a_type(options)}",
            value=options,
            limit="It must be kd.CudaOptions",
            remedy="Write options=kd.CudaOptions(max_registers=64)",
        )
    frame = sys._getframe(2)  # of the caller of the function that shortens errors
    found = CudaModule(_read_source(source, name, options, frame), frame.f_globals["__name__"])
    if name is None:
        if about or signature is not None:
            raise ArgumentTypeError(
                f"cuda_source was given {', '.join(about) or 'a signature'} and no name",
                limit="A signature and what runs on the CPU are of one kernel",
                remedy='Name it: kd.cuda_source(source, "name", signature, …)',
            )
        return found
    return found.kernel(name, signature, **about)


@shorten_errors
def module(image: _Source | bytes | bytearray | memoryview) -> CudaModule:
    """Take kernels from PTX, a cubin or a fat binary.

    Parameters
    ----------
    image : str, path or bytes
        The path of a file, the text of PTX, or the bytes of a file. A relative path begins at the
        folder of the Python file, and in a notebook at the current folder.

    Returns
    -------
    CudaModule
        Its method :meth:`~CudaModule.kernel` returns a kernel.

    Raises
    ------
    ArgumentTypeError
        If `image` has another type.
    SourceUnavailableError
        If the file cannot be read.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> module = kd.module('''.version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry set_one(.param .u64 x) {
    ...     .reg .b64 %a;
    ...     ld.param.u64 %a, [x];
    ...     st.global.f32 [%a], 0f3F800000;
    ...     ret;
    ... }''')
    >>> set_one = module.kernel("set_one", "float32[::1]")
    >>> set_one.resources(arch="sm_90").registers > 0
    True
    """
    environment.configure_logging()
    name, frame = "<module>", sys._getframe(2)  # of the caller of the function that shortens errors
    if isinstance(image, (bytes, bytearray, memoryview)):
        contents = bytes(image)
    elif isinstance(image, str) and "\n" in image:
        contents = image.encode()
    elif isinstance(image, (str, os.PathLike)):
        name, contents = _read_file(image, frame)
    else:
        raise ArgumentTypeError(
            f"module was given {a_type(image)}",
            value=image,
            limit="It takes the path of a file, the text of PTX, or bytes",
        )
    form = form_of_binary(contents)
    if form is None:
        form = CodeForm.PTX if b".version" in contents else CodeForm.CUBIN
    if form is CodeForm.LTO_IR:
        raise DeviceCodeError(
            f"{name} is LTO-IR",
            value=name,
            limit="A module is PTX, a cubin or a fat binary; LTO-IR must be linked first",
            remedy="Compile it without -dlto, or call a device function in it by @kd.func(link=…)",
        )
    return CudaModule(CodeModule(form, name, contents), frame.f_globals["__name__"])


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise wrong_type("name", name, "A kernel's name is a str")


def _read_source(
    source: _Source, name: str | None, options: CudaOptions, frame: FrameType
) -> CodeModule:
    if isinstance(source, str) and not source.strip():
        raise ArgumentValueError(
            "cuda_source was given an empty text",
            value=source,
            limit="It takes the text of CUDA C++, or the path of a file",
        )
    written_in = frame.f_code.co_filename
    is_line = isinstance(source, str) and "{" in source and not os.path.isfile(source)
    if isinstance(source, str) and ("\n" in source or is_line):
        called = re.split(r"<", name or "cuda_source", maxsplit=1)[0]
        return CodeModule(CodeForm.CUDA, f"<{called}>", source.encode(), options, written_in)
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"cuda_source was given {a_type(source)}",
            value=source,
            limit="It takes the text of CUDA C++, or the path of a file",
        )
    path, contents = _read_file(source, frame)
    try:
        contents.decode()
    except UnicodeDecodeError as error:
        raise SourceUnavailableError(
            f"{path} is not text: {error}",
            value=path,
            limit="CUDA C++ is read as UTF-8",
            remedy="Pass PTX and cubins to kd.module",
        ) from error
    return CodeModule(CodeForm.CUDA, path, contents, options)


def _read_file(path: _Source, frame: FrameType) -> tuple[str, bytes]:
    """Return the absolute path and the contents of a file that a Python file names."""
    text = path_text(path)
    if text is None or "\0" in text:
        raise ArgumentValueError(
            f"the path is {safe_repr(path if text is None else text)}",
            value=path,
            limit="A path is text, without null characters",
            remedy="Correct the path, or pass the contents",
        )
    place = find_beside(text, frame.f_code.co_filename, frame.f_globals)
    name = os.path.abspath(place)
    try:
        return name, without_byte_order_mark(read_beside(place, frame.f_globals))
    except OSError as error:
        raise SourceUnavailableError(
            f"{name} cannot be read: {error.strerror}",
            value=name,
            limit="A relative path begins at the folder of the Python file",
            remedy="Correct the path, or pass the contents",
        ) from error


def _read_signature(signature: Any, name: str) -> tuple[Kind, ...]:
    """Read one signature that can be passed to C."""
    if signature is None:
        raise ArgumentTypeError(
            f"the kernel {name} has no signature",
            limit="Code that is compiled elsewhere has the types of its parameters from it alone",
            remedy='Write them: "float32, float32[::1], int64", or "" for no parameter',
        )
    found = read_signatures_of(signature) or ((),)
    if len(found) != 1:
        raise ArgumentValueError(
            f"the kernel {name} was given {len(found)} signatures",
            value=signature,
            limit="Compiled code has the parameters of one",
            remedy="Make a kernel for each",
        )
    for position, kind in enumerate(found[0], 1):
        if isinstance(kind, TupleKind):
            raise ArgumentValueError(
                f"parameter {position} is the tuple {kind}",
                value=signature,
                limit="A parameter of C is a number, a record or an array",
                remedy="Name its members as separate parameters",
            )
        if isinstance(kind, ArrayKind) and kind.layout == "A":
            axes = ", ".join([":"] * (kind.ndim - 1) + ["::1"])
            raise ArgumentValueError(
                f"parameter {position} is {kind}, an array with any strides",
                value=signature,
                limit="The kernel gets the address alone, so the array must be contiguous",
                remedy=f"Write {kind.dtype}[{axes}]",
            )
    return found[0]


def _read_cpu(cpu: Any, kinds: tuple[Kind, ...], name: str) -> Kernel[..., Any] | None:
    """Make a kernel of what runs on the CPU, and compare its parameters with the signature."""
    if cpu is None:
        return None
    if isinstance(cpu, FunctionType):
        cpu = make_kernel(signature=kinds)(cpu)
    if not isinstance(cpu, Kernel):
        raise ArgumentTypeError(
            f"cpu is {a_type(cpu)}",
            value=cpu,
            limit="It must be a kernel or a Python function",
            remedy="Write a function with the same parameters, in the language of kernels",
        )
    count = cpu.function.__code__.co_argcount
    if count != len(kinds):
        raise ArgumentTypeError(
            f"cpu= of {name}, {cpu.__qualname__}, has {format_count(count, 'parameter')}",
            value=count,
            limit=f"The signature ({format_signature(kinds)}) has {len(kinds)}",
            remedy="Give it the same parameters",
        )
    return cpu
