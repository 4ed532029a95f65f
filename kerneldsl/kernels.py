"""``@kd.kernel`` and ``@kd.func``: the objects that stand in the place of decorated functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from kerneldsl import environment
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    LaunchConfigError,
    UnsupportedConstructError,
)
from kerneldsl.inspection import InspectionMixin
from kerneldsl.language.kinds import Kind, parse_signature
from kerneldsl.runtime.dispatch import Dispatcher, LaunchShape
from kerneldsl.runtime.launch import read_dim3, read_extent, read_shared_bytes, read_stream
from kerneldsl.runtime.state import SpecializationInfo
from kerneldsl.target import CompileOptions, Dim3
from kerneldsl.timing import Timing, measure

__all__ = ["DeviceFunction", "Kernel", "KernelOptions", "Launch", "func", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """What ``@kd.kernel(...)`` was given; see :func:`kernel`."""

    signature: tuple[Kind, ...] | None = None
    compile: CompileOptions = field(default_factory=CompileOptions)
    block: Dim3 | None = None


class Launch:
    """A kernel with the shape of its launch: call it with the kernel's arguments.

    Made by ``kernel[grid, block]`` and ``kernel.forall(*extent)``.
    """

    __slots__ = ("_dispatcher", "_shape", "kernel")

    def __init__(self, kernel: Kernel[..., Any], shape: LaunchShape) -> None:
        self.kernel = kernel
        self._dispatcher = kernel._dispatcher
        self._shape = shape

    def __call__(self, *args: Any) -> None:
        """Launch the kernel.

        Parameters
        ----------
        *args
            One for each parameter: NumPy arrays, device arrays, arrays of other libraries with
            DLPack or ``__cuda_array_interface__``, bools, ints (as int64), floats (as float64),
            complex numbers, NumPy scalars, and tuples of those.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If an argument cannot be passed.
        ReadOnlyArrayError
            If an array that the kernel writes is read-only.
        DeviceMismatchError
            If arrays live on two devices, or not where an active ``with kd.use(…)`` says.
        LaunchConfigError
            If the device cannot run this shape.
        KernelTypingError, BarrierDivergenceError, CompileError
            If the kernel cannot be compiled for these arguments.
        KernelFault
            In debug mode, if the kernel raised.
        """
        self._dispatcher.launch(self._shape, args)

    def time(self, *args: Any, samples: int = 7) -> Timing:
        """Measure the time of this launch; the kernel runs many times over the same arguments.

        Parameters
        ----------
        *args
            As for the launch.
        samples : int, optional
            How many samples to take.

        Returns
        -------
        Timing
        """
        if not isinstance(samples, int) or samples < 1:
            raise ArgumentValueError(f"samples is {samples!r}", limit="It is an int >= 1")
        place = self._dispatcher.place(args)
        return measure(
            lambda: self._dispatcher.launch(self._shape, args),
            lambda: place.target.synchronize(place.device),
            samples=samples,
            device=f"{place.name} ({place.device.name})",
            includes="the Python call, the launch, the kernel"
            + ("" if place.is_host else ", and the copies of NumPy arguments"),
        )

    def __repr__(self) -> str:
        shape = self._shape
        name = self.kernel.__qualname__
        if shape.extent is not None:
            return f"<launch of {name} over {shape.extent}>"
        return f"<launch of {name} with grid {shape.grid_dim}, block {shape.block_dim}>"


class Kernel(InspectionMixin, Generic[P, R]):
    """A function that runs on a device, once for each thread. Made by :func:`kernel`.

    Launch it with ``kernel.forall(n)(…)`` or ``kernel[grid, block](…)``.

    Attributes
    ----------
    function : callable
        The Python function.
    options : KernelOptions
        What the decorator was given.
    """

    __kerneldsl_kernel__ = True

    def __init__(self, function: Callable[P, R], options: KernelOptions) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self._block = options.block
        self._dispatcher = Dispatcher(function, options.compile, options.signature)
        self.__qualname__: str

    # ------------------------------------------------------------------ launching

    def __getitem__(self, config: Any) -> Launch:
        """Give the kernel its shape: ``kernel[grid, block, stream, shared_bytes]``.

        Parameters
        ----------
        config : tuple
            Grid in blocks and block in threads, each an int or a tuple of 1 to 3 (x first), then
            optionally a stream (``None``: the default) and the dynamic shared memory of a block in
            bytes.

        Raises
        ------
        LaunchConfigError
            If it is not that.
        """
        if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
            raise LaunchConfigError(
                f"{self.__qualname__}[{config!r}] is no launch configuration",
                value=config,
                limit="It is kernel[grid, block], kernel[grid, block, stream] or "
                "kernel[grid, block, stream, shared_bytes]",
                remedy="Without a block of your own, write kernel.forall(n)(…)",
            )
        grid, block = config[:2]
        stream = config[2] if len(config) > 2 else None
        shared_bytes = config[3] if len(config) > 3 else 0
        return Launch(
            self,
            LaunchShape(
                read_dim3(grid, "grid_dim"),
                read_dim3(block, "block_dim"),
                None,
                read_stream(stream),
                read_shared_bytes(shared_bytes),
            ),
        )

    def forall(
        self,
        *extent: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        stream: Any = None,
        shared_bytes: int = 0,
    ) -> Launch:
        """Give the kernel an extent: it runs once for each index, ``kd.grid(n)`` gives the index.

        Parameters
        ----------
        *extent : int
            One to three extents, or a tuple of them, such as ``forall(*image.shape)``. An extent
            of 0 launches nothing.
        block : int or tuple of int, optional
            The block, x first; by default the decorator's, else the target chooses. A kernel that
            works with its block (shared memory, barriers) must have one; for it the grid is rounded
            up, and threads beyond the extent run too: the kernel guards.
        stream : optional
            As in ``kernel[grid, block, stream]``.
        shared_bytes : int, optional
            Dynamic shared memory of a block, in bytes.

        Raises
        ------
        LaunchConfigError
            If the extent or the block is not that.
        """
        return Launch(
            self,
            LaunchShape(
                None,
                self._block if block is None else read_dim3(block, "block_dim"),
                read_extent(extent),
                read_stream(stream),
                read_shared_bytes(shared_bytes),
            ),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a kernel has to be told how many threads run it."""
        name = self.__qualname__
        raise LaunchConfigError(
            f"the kernel {name} was called without a shape",
            limit="A launch says how many threads run the kernel",
            remedy=f"Write {name}.forall(n)(…) or {name}[grid, block](…)",
        )

    def time(
        self,
        *args: Any,
        forall: int | tuple[int, ...] | None = None,
        grid: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        shared_bytes: int = 0,
        samples: int = 7,
    ) -> Timing:
        """Measure the time of a launch over an extent (`forall`), or with a `grid` and `block`.

        See :meth:`Launch.time`.
        """
        if (forall is None) == (grid is None):
            raise LaunchConfigError(
                "time() needs either forall= or grid= and block=",
                remedy=f"Write {self.__qualname__}.time(…, forall=n), or "
                f"{self.__qualname__}.forall(n).time(…)",
            )
        if forall is not None:
            launch = self.forall(
                *(forall if isinstance(forall, tuple) else (forall,)),
                block=block,
                shared_bytes=shared_bytes,
            )
        else:
            launch = self[grid, block, None, shared_bytes]
        return launch.time(*args, samples=samples)

    # ------------------------------------------------------------------ looking

    @property
    def specializations(self) -> tuple[SpecializationInfo, ...]:
        """What has been compiled of this kernel so far."""
        return self._dispatcher.infos()

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        count = len(self.specializations)
        compiled = f", compiled {count} times" if count > 1 else ", compiled once" if count else ""
        return f"<kernel {self.__module__}.{self.__qualname__}({', '.join(names)}){compiled}>"

    def __reduce__(self) -> Any:
        from kerneldsl.pickling import reduce_function

        return reduce_function(self, self.function, self.options)


class DeviceFunction(Generic[P, R]):
    """A function that kernels call. Made by :func:`func`; plain Python can call it, too.

    Attributes
    ----------
    function : callable
        The Python function.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        #: By this attribute the front end knows it.
        self.__kerneldsl_function__ = function
        self.__qualname__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the Python function; intrinsics in it are an error outside a kernel."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        return f"<device function {self.__module__}.{self.__qualname__}({', '.join(names)})>"

    def __reduce__(self) -> Any:
        from kerneldsl.pickling import reduce_function

        return reduce_function(self, self.function, None)


def _read_signature(signature: str | tuple[Kind, ...] | None) -> tuple[Kind, ...] | None:
    if signature is None or isinstance(signature, tuple):
        return signature
    try:
        return parse_signature(signature)
    except (ValueError, TypeError) as error:
        raise ArgumentValueError(str(error), value=signature) from error


def _plain(function: Any, decorator: str) -> Any:
    """The plain Python function that a decorator was given."""
    if isinstance(function, FunctionType):
        return function
    remedy = f"Put @kd.{decorator} directly above a def"
    if isinstance(function, (staticmethod, classmethod)):
        remedy = f"Swap the decorators: @{type(function).__name__} above @kd.{decorator}"
    raise UnsupportedConstructError(
        f"@kd.{decorator} was given a {type(function).__name__}", value=function, remedy=remedy
    )


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(
    function: str | tuple[Kind, ...] | None = None,
    /,
    *,
    signature: str | tuple[Kind, ...] | None = None,
    fastmath: bool = False,
    contract: bool = True,
    debug: bool | None = None,
    lineinfo: bool = False,
    wraparound: bool = True,
    max_registers: int | None = None,
    launch_bounds: int | tuple[int] | tuple[int, int] | None = None,
    block: int | tuple[int, ...] | None = None,
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(
    function: Any = None,
    /,
    *,
    signature: Any = None,
    fastmath: bool = False,
    contract: bool = True,
    debug: bool | None = None,
    lineinfo: bool = False,
    wraparound: bool = True,
    max_registers: int | None = None,
    launch_bounds: Any = None,
    block: Any = None,
) -> Any:
    """Make a kernel of a Python function.

    Nothing is compiled before the first launch. Used bare, ``@kd.kernel``, or with options.

    Parameters
    ----------
    signature : str, optional
        Types of the parameters in Numba's notation, ``"void(float32, float32[::1])"``, also as the
        first positional argument. By default they are those of each launch's arguments.
    fastmath : bool, optional
        Allow every floating-point transformation LLVM knows, and approximate functions.
    contract : bool, optional
        Let a multiply and an add become one fused operation (the default), as nvcc does.
    debug : bool, optional
        Check indices, and let ``assert`` and ``raise`` act; by default as ``KERNELDSL_DEBUG`` says.
    lineinfo : bool, optional
        Put source lines into the compiled code, for profilers.
    wraparound : bool, optional
        Let negative indices count from the end (the default); False promises there are none.
    max_registers : int, optional
        Registers a thread may use, 16 to 255.
    launch_bounds : int or tuple of int, optional
        Largest number of threads of a block, and optionally the smallest number of blocks that
        should fit on a multiprocessor.
    block : int or tuple of int, optional
        The block of ``forall``, x first.

    Returns
    -------
    Kernel

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, LaunchConfigError
        If an option is not one of those.

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
    if isinstance(function, (str, tuple)):
        function, signature = None, function
    environment.configure_logging()
    options = KernelOptions(
        _read_signature(signature),
        CompileOptions(
            fastmath=_flag("fastmath", fastmath),
            contract=_flag("contract", contract),
            debug=environment.debug_is_on() if debug is None else _flag("debug", debug),
            lineinfo=_flag("lineinfo", lineinfo),
            wraparound=_flag("wraparound", wraparound),
            max_registers=_read_registers(max_registers),
            launch_bounds=_read_launch_bounds(launch_bounds),
        ),
        None if block is None else read_dim3(block, "block_dim"),
    )

    def decorate(function: Callable[P, R]) -> Kernel[P, R]:
        return Kernel(_plain(function, "kernel"), options)

    return decorate if function is None else decorate(function)


def func(function: Callable[P, R]) -> DeviceFunction[P, R]:
    """Make a device function of a Python function, for kernels to call.

    It is compiled into each kernel that calls it, for the types it is called with there. It may use
    every intrinsic, barriers included. Plain Python can call it as well.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.func
    ... def lerp(a, b, t):
    ...     return a + t * (b - a)
    >>> lerp(1.0, 3.0, 0.5)
    2.0
    """
    if isinstance(function, DeviceFunction):
        return function
    environment.configure_logging()
    return DeviceFunction(_plain(function, "func"))


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ArgumentTypeError(f"{name} is {value!r}", value=value, limit="It is True or False")


def _read_registers(value: Any) -> int | None:
    if value is None or (type(value) is int and 16 <= value <= 255):
        return value
    raise ArgumentValueError(
        f"max_registers is {value!r}", value=value, limit="It is an int from 16 to 255, or None"
    )


def _read_launch_bounds(value: Any) -> tuple[int] | tuple[int, int] | None:
    if value is None:
        return None
    bounds = value if isinstance(value, tuple) else (value,)
    if 1 <= len(bounds) <= 2 and all(type(n) is int and n > 0 for n in bounds):
        return bounds
    raise ArgumentValueError(
        f"launch_bounds is {value!r}",
        value=value,
        limit="It is an int, or two: threads of a block, and blocks on a multiprocessor",
    )
