"""Launches of a kernel, as they are configured: ``kernel[grid, block]`` and ``kernel.forall``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec

from kerneldsl.errors import KernelError, LaunchConfigError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.kernels.launches import make_launch
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes, read_attributes
from kerneldsl.launch.dimensions import read_dim3, read_extent, read_shared_bytes, read_stream
from kerneldsl.launch.native.vectorcall import native_methods
from kerneldsl.utilities.tracebacks import shorten

if TYPE_CHECKING:
    from kerneldsl.contract import Dim3
    from kerneldsl.kernels.launches import Launch
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.planner.plan import LaunchPlan

__all__ = ["LaunchMixin", "NativeForms"]

P = ParamSpec("P")

#: Shapes of one kernel that are remembered.
_MAX_SHAPES = 256


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
                # Native code looks up single extents only.
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
class NativeForms(LaunchMixin[P]):
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
