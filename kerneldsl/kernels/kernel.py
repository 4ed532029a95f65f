"""Kernels and device functions: the objects that replace decorated functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never, ParamSpec, TypeVar

from kerneldsl.contract import CompileOptions
from kerneldsl.errors import KernelError, LaunchConfigError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.kernels.inspection import InspectionMixin
from kerneldsl.kernels.launches import make_launch
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes, read_attributes
from kerneldsl.launch.dimensions import read_dim3, read_extent, read_shared_bytes, read_stream
from kerneldsl.launch.native.vectorcall import native_methods
from kerneldsl.utilities.locks import ForkSafeLock, no_fork
from kerneldsl.utilities.process_owned import CopiedAsItself, public_names
from kerneldsl.utilities.shown import LikeFunction, Shown, ShownTuple
from kerneldsl.utilities.tracebacks import shorten, shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract import Artifact, Dim3
    from kerneldsl.frontend.linked_code import LinkedCode
    from kerneldsl.kernels.launches import Launch
    from kerneldsl.language.kinds import Kind
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.launch.specialization_info import SpecializationInfo
    from kerneldsl.launch.state import Definition
    from kerneldsl.launch.timing import Timing
    from kerneldsl.launch.tuning_policy import TuningPolicy
    from kerneldsl.planner.plan import LaunchPlan

__all__ = ["DeviceFunction", "Kernel", "KernelOptions"]

P = ParamSpec("P")
R = TypeVar("R")

#: What the command line uses of a kernel; interpreters complete other names alone.
_INTERNAL = frozenset({"artifact", "launched", "specialization"})
#: Shapes of one kernel that are remembered.
_MAX_SHAPES = 256

#: Held while a kernel is given its dispatcher.
_first_dispatcher = ForkSafeLock()


class KernelOptions(NamedTuple):
    """Options of ``@kd.kernel(...)``; see :func:`kerneldsl.kernel`."""

    signatures: tuple[tuple[Kind, ...], ...] = ()
    compile: CompileOptions = CompileOptions()
    block: Dim3 | None = None
    launch_attributes: LaunchAttributes = NO_ATTRIBUTES


class LaunchMixin(Generic[P]):
    """Make launches of a kernel: ``kernel[grid, block]`` and ``kernel.forall(*extent)``.

    Launches are cached by their shapes. Another launch of the same shape is cheap, and keeps what
    is known of the earlier ones.
    """

    # Native code finds both dictionaries at fixed offsets. It stores the launch that it found last
    # in each, and the objects of that request; the same objects get the launch without a look-up.
    # No other code writes these slots, since they must be consistent with each other.
    __slots__ = (
        "_extents",
        "_grids",
        "_last_block_dim",
        "_last_extent",
        "_last_extent_key",
        "_last_grid",
        "_last_grid_dim",
    )

    __qualname__: str
    if TYPE_CHECKING:

        @property
        def _dispatcher(self) -> Dispatcher: ...

    _block: Dim3 | None
    _launch_attributes: LaunchAttributes

    def _remember_launches(self) -> None:
        self._extents: dict[Any, Launch[P]] = {}
        self._grids: dict[Any, Launch[P]] = {}
        # No caller has this object.
        self._last_extent_key = self._last_grid_dim = self._last_block_dim = object()
        self._last_extent = self._last_grid = None

    def __getitem__(self, config: Any) -> Launch[P]:
        """Configure a launch: ``kernel[grid, block, stream, shared_bytes]``.

        Parameters
        ----------
        config : tuple
            The grid in blocks and the block in threads, each an int or a tuple of 1 to 3 ints (x
            first). A stream may follow: a `kerneldsl.Stream`, a stream of another library, a
            handle, or ``None`` for the current stream. Last comes the dynamic shared memory of a
            block, in bytes.

        Returns
        -------
        Launch
            Call it with the arguments of the kernel.

        Raises
        ------
        LaunchConfigError
            If the configuration has another form.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     i = kd.grid(1)
        ...     if i < x.size:
        ...         x[i] *= 2
        >>> x = np.arange(5.0)
        >>> double[2, 4](x)
        >>> x
        array([0., 2., 4., 6., 8.])
        """
        try:
            if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
                raise LaunchConfigError(
                    f"invalid launch configuration {self.__qualname__}[{safe_repr(config)}]",
                    value=config,
                    limit="The form is kernel[grid, block], kernel[grid, block, stream] or "
                    "kernel[grid, block, stream, shared_bytes]",
                    remedy="To let kerneldsl choose the block, write kernel.forall(n)(…)",
                )
            grid, block = config[:2]
            stream = config[2] if len(config) > 2 else None
            shared_bytes = config[3] if len(config) > 3 else 0
            is_plain = stream is None and _are_plain(grid, block, shared_bytes)
            if is_plain and (found := self._grids.get(config)) is not None:
                return found
            shape = self._read_grid(grid, block, stream, shared_bytes)
            return self._make_launch(shape, self._grids, config if is_plain else None)
        except KernelError as error:
            shorten(error)
            raise

    def forall(
        self,
        *extent: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        cluster: int | tuple[int, ...] | None = None,
        cooperative: bool = False,
        **unknown: Never,
    ) -> Launch[P]:
        """Configure a launch that runs the kernel once for each index of an extent.

        In the kernel, ``kd.grid(n)`` returns the index. The grid and, by default, the block are
        chosen for you.

        Parameters
        ----------
        *extent : int
            One to three extents, or one tuple of them, such as ``forall(*image.shape)``. An extent
            of 0 launches nothing.
        block : int or tuple of int, optional
            The block, x first. By default it is the block of the decorator, or else the target
            chooses one. A kernel that uses its block (shared memory, barriers) needs one. Its grid
            is rounded up, and threads beyond the extent run as well: guard them in the kernel. The
            x axis of the block is the first axis of the extent: in ``forall(rows, columns)``,
            ``threadIdx.x`` counts rows.
        stream : optional
            As in ``kernel[grid, block, stream]``.
        shared_bytes : int, optional
            Dynamic shared memory of a block, in bytes.
        plan : LaunchPlan, optional
            Use the block, items and vector width of this plan for any extent. By default the
            planner decides; see :meth:`Launch.plan`.
        cluster : int or tuple of int, optional
            Blocks of a cluster, which run at once on neighbouring multiprocessors. The grid is
            rounded up to whole clusters. By default the decorator's.
        cooperative : bool, optional
            Run all blocks at once, or raise. By default the decorator's.

        Returns
        -------
        Launch
            Call it with the arguments of the kernel.

        Raises
        ------
        LaunchConfigError
            If the extent, the block or another option has an invalid value.
        ArgumentTypeError
            If there is no such option.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def add_indices(x):
        ...     row, column = kd.grid(2)
        ...     x[row, column] += 10 * row + column
        >>> x = np.zeros((2, 3), np.int64)
        >>> add_indices.forall(*x.shape)(x)
        >>> x
        array([[ 0,  1,  2],
               [10, 11, 12]])
        """
        try:
            if unknown:
                from kerneldsl.kernels.unknown_options import refuse_option

                refuse_option(f"{self.__qualname__}.forall", LaunchMixin.forall, unknown)
            key: Any = None
            if plan is not None:
                _check_plan(plan, block)
            launch_attributes = self._attributes_for(cluster, cooperative, plan)
            if (
                plan is None
                and launch_attributes is self._launch_attributes
                and stream is None
                and _are_plain(extent, 1 if block is None else block, shared_bytes)
            ):
                # One extent alone is what the native code looks up.
                is_alone = len(extent) == 1 and block is None and shared_bytes == 0
                key = extent[0] if is_alone else (extent, block, shared_bytes)
                if (found := self._extents.get(key)) is not None:
                    return found
            shape = self._read_shape(extent, block, stream, shared_bytes, plan, launch_attributes)
            return self._make_launch(shape, self._extents, key)
        except KernelError as error:
            shorten(error)
            raise

    def _make_launch(self, shape: LaunchShape, known: dict[Any, Launch[P]], key: Any) -> Launch[P]:
        """Make a launch, and remember it under its key unless that is ``None``."""
        return self._remember(make_launch(self, shape), known, key)

    @staticmethod
    def _remember(launch: Launch[P], known: dict[Any, Launch[P]], key: Any) -> Launch[P]:
        if key is not None:
            if len(known) >= _MAX_SHAPES:
                known.clear()
            known[key] = launch
        return launch

    def _shape_class(self) -> type[LaunchShape]:
        try:
            from kerneldsl.launch.shape import LaunchShape
        except ImportError as error:
            from kerneldsl.utilities.half_imported import refuse_half_imported

            refuse_half_imported(error, self.__qualname__)
            raise
        return LaunchShape

    def _read_grid(self, grid: Any, block: Any, stream: Any, shared_bytes: Any) -> LaunchShape:
        """Read the shape of a launch of grid and block."""
        return self._shape_class()(
            read_dim3(grid, "grid_dim"),
            read_dim3(block, "block_dim"),
            None,
            read_stream(stream),
            read_shared_bytes(shared_bytes),
            launch_attributes=self._launch_attributes,
        )

    def _read_shape(
        self,
        extent: tuple[Any, ...],
        block: Any,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        launch_attributes: LaunchAttributes = NO_ATTRIBUTES,
    ) -> LaunchShape:
        """Read the shape of a launch over an extent."""
        shape_class = self._shape_class()
        if plan is not None:
            block, shared_bytes = plan.block_dim, shared_bytes or plan.shared_bytes
        return shape_class(
            None,
            self._block if block is None else read_dim3(block, "block_dim"),
            read_extent(extent),
            read_stream(stream),
            read_shared_bytes(shared_bytes),
            plan,
            launch_attributes=launch_attributes,
        )

    def _attributes_for(
        self, cluster: Any, cooperative: Any, plan: LaunchPlan | None
    ) -> LaunchAttributes:
        """Return the launch attributes: the launch's own, the plan's, or the decorator's."""
        if cluster is not None or cooperative is not False:
            return read_attributes(cluster, cooperative)
        if plan is not None and (plan.cluster_dim or plan.is_cooperative):
            return read_attributes(plan.cluster_dim, plan.is_cooperative)
        return self._launch_attributes


@native_methods(
    {"forall": "forall", "__getitem__": "getitem"},
    kernel_extents="_extents",
    kernel_grids="_grids",
    last_extent="_last_extent",
    last_extent_key="_last_extent_key",
    last_grid="_last_grid",
    last_grid_dim="_last_grid_dim",
    last_block_dim="_last_block_dim",
)
class _NativeForms(LaunchMixin[P]):
    """Native forms of these methods, once there are some: the methods stay what they are."""

    __slots__ = ()


def _check_plan(plan: Any, block: Any) -> None:
    """Refuse what is no plan, and a block beside one."""
    from kerneldsl.planner.plan import LaunchPlan

    if not isinstance(plan, LaunchPlan):
        raise LaunchConfigError(
            f"plan is {a_type(plan)}",
            value=plan,
            limit="It must be a LaunchPlan, as kernel.forall(…).plan(…) gives it",
        )
    if block is not None:
        raise LaunchConfigError(
            f"forall was given a plan and block={safe_repr(block)}",
            value=block,
            limit="A plan determines the block",
            remedy="Leave one of them out, or change the plan: dataclasses.replace(plan, "
            "block_dim=…)",
        )


def _are_plain(*values: Any) -> bool:
    """Return whether all are ints or tuples of ints, so that equal ones mean the same."""
    for value in values:
        if type(value) is not int and not (
            type(value) is tuple and all(type(item) is int for item in value)
        ):
            return False
    return True


class Kernel(_NativeForms[P], InspectionMixin, LikeFunction, CopiedAsItself, Shown, Generic[P, R]):
    """A function that runs on a device, once for each thread.

    Made by :func:`kerneldsl.kernel`. Launch it with ``kernel.forall(n)(…)`` or
    ``kernel[grid, block](…)``.

    Attributes
    ----------
    function : callable
        The Python function.
    options : KernelOptions
        The options of the decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def negate(x):
    ...     x[kd.grid(1)] *= -1
    >>> x = np.array([1.0, -2.0])
    >>> negate.forall(x.size)(x)
    >>> x
    array([-1.,  2.])
    """

    __kerneldsl_kernel__ = True
    _made_dispatcher: Dispatcher | None = None
    #: The tuning policy of this kernel, if it has one.
    _tuning: TuningPolicy | None = None

    def __init__(
        self,
        function: Callable[P, R],
        options: KernelOptions,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        wrapper: Any = self
        functools.update_wrapper(wrapper, function, updated=())
        if attributes := _attributes_of(function):
            # Only then: CPython finds methods faster on an object without a __dict__.
            self.__dict__.update(attributes)
        self.function = function
        self.options = options
        self._block = options.block
        self._launch_attributes = options.launch_attributes
        self._remember_launches()
        self._constant_values = constants
        self._made_dispatcher = None
        self.__qualname__: str

    @property
    def _dispatcher(self) -> Dispatcher:
        """The dispatcher of the kernel, made at the first use and shared by all threads."""
        found = self._made_dispatcher
        if found is None:
            # Decorating a function imports as little of kerneldsl as it can.
            with no_fork:  # a child would wait for the import for ever
                try:
                    make = self._dispatcher_class()
                    from kerneldsl.launch.state import Definition
                except ImportError as error:
                    from kerneldsl.utilities.half_imported import refuse_half_imported

                    refuse_half_imported(error, self.__qualname__)
                    raise

            made = make(self._define(Definition))
            with _first_dispatcher:
                found = self._made_dispatcher = self._made_dispatcher or made
        return found

    def _dispatcher_class(self) -> type[Dispatcher]:
        from kerneldsl.launch.dispatch import Dispatcher

        return Dispatcher

    def _define(self, make: type[Definition]) -> Definition:
        """Return what the kernel's states are made from."""
        options = self.options
        return make(self.function, options.compile, options.signatures, self._constant_values)

    def _tune_by(self, policy: TuningPolicy) -> None:
        """Let first launches of this kernel be tuned under a policy."""
        self._tuning = policy
        self._remember_launches()  # those made so far are without

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), _INTERNAL)

    def _member_of_block(self, block: Any) -> Kernel[Any, Any]:
        """Return the kernel to inspect: for a kernel with a space, the member with this block."""
        return self

    # For a type checker a kernel cannot be called, so that the mistake is an error on its line.
    # After a call that never returns, the following lines would not be checked.
    if not TYPE_CHECKING:

        @shorten_errors
        def __call__(self, *args: Any, **kwargs: Any) -> None:
            """Refuse: a launch needs the number of threads."""
            name = self.__qualname__
            raise LaunchConfigError(
                f"the kernel {name} was called without a launch configuration",
                limit="A launch needs the number of threads that run the kernel",
                remedy=f"Write {name}.forall(n)(…) or {name}[grid, block](…)",
            )

    @shorten_errors
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

        The kernel runs many times over the same arguments. See :meth:`Launch.time`.

        Parameters
        ----------
        *args
            The arguments of the kernel.
        forall : int or tuple of int, optional
            The extent. Give either this or `grid` and `block`.
        grid, block : int or tuple of int, optional
            The grid in blocks, and the block in threads.
        shared_bytes : int, optional
            Dynamic shared memory of a block, in bytes.
        samples : int, optional
            Number of samples, up to 100,000.

        Returns
        -------
        Timing

        Raises
        ------
        LaunchConfigError
            If both `forall` and `grid` are given, or neither.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def negate(x):
        ...     x[kd.grid(1)] *= -1
        >>> timing = negate.time(np.ones(1000), forall=1000, samples=3)
        >>> timing.samples, timing.median_ns > 0
        (3, True)
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
        """The specializations of this kernel that were compiled in this process."""
        return ShownTuple(self._dispatcher.infos())

    def _compiled(self) -> tuple[tuple[str, Artifact], ...]:
        """Return the target and the code of each specialization so far."""
        return self._dispatcher.compiled()

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        count = len(self.specializations)
        compiled = f", compiled {count} times" if count > 1 else ", compiled once" if count else ""
        return f"<kernel {self.__module__}.{self.__qualname__}({', '.join(names)}){compiled}>"

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(self, self.function, self.options, self._constant_values)


def _attributes_of(function: Any) -> dict[str, Any]:
    """Return a function's attributes, without those ``functools.wraps`` copied from a kernel."""
    found = dict(vars(function))
    seen = [function]
    while isinstance(wrapped := vars(seen[-1]).get("__wrapped__"), (Kernel, FunctionType)):
        if any(wrapped is each for each in seen):
            break
        if isinstance(wrapped, Kernel):
            for name in vars(wrapped).keys() - vars(wrapped.function).keys():
                found.pop(name, None)
        seen.append(wrapped)
    return found


class DeviceFunction(LikeFunction, CopiedAsItself, Shown, Generic[P, R]):
    """A function that kernels call; plain Python can call it as well.

    Made by :func:`kerneldsl.func`.

    Attributes
    ----------
    function : callable
        The Python function.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.func
    ... def square(x):
    ...     return x * x
    >>> square(3)
    9
    """

    def __init__(self, function: Callable[P, R], code: LinkedCode | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        #: By these attributes the front end knows it.
        self.__kerneldsl_function__ = function
        self.__kerneldsl_linked__ = code
        self.__qualname__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the Python function; intrinsics in it are an error outside a kernel."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        return f"<device function {self.__module__}.{self.__qualname__}({', '.join(names)})>"

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        code = self.__kerneldsl_linked__
        return reduce_function(self, self.function, *(() if code is None else (code,)))
