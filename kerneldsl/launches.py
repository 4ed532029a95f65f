"""Launches: a kernel with its shape, and with its arguments; and how a kernel is given a shape.

What is called for every launch stands here together: the first launches of a shape go through
:mod:`kerneldsl.launch.dispatch`; when one is repeated, :mod:`kerneldsl.launcher` puts native code
in the place of these methods, which comes back to them for whatever it does not know.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.launch.dimensions import read_dim3, read_extent, read_shared_bytes, read_stream
from kerneldsl.launch.together import ALONE, Together, read_together
from kerneldsl.launcher.vectorcall import callable_by_entry, set_entry
from kerneldsl.locks import no_fork
from kerneldsl.runtime.own import ProcessOwned

if TYPE_CHECKING:
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.request import Request
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.target import DeviceLike, Dim3
    from kerneldsl.timing import Timing

__all__ = ["BoundLaunch", "Launch", "LaunchMixin", "are_plain", "make_launch", "remember"]

T = TypeVar("T")

#: After so many launches of one shape by way of Python the native launcher is made, which costs
#: a tenth of a second; once it is there, a launch is prepared when it is repeated.
_LAUNCHES_BEFORE_NATIVE, _LAUNCHES_BEFORE_TABLE = 32, 2
#: Kinds of arguments and places of one shape that the native launcher knows at the same time.
_MAX_TABLES = 4
#: A sample takes a millisecond or more.
_MAX_SAMPLES = 100_000
#: Shapes of one kernel, and whatever is found by shapes, that are remembered.
_MAX_SHAPES = 256


class Launch(ProcessOwned):
    """A kernel with the shape of its launch: call it with the kernel's arguments.

    Made by ``kernel[grid, block]`` and ``kernel.forall(*extent)``.
    """

    __slots__ = ("_asked_by", "_dispatcher", "_due", "_shape", "_slow_count", "_tables", "kernel")

    _send_instead = "Send the kernel, and give it its shape there"

    def __init__(self, kernel: LaunchMixin, shape: LaunchShape) -> None:
        #: What a kernel remembers it by.
        self._asked_by: Any = None
        self.kernel = kernel
        self._dispatcher = kernel._dispatcher
        self._shape = shape
        #: What the native launcher knows of this launch.
        self._tables: tuple[Any, ...] = ()
        #: Launches by way of Python, and after how many the native launcher is tried (again).
        self._slow_count = 0
        self._due = _first_due()

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
        self._launch(self._in_order(args, named) if named else args)

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._dispatcher.in_order(args, named) if named else args

    def _request(
        self, args: tuple[Any, ...], device: DeviceLike | None = None, arch: str | None = None
    ) -> Request:
        """What this launch is made of; on a device that is named or described, where one is."""
        return self._dispatcher.request(self._shape, args, device, arch)

    def _launch(self, args: tuple[Any, ...]) -> None:
        """Launch by way of Python."""
        self._dispatcher.launch(self._shape, args)
        self._slow_count = count = self._slow_count + 1
        has_come_to_be_timed = False
        for table in self._tables:
            has_come_to_be_timed |= table.tally.refill()
        if count >= self._due and not has_come_to_be_timed:
            self._prepare(args)

    def _prepare(self, args: tuple[Any, ...]) -> None:
        """Let native code repeat the launch that was just made, if it can."""
        is_native = _install()
        from kerneldsl.launcher import machine
        from kerneldsl.launcher.prepare import prepare

        made = None
        if is_native:
            made = prepare(self._dispatcher, self._shape, args, machine.generation())
        # What is prepared in vain, again and again, or for too many kinds is tried ever less often.
        self._due = 2 * self._slow_count
        if made is None:
            return
        made.tally.refill()
        known = self._tables
        others = tuple(table for table in known if table.key != made.key)
        self._tables = (made, *others)[:_MAX_TABLES]
        set_entry(self, machine.entry_address("launch"))
        if len(known) == len(others) < _MAX_TABLES:
            self._due = self._slow_count + 1

    def bind(self, *args: Any, **named: Any) -> BoundLaunch:
        """Prepare a launch with these arguments, to be made many times.

        The kernel is compiled and loaded now. Arrays are passed by reference, as in any launch:
        each launch sees what is in them then.

        Parameters
        ----------
        *args, **named
            As for the launch. They are kept alive.

        Returns
        -------
        BoundLaunch
            Launches when it is called.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError, LaunchConfigError
            As the launch raises them.
        """
        args = self._in_order(args, named)
        self._dispatcher.find(self._shape, args, make=True)
        self._prepare(args)
        bound = _BoundLaunch(self, args)
        if self._tables:
            from kerneldsl.launcher import machine

            set_entry(bound, machine.entry_address("bound"))
        return bound

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
        ((1000,), 'sm_90, H100 SXM5 (described)')
        """
        args = self._in_order(args, named)
        from kerneldsl.launch.describe import describe_plan

        return describe_plan(self._request(args, device, arch))

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
        args = self._in_order(args, named)
        from kerneldsl.launch.describe import describe_plans

        return describe_plans(self._request(args))

    def time(self, *args: Any, samples: int = 7) -> Timing:
        """Measure the time of this launch; the kernel runs many times over the same arguments.

        Parameters
        ----------
        *args
            As for the launch.
        samples : int, optional
            How many samples to take, up to 100,000.

        Returns
        -------
        Timing
        """
        from kerneldsl.runtime.streams.current import refuse_waiting
        from kerneldsl.timing import measure

        if not isinstance(samples, int) or not 1 <= samples <= _MAX_SAMPLES:
            raise ArgumentValueError(
                f"samples is {samples!r}", value=samples, limit=f"It is an int, 1 to {_MAX_SAMPLES}"
            )
        refuse_waiting()
        _, _, place = self._dispatcher.identity(self._shape, args)
        return measure(
            lambda: self._dispatcher.launch(self._shape, args),
            place.synchronize,
            samples=samples,
            device=f"{place} ({place.name})",
            includes="the Python call, the launch, the kernel"
            + ("" if place.is_host else ", and the copies of NumPy arguments"),
        )

    def __repr__(self) -> str:
        shape = self._shape
        name = self.kernel.__qualname__
        if shape.extent is not None:
            source = "" if shape.space is None else ", from its space"
            return f"<launch of {name} over {shape.extent}{source}>"
        return f"<launch of {name} with grid {shape.grid_dim}, block {shape.block_dim}>"


class BoundLaunch(ProcessOwned):
    """A launch with its arguments: call it without any. Made by :meth:`Launch.bind`.

    Attributes
    ----------
    launch : Launch
        The kernel and its shape.
    args : tuple
        The arguments, kept alive.
    """

    __slots__ = ("args", "launch")

    _send_instead = "Send the kernel and the arguments, and bind them there"

    def __init__(self, launch: Launch, args: tuple[Any, ...]) -> None:
        self.launch = launch
        self.args = args

    def __call__(self) -> None:
        """Launch the kernel; raises what the launch raises."""
        self.launch(*self.args)

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundLaunch:
        """A launch with copies of the arguments."""
        return self.launch.bind(*copy.deepcopy(self.args, memo))

    def __repr__(self) -> str:
        return f"<prepared {self.launch!r}>".replace("<prepared <", "<prepared ", 1)[:-1]


# What is made of both: native code takes the calls of an instance once it has an entry.
_Launch = callable_by_entry(Launch)
_BoundLaunch = callable_by_entry(BoundLaunch)


def make_launch(kernel: LaunchMixin, shape: LaunchShape) -> Launch:
    """A launch that native code may take over."""
    return _Launch(kernel, shape)


class LaunchMixin:
    """How a kernel is given its shape: ``kernel[grid, block]`` and ``kernel.forall(*extent)``.

    Launches are remembered by their shapes, so that giving a kernel the same shape again costs
    little, and what is known of a launch is found again.
    """

    # The native code finds both dictionaries at fixed offsets, and writes down the launch that it
    # found last in each: with the very same objects it is taken again without a look.
    __slots__ = ("_extents", "_grids", "_last_extent", "_last_grid")

    __qualname__: str
    if TYPE_CHECKING:

        @property
        def _dispatcher(self) -> Dispatcher: ...

    _block: Dim3 | None
    _run_together: Together

    def _remember_launches(self) -> None:
        self._extents: dict[Any, Launch] = {}
        self._grids: dict[Any, Launch] = {}
        self._last_extent: Launch | None = None
        self._last_grid: Launch | None = None

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
        is_plain = stream is None and are_plain(grid, block, shared_bytes)
        if is_plain and (found := self._grids.get(config)) is not None:
            return found
        from kerneldsl.launch.shape import LaunchShape

        launch = make_launch(
            self,
            LaunchShape(
                read_dim3(grid, "grid_dim"),
                read_dim3(block, "block_dim"),
                None,
                read_stream(stream),
                read_shared_bytes(shared_bytes),
                together=self._run_together,
            ),
        )
        if is_plain:
            remember_launch(self._grids, config, launch)
        return launch

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
        key: Any = None
        if plan is not None:
            _check_plan(plan, block)
        together = self._together(cluster, cooperative, plan)
        if (
            plan is None
            and together is self._run_together
            and stream is None
            and are_plain(extent, block or 1, shared_bytes)
        ):
            # One extent alone is what the native code looks up.
            is_alone = len(extent) == 1 and block is None and shared_bytes == 0
            key = extent[0] if is_alone else (extent, block, shared_bytes)
            if (found := self._extents.get(key)) is not None:
                return found
        shape = self._over(extent, block, stream, shared_bytes, plan, together)
        launch = make_launch(self, shape)
        if key is not None:
            remember_launch(self._extents, key, launch)
        return launch

    def _over(
        self,
        extent: tuple[Any, ...],
        block: Any,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        together: Together = ALONE,
    ) -> LaunchShape:
        """Read the shape of a launch over an extent."""
        from kerneldsl.launch.shape import LaunchShape

        if plan is not None:
            block, shared_bytes = plan.block_dim, shared_bytes or plan.shared_bytes
        return LaunchShape(
            None,
            self._block if block is None else read_dim3(block, "block_dim"),
            read_extent(extent),
            read_stream(stream),
            read_shared_bytes(shared_bytes),
            plan,
            together=together,
        )

    def _together(self, cluster: Any, cooperative: Any, plan: LaunchPlan | None) -> Together:
        """Which blocks run at the same time: as the launch says, the plan, or the decorator."""
        if cluster is not None or cooperative is not False:
            return read_together(cluster, cooperative)
        if plan is not None and (plan.cluster_dim or plan.is_cooperative):
            return read_together(plan.cluster_dim, plan.is_cooperative)
        return self._run_together


def _check_plan(plan: Any, block: Any) -> None:
    """Refuse what is no plan, and a block beside one."""
    from kerneldsl.planner.plan import LaunchPlan

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


def are_plain(*values: Any) -> bool:
    """Whether all are ints or tuples of ints, so that equal ones mean the same; True is no int."""
    for value in values:
        if type(value) is not int and not (
            type(value) is tuple and all(type(item) is int for item in value)
        ):
            return False
    return True


def remember_launch(known: dict[Any, Launch], key: Any, launch: Launch) -> None:
    """Let a kernel find a launch again by what it was asked for with."""
    launch._asked_by = key
    remember(known, key, launch)


def remember(known: dict[Any, T], key: Any, value: T) -> None:
    """Put something into a dictionary of a kernel, which begins anew when there is too much."""
    if len(known) >= _MAX_SHAPES:
        known.clear()
    known[key] = value


_is_native = False


def _first_due() -> int:
    return _LAUNCHES_BEFORE_TABLE if _is_native else _LAUNCHES_BEFORE_NATIVE


def _install() -> bool:
    """Put the native forms of the methods in their places, where that can be done."""
    global _is_native  # noqa: PLW0603 -- one for the process
    if _is_native:
        return True
    with no_fork:  # a child would wait for the import for ever, and find LLVM half-way
        import kerneldsl.launcher.prepare  # noqa: F401 -- with all that it imports
        from kerneldsl.launcher.machine import Entry, Method, install

        _is_native = install(
            (
                Method(LaunchMixin, "forall", "forall"),
                Method(LaunchMixin, "__getitem__", "getitem", takes_one=True),
            ),
            (Entry(_Launch, "launch"), Entry(_BoundLaunch, "bound")),
            {
                "launch_tables": (Launch, "_tables", _Launch.__new__(_Launch)),
                "bound_launch": (BoundLaunch, "launch", _BoundLaunch.__new__(_BoundLaunch)),
                "bound_args": (BoundLaunch, "args", _BoundLaunch.__new__(_BoundLaunch)),
                "kernel_extents": (LaunchMixin, "_extents", LaunchMixin()),
                "kernel_grids": (LaunchMixin, "_grids", LaunchMixin()),
                "last_extent": (LaunchMixin, "_last_extent", LaunchMixin()),
                "last_grid": (LaunchMixin, "_last_grid", LaunchMixin()),
                "launch_asked_by": (Launch, "_asked_by", _Launch.__new__(_Launch)),
            },
        )
    return _is_native
