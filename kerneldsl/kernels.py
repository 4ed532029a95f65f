"""The objects that stand in the place of decorated functions: kernels and device functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from kerneldsl.errors import (
    ArgumentValueError,
    LaunchConfigError,
)
from kerneldsl.inspection import InspectionMixin
from kerneldsl.language.kinds import Kind
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.runtime.dispatch import Dispatcher, LaunchShape
from kerneldsl.runtime.launch import read_dim3, read_extent, read_shared_bytes, read_stream
from kerneldsl.runtime.state import SpecializationInfo
from kerneldsl.runtime.streams import refuse_waiting
from kerneldsl.runtime.together import ALONE, Together, read_together
from kerneldsl.target import CompileOptions, DeviceLike, Dim3
from kerneldsl.timing import Timing, measure

__all__ = ["DeviceFunction", "Kernel", "KernelOptions", "Launch"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """What ``@kd.kernel(...)`` was given; see :func:`kerneldsl.kernel`."""

    signature: tuple[Kind, ...] | None = None
    compile: CompileOptions = field(default_factory=CompileOptions)
    block: Dim3 | None = None
    together: Together = ALONE


class Launch:
    """A kernel with the shape of its launch: call it with the kernel's arguments.

    Made by ``kernel[grid, block]`` and ``kernel.forall(*extent)``.
    """

    __slots__ = ("_dispatcher", "_shape", "kernel")

    def __init__(self, kernel: Kernel[..., Any], shape: LaunchShape) -> None:
        self.kernel = kernel
        self._dispatcher = kernel._dispatcher
        self._shape = shape

    def __call__(self, *args: Any, **named: Any) -> None:
        """Launch the kernel.

        Parameters
        ----------
        *args
            One for each parameter: NumPy arrays, device arrays, arrays of other libraries with
            DLPack or ``__cuda_array_interface__``, bools, ints (as int64), floats (as float64),
            complex numbers, NumPy scalars, and tuples of those.
        **named
            The same by the names of the parameters.

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
        DriverError
            If the device cannot run it, and :class:`kerneldsl.fallback` lets no CPU take over.
        KernelFault
            In debug mode, if the kernel raised.
        """
        if named:
            args = self._dispatcher.in_order(args, named)
        self._dispatcher.launch(self._shape, args)

    def plan(
        self, *args: Any, device: DeviceLike | None = None, arch: str | None = None, **named: Any
    ) -> LaunchPlan:
        """Say how this launch would run, and why; nothing is launched.

        Parameters
        ----------
        *args, **named
            As for the launch; or one signature such as ``"float32, float32[::1]"``, whose arrays
            are taken to be aligned and apart from each other.
        device : str, Device or DeviceInfo, optional
            Plan for another device than the one that the launch would run on.
        arch : str, optional
            Plan for an architecture such as ``"sm_90"``, of which no device is there: its limits
            are known, its size and speed are assumed.

        Returns
        -------
        LaunchPlan
            With ``explain()``.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError, LaunchConfigError, ResourceLimitError
            As the launch raises them.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> plan = double.forall(1000).plan("float32[::1]", arch="sm_90")
        >>> plan.extent, plan.device
        ((1000,), 'sm_90')
        """
        if named:
            args = self._dispatcher.in_order(args, named)
        return self._dispatcher.plan(self._shape, args, device, arch)

    def plans(self, *args: Any, **named: Any) -> tuple[LaunchPlan, ...]:
        """Every legal plan of this launch, the best first; each mapping is compiled.

        Parameters
        ----------
        *args, **named
            As for :meth:`plan`.

        Returns
        -------
        tuple of LaunchPlan
            Each can be given to a launch: ``kernel.forall(n, plan=plan)``.
        """
        if named:
            args = self._dispatcher.in_order(args, named)
        return self._dispatcher.plans(self._shape, args)

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
        refuse_waiting()
        place = self._dispatcher.place(args, self._shape.place)
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
    """A function that runs on a device, once for each thread. Made by :func:`kerneldsl.kernel`.

    Launch it with ``kernel.forall(n)(…)`` or ``kernel[grid, block](…)``.

    Attributes
    ----------
    function : callable
        The Python function.
    options : KernelOptions
        What the decorator was given.
    """

    __kerneldsl_kernel__ = True

    def __init__(
        self,
        function: Callable[P, R],
        options: KernelOptions,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self._block = options.block
        self._dispatcher = Dispatcher(function, options.compile, options.signature, constants)
        self.__qualname__: str

    # ------------------------------------------------------------------ launching

    def __getitem__(self, config: Any) -> Launch:
        """Give the kernel its shape: ``kernel[grid, block, stream, shared_bytes]``.

        Parameters
        ----------
        config : tuple
            Grid in blocks and block in threads, each an int or a tuple of 1 to 3 (x first), then
            optionally a stream (a `kerneldsl.Stream`, another library's, or a handle; ``None``: the
            current one) and the dynamic shared memory of a block in bytes.

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
                together=self.options.together,
            ),
        )

    def forall(
        self,
        *extent: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        cluster: int | tuple[int, ...] | None = None,
        cooperative: bool = False,
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
        plan : LaunchPlan, optional
            Launch as this plan says: its block, items and vector are taken, whatever the extent.
            By default the planner decides; see :meth:`Launch.plan`.
        cluster : int or tuple of int, optional
            Blocks of a cluster, which run at once on neighbouring multiprocessors; the grid is
            rounded up to whole ones. By default the decorator's.
        cooperative : bool, optional
            All blocks run at once, or the launch is an error. By default the decorator's.

        Raises
        ------
        LaunchConfigError
            If the extent or the block is not that.
        """
        if plan is not None:
            block, shared_bytes = self._given(plan, block, shared_bytes)
        return Launch(
            self,
            LaunchShape(
                None,
                self._block if block is None else read_dim3(block, "block_dim"),
                read_extent(extent),
                read_stream(stream),
                read_shared_bytes(shared_bytes),
                plan,
                together=self._together(cluster, cooperative),
            ),
        )

    def _together(self, cluster: Any, cooperative: Any) -> Together:
        if cluster is None and cooperative is False:
            return self.options.together
        return read_together(cluster, cooperative)

    def _given(
        self, plan: LaunchPlan, block: Any, shared_bytes: int
    ) -> tuple[int | tuple[int, ...], int]:
        """Block and shared memory of a plan that is given."""
        if not isinstance(plan, LaunchPlan):
            raise LaunchConfigError(
                f"plan is a {type(plan).__name__}",
                value=plan,
                limit="It is a LaunchPlan, as kernel.forall(…).plan(…) gives it",
            )
        if block is not None:
            raise LaunchConfigError(
                f"forall was given a plan and block={block!r}",
                value=block,
                limit="A plan says what the block is",
                remedy="Leave one of them out, or change the plan: dataclasses.replace(plan, "
                "block_dim=…)",
            )
        return plan.block_dim, shared_bytes or plan.shared_bytes

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
    """A function that kernels call. Made by :func:`kerneldsl.func`; plain Python can call it, too.

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
