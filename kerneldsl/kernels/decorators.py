"""``@kd.kernel`` and ``@kd.func``: their options, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, overload

from kerneldsl.contract import CompileOptions
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, UnsupportedConstructError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.kernels.kernel import DeviceFunction, Kernel, KernelOptions
from kerneldsl.launch.attributes import read_attributes
from kerneldsl.launch.dimensions import read_dim3
from kerneldsl.utilities import environment
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.modules import is_of_numba
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract.cuda_options import CudaOptions
    from kerneldsl.kernels.spaces import OpenSpacedKernel, SpacedKernel
    from kerneldsl.language.kinds import Kind
    from kerneldsl.planner.space import Space

__all__ = ["func", "kernel", "read_signatures_of"]

#: Types of parameters: as text, as kinds or Numba's objects, or several of those in a list.
_Signature: TypeAlias = "str | tuple[Any, ...] | list[Any]"

P = ParamSpec("P")
R = TypeVar("R")


def read_signatures_of(signature: Any) -> tuple[tuple[Kind, ...], ...]:
    """Read one signature or a list of them, as :func:`kernel` takes them; none for ``None``."""
    if signature is None:
        return ()
    from kerneldsl.language.signatures import read_signatures

    try:
        return read_signatures(signature)
    except Exception as error:
        raise ArgumentValueError(
            str(error) or f"the signature is {safe_repr(signature)}",
            value=signature,
            limit="It names the type of each parameter",
            remedy='Write "float32, float32[::1]", or a list of such texts',
        ) from error


def _is_signature(value: Any) -> bool:
    """Return whether a decorator was given types instead of a function."""
    if isinstance(value, (str, tuple, list)):
        return True
    return is_of_numba(value, "Type") or is_of_numba(value, "Signature")


def _plain(function: Any, decorator: str) -> Any:
    """Return the plain Python function that a decorator was given."""
    if isinstance(function, FunctionType):
        return function
    remedy = f"Put @kd.{decorator} directly above a def"
    if isinstance(function, (staticmethod, classmethod)):
        remedy = f"Write @staticmethod above @kd.{decorator}, and only there"
    raise UnsupportedConstructError(
        f"@kd.{decorator} was given {a_type(function)}", value=function, remedy=remedy
    )


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(
    function: _Signature | None = None,
    /,
    *,
    signature: _Signature | None = None,
    fastmath: bool = False,
    contract: bool = True,
    debug: bool | None = None,
    lineinfo: bool = False,
    opt: bool = True,
    wraparound: bool = True,
    max_registers: int | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    early_start: bool = False,
    space: Space,
    cluster: int | tuple[int, ...] | None = None,
    cooperative: bool = False,
) -> Callable[[Callable[..., Any]], SpacedKernel]: ...
@overload
def kernel(
    function: _Signature | None = None,
    /,
    *,
    signature: _Signature | None = None,
    fastmath: bool = False,
    contract: bool = True,
    debug: bool | None = None,
    lineinfo: bool = False,
    opt: bool = True,
    wraparound: bool = True,
    max_registers: int | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    early_start: bool = False,
    block: int | tuple[int, ...] | None = None,
    space: None = None,
    cluster: int | tuple[int, ...] | None = None,
    cooperative: bool = False,
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
@shorten_errors
def kernel(
    function: Any = None,
    /,
    *,
    signature: Any = None,
    fastmath: bool = False,
    contract: bool = True,
    debug: bool | None = None,
    lineinfo: bool = False,
    opt: bool = True,
    wraparound: bool = True,
    max_registers: int | None = None,
    launch_bounds: Any = None,
    early_start: Any = False,
    block: Any = None,
    space: Any = None,
    cluster: Any = None,
    cooperative: Any = False,
    **unknown: Any,
) -> Any:
    """Make a kernel of a Python function.

    Use it bare, ``@kd.kernel``, or with options. Nothing is compiled before the first launch,
    which compiles for the types of its arguments.

    Parameters
    ----------
    signature : str, Numba signature, tuple of types, or list of those, optional
        Types of the parameters in Numba's notation, ``"void(float32, float32[::1])"``, or as
        Numba's objects. It may be the first positional argument. From a list, a launch takes the
        signature that needs the fewest conversions. By default each launch uses the types of its
        arguments.
    fastmath : bool, optional
        Allow every floating-point transformation of LLVM, and approximate functions.
    contract : bool, optional
        Fuse a multiplication and an addition into one operation (the default), as nvcc does.
    debug : bool, optional
        Check indices, and report ``assert`` and ``raise``. By default ``KERNELDSL_DEBUG`` decides.
        The code has source lines.
    lineinfo : bool, optional
        Write source lines into the compiled code, for profilers.
    opt : bool, optional
        Optimize the code of a GPU (the default). With ``debug=True, opt=False`` cuda-gdb shows the
        variables of the kernel.
    wraparound : bool, optional
        Count negative indices from the end (the default). With ``False`` the kernel promises that
        no index is negative.
    max_registers : int, optional
        Registers per thread, 16 to 255.
    launch_bounds : int or tuple of int, optional
        Largest number of threads of a block. Then, optionally, the smallest number of blocks to fit
        on a multiprocessor, and the largest number of blocks of a cluster.
    early_start : bool, optional
        On GPUs of compute capability 9.0, let a launch begin while the kernel before it in its
        stream ends. It waits for the end before it reads or writes memory. Good for short kernels
        that follow another one.
    block : int or tuple of int, optional
        The block of ``forall``, x first.
    space : Space, optional
        The blocks and the values of keyword-only parameters that ``forall`` chooses from; see
        :class:`kerneldsl.Space`. Launches give the parameters that are not in the space.
    cluster : int or tuple of int, optional
        Blocks of a cluster, which run at once on neighbouring multiprocessors. Needs compute
        capability 9.0.
    cooperative : bool, optional
        Run all blocks of a launch at once, or raise.

    Returns
    -------
    Kernel

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, LaunchConfigError
        If there is no such option, or it has an invalid value.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def axpy(a, x, y, out):
    ...     i = kd.grid(1)
    ...     if i < out.size:
    ...         out[i] = a * x[i] + y[i]
    >>> @kd.kernel(fastmath=True, block=128)
    ... def scale(a, x):
    ...     x[kd.grid(1)] *= a
    """
    if unknown:
        from kerneldsl.kernels.unknown_options import refuse_option

        refuse_option("kd.kernel", kernel, unknown)
    if _is_signature(function):
        function, signature = None, function
    environment.configure_logging()
    environment.check_environment()
    if debug is None:
        debug = environment.is_on("KERNELDSL_DEBUG", default=False)
    debug = read_flag("debug", debug)
    options = KernelOptions(
        read_signatures_of(signature),
        CompileOptions(
            fastmath=read_flag("fastmath", fastmath),
            contract=read_flag("contract", contract),
            debug=debug,
            lineinfo=read_flag("lineinfo", lineinfo),
            optimize=read_flag("opt", opt),
            variables=bool(debug) and not opt,
            wraparound=read_flag("wraparound", wraparound),
            max_registers=_read_registers(max_registers),
            launch_bounds=_read_launch_bounds(launch_bounds),
            early_start=read_flag("early_start", early_start),
            disabled_passes=environment.disabled_passes(),
        ),
        None if block is None else read_dim3(block, "block_dim"),
        read_attributes(cluster, cooperative),
    )

    if space is not None:
        _check_space(space, block)

    @shorten_errors
    def decorate(function: Callable[P, R]) -> Kernel[P, R] | SpacedKernel | OpenSpacedKernel:
        plain = _plain(function, "kernel")
        if space is None and not plain.__code__.co_kwonlyargcount:
            return Kernel(plain, options)
        if space is None:
            from kerneldsl.kernels.constants import ParameterizedKernel

            return ParameterizedKernel(plain, options)
        from kerneldsl.kernels.spaces import make_spaced

        return make_spaced(plain, options, space)

    return decorate if function is None else decorate(function)


def _check_space(space: Any, block: Any) -> None:
    from kerneldsl.planner.space import Space

    if not isinstance(space, Space):
        raise ArgumentTypeError(
            f"space is {a_type(space)}",
            value=space,
            limit="It must be a kerneldsl.Space",
            remedy="Write space=kd.Space(block=[64, 128, 256])",
        )
    if block is not None:
        raise ArgumentValueError(
            f"the kernel was given a space and block={safe_repr(block)}",
            value=block,
            limit="The space determines the block",
            remedy="Leave one of them out",
        )


@overload
def func(function: Callable[P, R], /) -> DeviceFunction[P, R]: ...
@overload
def func(
    *,
    link: str | PathLike[str] | bytes,
    signature: Any,
    name: str | None = None,
    options: CudaOptions | None = None,
    pure: bool = False,
) -> Callable[[Callable[P, R]], DeviceFunction[P, R]]: ...
@shorten_errors
def func(
    function: Any = None,
    /,
    *,
    link: Any = None,
    signature: Any = None,
    name: Any = None,
    options: Any = None,
    pure: Any = False,
    **unknown: Any,
) -> Any:
    """Make a device function of a Python function, for kernels to call.

    Each kernel that calls it compiles it for the types of the call. It may use every intrinsic,
    barriers included. Plain Python can call it as well.

    With `link`, a GPU runs a function of CUDA C++ or PTX in its place. The CPU and plain Python run
    the Python function, which means the same.

    Parameters
    ----------
    link : str, path-like or bytes, optional
        A file of CUDA C++ (``.cu``), PTX (``.ptx``), LTO-IR (``.ltoir``) or machine code
        (``.cubin``, ``.fatbin``). A path is relative to the folder of the Python file. Bytes are
        PTX, LTO-IR or machine code.
    signature : str or Numba signature
        With `link`, the types of result and parameters, such as ``"float32(float32, int32)"`` or
        ``"void(float32[::1], int64)"``. Arguments are converted to them. An array is passed as the
        address of its first element, and must be C-contiguous.
    name : str, optional
        The function in the linked code, by default the name of the Python function. In CUDA C++ it
        is ``extern "C"``.
    options : CudaOptions, optional
        Options for compiling CUDA C++, such as ``kd.CudaOptions(defines={"WIDTH": 4})``.
    pure : bool, optional
        Declare that the result depends on the arguments alone, and that the linked function does
        nothing else. Without it, the result may differ between threads, and calls are neither
        removed nor moved.

    Returns
    -------
    DeviceFunction

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If there is no such option, or it has an invalid value, or the file cannot be read.
    UnsupportedConstructError
        If it is not given a Python function.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.func
    ... def lerp(a, b, t):
    ...     return a + t * (b - a)
    >>> lerp(1.0, 3.0, 0.5)
    2.0
    """
    if unknown:
        from kerneldsl.kernels.unknown_options import refuse_option

        refuse_option("kd.func", func, unknown)
    if isinstance(function, DeviceFunction):
        return function
    environment.configure_logging()
    environment.check_environment()
    given = {"signature": signature, "name": name, "options": options, "pure": pure}
    if link is None:
        _require_link(given)

    @shorten_errors
    def decorate(function: Any) -> DeviceFunction[Any, Any]:
        plain = _plain(function, "func")
        if link is None:
            return DeviceFunction(plain)
        from kerneldsl.kernels.linking import read_link

        return DeviceFunction(plain, read_link(plain, link, **given))

    if function is None and link is not None:
        return decorate
    return decorate(function)


def _require_link(options: Mapping[str, Any]) -> None:
    """Refuse options of linked functions alone."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ArgumentTypeError(
                f"kd.func was given {name} without link",
                value=value,
                limit="It describes a function of other code",
                remedy='Write @kd.func(link="scale.cu", signature="float32(float32, float32)")',
            )


def _read_registers(value: Any) -> int | None:
    if value is None or (type(value) is int and 16 <= value <= 255):
        return value
    raise wrong_value("max_registers", value, "It must be an int from 16 to 255, or None")


def _read_launch_bounds(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    bounds = value if isinstance(value, tuple) else (value,)
    if 1 <= len(bounds) <= 3 and all(type(n) is int and n > 0 for n in bounds):
        return bounds
    raise wrong_value(
        "launch_bounds",
        value,
        "It must be one to three ints: threads of a block, blocks on a multiprocessor, "
        "blocks of a cluster",
    )
