"""Launches: a kernel with its shape, and with its arguments.

The first launches of a shape go through :mod:`kerneldsl.launch.dispatch`. Native code of
:mod:`kerneldsl.launch.native` takes over repeated launches. It calls these methods for every case
that it does not handle.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Never, NoReturn, ParamSpec, Protocol, SupportsIndex

from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.tunable import TunableLaunch
from kerneldsl.launch.native.vectorcall import callable_by_entry, set_entry
from kerneldsl.utilities.locks import no_fork
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.shown import Shown, ShownTuple
from kerneldsl.utilities.tracebacks import TranslatedError, shorten, shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceLike
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.request import Request
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.launch.timing import Timing
    from kerneldsl.planner.plan import LaunchPlan

    class _Kernel(Protocol):
        """Interface of a kernel that a launch uses."""

        __qualname__: str

        @property
        def _dispatcher(self) -> Dispatcher: ...


__all__ = ["BoundLaunch", "Launch", "make_launch"]

P = ParamSpec("P")

#: Launches of one shape through Python before the native launcher is made, which costs a tenth of a
#: second. Later, launches before one is prepared.
_LAUNCHES_BEFORE_NATIVE, _LAUNCHES_BEFORE_TABLE = 32, 2
#: Most tables of one shape, each for other kinds and devices of arguments.
_MAX_TABLES = 4
#: A sample takes a millisecond or more.
_MAX_SAMPLES = 100_000
#: Threads that prepare a native launch.
_preparing: set[int] = set()


class Launch(TunableLaunch, ProcessOwned, Shown, Generic[P]):
    """A kernel with the shape of its launch; call it with the arguments of the kernel.

    Made by ``kernel[grid, block]`` and ``kernel.forall(*extent)``. Type checkers compare the
    arguments with the parameters of the kernel: their number, their names, and their types if the
    kernel is annotated.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def scale(a, x):
    ...     x[kd.grid(1)] *= a
    >>> launch = scale.forall(3)
    >>> x = np.ones(3)
    >>> launch(2.0, x)
    >>> launch(3.0, x)
    >>> x
    array([6., 6., 6.])
    """

    __slots__ = ("_dispatcher", "_due", "_shape", "_slow_count", "_tables", "kernel")

    _send_instead = "Send the kernel, and give it its shape there"

    def __init__(self, kernel: _Kernel, shape: LaunchShape) -> None:
        self.kernel = kernel
        self._dispatcher = kernel._dispatcher
        self._shape = shape
        shape.tuning = getattr(kernel, "_tuning", None)
        #: Tables of the native launcher for this launch.
        self._tables: tuple[Any, ...] = ()
        #: Launches through Python, and after how many the native launcher is tried (again).
        self._slow_count = 0
        self._due = _LAUNCHES_BEFORE_TABLE if _is_native else _LAUNCHES_BEFORE_NATIVE

    def __getattr__(self, name: str) -> Any:
        """Return a part of the shape by a name that the class of the kernel has for it."""
        known = {} if name == "kernel" else getattr(type(self.kernel), "_names_of_shape", {})
        if name not in known:
            raise AttributeError(f"a launch has no attribute {name!r}", name=name, obj=self)
        found = getattr(self._shape, known[name])
        if not self._shape.is_repeatable:
            self._tables = ()
        return found

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle grid, block and shared memory; only kernels with numba.cuda's names permit it."""
        shape: Any = self._shape
        if not hasattr(type(self.kernel), "_names_of_shape") or shape.stream is not None:
            return super().__reduce_ex__(protocol)
        grid_dim, block_dim, shared_bytes = shape.pickled
        return operator.getitem, (self.kernel, (grid_dim, block_dim, None, shared_bytes))

    def __call__(self, *args: P.args, **named: P.kwargs) -> None:
        """Launch the kernel.

        Parameters
        ----------
        *args
            One for each parameter. Arrays are from NumPy, on a device, or from other libraries
            with DLPack or ``__cuda_array_interface__``. Numbers are bools, ints (as int64), floats
            (as float64), complex numbers and NumPy scalars. Tuples of those are accepted, too.
        **named
            The same, by the names of the parameters.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If an argument cannot be passed.
        ReadOnlyArrayError
            If an array that the kernel writes is read-only.
        DeviceMismatchError
            If the arrays are on different devices, or not on the device of an active
            ``with kd.use(…)``.
        LaunchConfigError
            If the device cannot run this shape.
        KernelTypingError, BarrierDivergenceError, CompileError
            If the kernel cannot be compiled for these arguments.
        DriverError
            If the device fails, and :class:`kerneldsl.fallback` does not permit the CPU.
        KernelFault
            In debug mode, if the kernel raised an exception.
        """
        try:
            self._launch(self._in_order(args, named) if named else args)
        except (KernelError, TranslatedError) as error:
            shorten(error)
            raise

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position."""
        return self._dispatcher.in_order(args, named) if named else args

    def _request(
        self, args: tuple[Any, ...], device: DeviceLike | None = None, arch: str | None = None
    ) -> Request:
        """Return the request of this launch, optionally for a given or a described device."""
        return self._dispatcher.request(self._shape, args, device, arch)

    def _launch(self, args: tuple[Any, ...]) -> None:
        """Launch through Python."""
        try:
            policy = self._shape.first_tuning()
            if policy is not None:
                self._tune_first(args, policy)
            self._dispatcher.launch(self._shape, args)
        except (ImportError, AttributeError, KernelError) as error:
            from kerneldsl.utilities.half_imported import refuse_half_imported

            refuse_half_imported(error, self.kernel.__qualname__)
            raise
        self._slow_count = count = self._slow_count + 1
        has_come_to_be_timed = False
        for table in self._tables:
            has_come_to_be_timed |= table.counter.refill()
        if count >= self._due and not has_come_to_be_timed:
            self._prepare(args)

    def _prepare(self, args: tuple[Any, ...]) -> None:
        """Let native code repeat the launch that was just made, if it can.

        A signal handler that launches in the middle of it does not begin it again.
        """
        me = get_ident()
        if me in _preparing:
            return
        _preparing.add(me)
        try:
            self._prepare_once(args)
        finally:
            _preparing.discard(me)

    def _prepare_once(self, args: tuple[Any, ...]) -> None:
        is_native = _install()
        from kerneldsl.launch.native import machine
        from kerneldsl.launch.native.prepare import prepare

        made = None
        if is_native:
            made = prepare(self._dispatcher, self._shape, args, machine.generation())
        # Preparation is tried ever less often if it fails, is repeated, or has too many kinds.
        self._due = 2 * self._slow_count
        if not is_native and machine.is_suspended():
            self._due = self._slow_count + _LAUNCHES_BEFORE_NATIVE
        if made is None:
            return
        made.counter.refill()
        known = self._tables
        others = tuple(table for table in known if table.key != made.key)
        self._tables = (made, *others)[:_MAX_TABLES]
        set_entry(self, machine.entry_address("launch"))
        if len(known) == len(others) < _MAX_TABLES:
            self._due = self._slow_count + 1

    @shorten_errors
    def bind(self, *args: P.args, **named: P.kwargs) -> BoundLaunch:
        """Prepare a launch with these arguments, for many calls.

        The kernel is compiled and loaded now. Arrays are passed by reference, as in any launch:
        each call uses their elements at that time.

        Parameters
        ----------
        *args, **named
            As for the launch. They are kept alive.

        Returns
        -------
        BoundLaunch
            Call it without arguments to launch.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError, LaunchConfigError
            As the launch raises them.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> x = np.ones(3)
        >>> bound = double.forall(3).bind(x)
        >>> for _ in range(4):
        ...     bound()
        >>> x
        array([16., 16., 16.])
        """
        given = self._in_order(args, named)
        self._dispatcher.find(self._shape, given, make=True)
        self._prepare(given)
        bound = _BoundLaunch(self, given)
        if self._tables:
            from kerneldsl.launch.native import machine

            set_entry(bound, machine.entry_address("bound"))
        return bound

    @shorten_errors
    def plan(
        self, *args: Any, device: DeviceLike | None = None, arch: str | None = None, **named: Any
    ) -> LaunchPlan:
        """Return the plan of this launch with its reasons; nothing is launched.

        Parameters
        ----------
        *args, **named
            As for the launch, or one signature such as ``"float32, float32[::1]"``. The arrays of a
            signature are assumed to be aligned and not to overlap.
        device : str, Device or DeviceInfo, optional
            Plan for this device instead of the one that the launch would run on.
        arch : str, optional
            Plan for an architecture such as ``"sm_90"`` without such a device. Its limits are
            known; its size and speed are assumed.

        Returns
        -------
        LaunchPlan
            Its method ``explain()`` shows the decisions.

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
        ((1000,), 'sm_90, H100 SXM5 (assumed)')
        """
        args = self._in_order(args, named)
        from kerneldsl.launch.describe import describe_plan

        return describe_plan(self._request(args, device, arch))

    @shorten_errors
    def plans(
        self, *args: Any, device: DeviceLike | None = None, arch: str | None = None, **named: Any
    ) -> tuple[LaunchPlan, ...]:
        """Return every legal plan of this launch, the best first.

        Each mapping is compiled. On the CPU there is one plan for each member of the kernel's
        space, or one plan for a kernel without a space.

        Parameters
        ----------
        *args, device, arch, **named
            As for :meth:`plan`.

        Returns
        -------
        tuple of LaunchPlan
            Pass one to a launch: ``kernel.forall(n, plan=plan)``.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> plans = double.forall(1000).plans("float32[::1]", arch="sm_90")
        >>> len(plans) > 1, plans[0].extent
        (True, (1000,))
        """
        args = self._in_order(args, named)
        from kerneldsl.launch.describe import describe_plans

        return ShownTuple(describe_plans(self._request(args, device, arch)))

    @shorten_errors
    def time(self, *args: Any, samples: int = 7, **named: Any) -> Timing:
        """Measure the time of this launch; the kernel runs many times over the same arguments.

        Parameters
        ----------
        *args, **named
            As for the launch.
        samples : int, optional
            Number of samples, up to 100,000.

        Returns
        -------
        Timing

        Raises
        ------
        ArgumentValueError
            If `samples` is not an int in that range.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def negate(x):
        ...     x[kd.grid(1)] *= -1
        >>> timing = negate.forall(1000).time(np.ones(1000), samples=3)
        >>> timing.min_ns <= timing.median_ns
        True
        """
        from kerneldsl.launch.timing import measure
        from kerneldsl.streams.current import refuse_waiting

        if not isinstance(samples, int) or not 1 <= samples <= _MAX_SAMPLES:
            raise wrong_value("samples", samples, f"It must be an int, 1 to {_MAX_SAMPLES}")
        refuse_waiting()
        args = self._in_order(args, named)
        _, _, device = self._dispatcher.identity(self._shape, args)
        return measure(
            lambda: self._dispatcher.launch(self._shape, args),
            device.synchronize,
            samples=samples,
            device=f"{device} ({device.name})",
            includes="the Python call, the launch, the kernel"
            + ("" if device.shares_host_memory else ", and the copies of NumPy arguments"),
        )

    def __repr__(self) -> str:
        shape = self._shape
        name = self.kernel.__qualname__
        if shape.extent is not None:
            source = "" if shape.space is None else ", from its space"
            return f"<launch of {name} over {shape.extent}{source}>"
        return f"<launch of {name} with grid {shape.grid_dim}, block {shape.block_dim}>"


class BoundLaunch(ProcessOwned, Shown):
    """A launch with its arguments; call it without any.

    Made by :meth:`Launch.bind`.

    Attributes
    ----------
    launch : Launch
        The kernel and its shape.
    args : tuple
        The arguments, kept alive.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> bound = double.forall(3).bind(np.ones(3))
    >>> bound()
    >>> bound.args[0]
    array([2., 2., 2.])
    """

    __slots__ = ("args", "launch")

    _send_instead = "Send the kernel and the arguments, and bind them there"

    def __init__(self, launch: Launch[Any], args: tuple[Any, ...]) -> None:
        self.launch = launch
        self.args = args

    def __call__(self, *more: Never, **named: Never) -> None:
        """Launch the kernel, and raise as the launch does. More arguments are an error."""
        try:
            if more or named:
                _refuse_more(self, more, named)
            self.launch(*self.args)
        except KernelError as error:
            shorten(error)
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundLaunch:
        """Return a launch with copies of the arguments."""
        return self.launch.bind(*copy.deepcopy(self.args, memo))

    def __repr__(self) -> str:
        return f"<prepared {self.launch!r}>".replace("<prepared <", "<prepared ", 1)[:-1]


def _refuse_more(bound: BoundLaunch, more: Sequence[Any], named: Mapping[str, Any]) -> NoReturn:
    given = [*map(safe_repr, more), *(f"{name}={safe_repr(each)}" for name, each in named.items())]
    raise ArgumentTypeError(
        f"{bound!r} was called with ({', '.join(given)})",
        value=given,
        limit="It has its arguments, and is called without any",
        remedy="Write bound(); for other arguments, launch(…) itself, or launch.bind(…) again",
    )


# Classes made of both: native code takes the calls of an instance once it has an entry.
_Launch = callable_by_entry(Launch, "launch", launch_tables="_tables")
_BoundLaunch = callable_by_entry(BoundLaunch, "bound", bound_launch="launch", bound_args="args")


def make_launch(kernel: _Kernel, shape: LaunchShape) -> Launch[Any]:
    """Make a launch that native code may take over."""
    return _Launch(kernel, shape)


_is_native = False


def _install() -> bool:
    """Make the native code if the platform supports it; not while a profile is active."""
    global _is_native  # noqa: PLW0603 -- one for the process
    if not _is_native:
        with no_fork:  # a child would wait for the import for ever, and find LLVM half-way
            import kerneldsl.launch.native.prepare  # noqa: F401 -- with all that it imports
            from kerneldsl.launch.native.machine import install, is_suspended

            _is_native = not is_suspended() and install()
    return _is_native
