"""Kernels with a space of compile-time parameters: the member that a launch takes."""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.kernels import Kernel, KernelOptions
from kerneldsl.launch.configuration import tiled_config
from kerneldsl.launch.describe import given_problem
from kerneldsl.launch.dimensions import check_limits, read_extent, read_stream
from kerneldsl.launch.request import Request
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.launch.specialize import worthwhile
from kerneldsl.launch.spine import may_compile, resources_of
from kerneldsl.launch.together import Together
from kerneldsl.launcher.vectorcall import callable_by_entry
from kerneldsl.launches import BoundLaunch, Launch, are_plain, make_launch, remember
from kerneldsl.planner.choose_member import (
    MemberChoice,
    MemberProblem,
    choose_member,
    describe_member,
    member_plans,
)
from kerneldsl.planner.extent_classes import extent_class, grid_ends
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.planner.space import Member, Space
from kerneldsl.target import (
    ONE_EACH,
    Compiler,
    Device,
    DeviceLike,
    Dim3,
    Resources,
    Specialization,
)
from kerneldsl.timing import Timing

__all__ = ["SpacedKernel", "SpacedLaunch"]

#: Shared memory of a block that stays in a core's cache.
_HOST_SHARED_BYTES = 32 * 1024
#: Blocks for each thread of the CPU that even out their differences.
_HOST_BLOCKS = 4


class SpacedKernel(Kernel[Any, Any]):
    """A kernel whose block and compile-time parameters are chosen from a space.

    Made by ``@kd.kernel(space=kd.Space(…))``. ``forall`` takes the member that the planner finds
    best; :meth:`member` names one.

    Attributes
    ----------
    space : Space
        The members.
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions, space: Space) -> None:
        self.space = space
        #: The function's keyword-only parameters.
        self._names = tuple(
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        )
        _check_names(function, self._names, space)
        first = self._constants(space.members[0])
        super().__init__(function, options, first)
        self._kernels: dict[tuple[Any, ...], Kernel[Any, Any]] = {}
        #: Decisions, and the members that they are for, by state, kinds of arguments, place and
        #: class of extents.
        self._choices: dict[tuple[Any, ...], MemberChoice] = {}
        self._members: dict[tuple[Any, ...], Member] = {}

    def _constants(self, member: Member) -> dict[str, Any]:
        values = dict(member.values)
        return {name: values[name] for name in self._names}

    def code_of(self, member: Member) -> tuple[Any, ...]:
        """The values that the kernel is compiled for."""
        return tuple(self._constants(member).values())

    def kernel_of(self, member: Member) -> Kernel[Any, Any]:
        """The kernel with a member's values as constants; made once for each."""
        code = self.code_of(member)
        known = self._kernels.get(code)
        if known is None:
            made = Kernel(self.function, self.options, self._constants(member))
            known = self._kernels.setdefault(code, made)
        return known

    def member(self, **values: Any) -> Kernel[Any, Any]:
        """The kernel with these compile-time parameters, to be launched in any shape.

        Parameters
        ----------
        **values
            Of as many parameters as tell which constants are meant.

        Returns
        -------
        Kernel

        Raises
        ------
        ArgumentValueError
            If no member has these values, or members with different constants do.
        """
        found = self.space.matching(**values)
        codes = {self.code_of(each) for each in found}
        if len(codes) > 1:
            raise ArgumentValueError(
                f"{len(codes)} kernels match "
                + (", ".join(f"{name}={value!r}" for name, value in values.items()) or "nothing"),
                value=values,
                limit=f"The compile-time parameters are {', '.join(self._names)}",
                remedy="Give a value to each of them",
            )
        return self.kernel_of(found[0])

    @cached_property
    def _tiles(self) -> tuple[Dim3, ...]:
        """The different numbers of indices that blocks of the members serve."""
        return tuple(dict.fromkeys(map(self.space.tile, self.space)))

    def forall(
        self,
        *extent: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        cluster: int | tuple[int, ...] | None = None,
        cooperative: bool = False,
    ) -> SpacedLaunch:
        """Give the kernel an extent: the planner takes the best member of the space for it.

        Parameters
        ----------
        *extent, stream, plan, cluster, cooperative
            As for a kernel without a space; a plan names the member by its `parameters`.
        block, shared_bytes
            Must be left out: the space says what they are.

        Raises
        ------
        LaunchConfigError
            If the extent is none, or a block or shared memory is given.
        """
        key: Any = None
        if stream is None and plan is None and cluster is None and cooperative is False:
            if len(extent) == 1 and type(extent[0]) is int:
                key = extent[0]
            elif are_plain(extent):
                key = extent
            known = self._extents.get(key)
            if known is not None and block is None and not shared_bytes:
                return cast(SpacedLaunch, known)
        self._refuse_block(block, shared_bytes)
        member = None
        if plan is not None:
            (member,) = self.space.matching(**dict(plan.parameters))
        together = self._together(cluster, cooperative, plan)
        shape = LaunchShape(
            None, None, read_extent(extent), read_stream(stream), 0, together=together
        )
        launch = make_spaced_launch(self, shape, member)
        if key is not None:
            remember(self._extents, key, launch)
        return launch

    def _refuse_block(self, block: Any, shared_bytes: int) -> None:
        if block is not None or shared_bytes:
            raise LaunchConfigError(
                f"{self.__qualname__} has a space, and forall was given a block or shared_bytes",
                value=block if block is not None else shared_bytes,
                limit="The space says what they are",
                remedy="Leave them out, or name a member: kernel.member(…).forall(…, block=…)",
            )

    def _launched(
        self, shape: LaunchShape, args: tuple[Any, ...], device: str | None, arch: str | None
    ) -> tuple[Compiler, tuple[Specialization, ...]]:
        self._refuse_block(shape.block_dim, shape.shared_bytes)
        return make_spaced_launch(self, shape).specializations(args, device, arch)

    def __getitem__(self, config: Any) -> Launch:
        """Refuse: an explicit launch has to say which member it is of."""
        raise LaunchConfigError(
            f"{self.__qualname__}[{config!r}] names no member of the kernel's space",
            value=config,
            limit=f"The space is {self.space!r}",
            remedy=f"Write {self.__qualname__}.member(…)[grid, block], or "
            f"{self.__qualname__}.forall(n)",
        )

    def __reduce__(self) -> Any:
        found = super().__reduce__()
        if isinstance(found, str):  # it can be imported where it arrives
            return found
        raise pickle.PicklingError(
            f"the kernel {self.__qualname__} has a space, whose functions do not travel as source; "
            "put the kernel into a module that the other process can import"
        )

    def launch_of(
        self, member: Member, extent: tuple[int, ...], stream: Any, together: Together
    ) -> Launch:
        """A launch of one member over an extent."""
        kernel = self.kernel_of(member)
        tile = self.space.tile(member)
        shape = LaunchShape(
            None,
            member.block_dim,
            extent,
            stream,
            self.space.shared_bytes(member),
            tile=tile,
            together=together,
        )
        return make_launch(kernel, shape)


class SpacedLaunch(Launch):
    """A kernel with a space and an extent: call it with the kernel's arguments.

    The member is chosen by the kinds of the arguments and the place. What native code knows of the
    launches of members holds for those alone, so it repeats them in the place of this one.

    Parameters
    ----------
    kernel : SpacedKernel
        The kernel.
    shape : LaunchShape
        The extent and stream, and which blocks run at the same time.
    member : Member, optional
        Which member; by default the planner chooses.
    """

    __slots__ = ("_launches", "_member")

    kernel: SpacedKernel

    def __init__(
        self, kernel: SpacedKernel, shape: LaunchShape, member: Member | None = None
    ) -> None:
        super().__init__(kernel, shape)
        self._member = member
        #: Launches of members, by what the choice depended on.
        self._launches: dict[tuple[Any, ...], Launch] = {}

    def _launch(self, args: tuple[Any, ...]) -> None:
        """Launch the best member."""
        self._slow_count += 1
        if 0 not in self._extent:
            launch = self._chosen(args)
            launch(*args)
            self._share_tables(launch)

    def plan(
        self, *args: Any, device: DeviceLike | None = None, arch: str | None = None, **named: Any
    ) -> LaunchPlan:
        """Say which member would be taken, and why; see :meth:`kerneldsl.kernels.Launch.plan`."""
        args = self._in_order(args, named)
        if self._member is not None:
            return self._shaped(self._member).plan(*args, device=device, arch=arch)
        ask = partial(self._ask, args, device, arch)
        place = ask().place
        if place.is_host or 0 in self._extent:
            member = self._best(place, ask)
            plan = self._shaped(member).plan(*args, device=device, arch=arch)
            return replace(plan, parameters=member.values)
        choice = self._choice(ask)
        asked, _ = self._questions(ask, self._extent)
        return self._finished(describe_member(asked, choice), place)

    def plans(self, *args: Any, **named: Any) -> tuple[LaunchPlan, ...]:
        """The plan of every member that can run, the best first; each is compiled."""
        args = self._in_order(args, named)
        ask = partial(self._ask, args, None, None)
        place = ask().place
        if place.is_host or 0 in self._extent:
            return (self.plan(*args),)
        plans = member_plans(*self._questions(ask, self._extent))
        return tuple(self._finished(each, place) for each in plans)

    def bind(self, *args: Any, **named: Any) -> BoundLaunch:
        """Prepare a launch of the best member; see :meth:`kerneldsl.launches.Launch.bind`."""
        args = self._in_order(args, named)
        return self._chosen(args).bind(*args)

    def time(self, *args: Any, samples: int = 7) -> Timing:
        """Measure the time of this launch; see :meth:`kerneldsl.kernels.Launch.time`."""
        return self._chosen(args).time(*args, samples=samples)

    def specializations(
        self, args: tuple[Any, ...], device: DeviceLike | None, arch: str | None
    ) -> tuple[Compiler, tuple[Specialization, ...]]:
        """What a launch may compile for its member; see :meth:`kerneldsl.Kernel.launched`."""
        ask = partial(self._ask, args, device, arch)
        request = ask(self._best(ask().place, ask))
        return request.place.compiler, may_compile(request)

    def __repr__(self) -> str:
        return f"<launch of {self.kernel.__qualname__} over {self._extent}, from its space>"

    # ------------------------------------------------------------------ choosing

    @property
    def _extent(self) -> tuple[int, ...]:
        assert self._shape.extent is not None
        return self._shape.extent

    def _shaped(self, member: Member, extent: tuple[int, ...] | None = None) -> Launch:
        extent = self._extent if extent is None else extent
        return self.kernel.launch_of(member, extent, self._shape.stream, self._shape.together)

    def _chosen(self, args: tuple[Any, ...]) -> Launch:
        """The launch of the best member for these arguments."""
        known_by = self._dispatcher.identity(self._shape, args)
        launch = self._launches.get(known_by)
        if launch is None:
            member = self._member
            if member is None:
                place = known_by[-1]
                of_class = (*known_by, self._shape.together, self._class(place))
                member = self.kernel._members.get(of_class)
                if member is None:
                    member = self._best(place, partial(self._ask, args, None, None))
                    remember(self.kernel._members, of_class, member)
            launch = self._shaped(member)
            remember(self._launches, known_by, launch)
        return launch

    def _best(self, place: Device, ask: Callable[..., Request]) -> Member:
        if place.is_host:
            return self._host_member(place)
        if 0 in self._extent:
            return self.kernel.space.members[0]
        return self._choice(ask).member

    def _class(self, place: Device) -> tuple[int, ...]:
        """The class of the extent: all in it fit grids of the same members."""
        if place.is_host:
            return extent_class(self._extent)
        most, cluster_dim = place.limits.max_grid_dim, self._shape.together.cluster_dim
        if cluster_dim is not None:
            x, y, z = (n // width * width for n, width in zip(most, cluster_dim, strict=True))
            most = x, y, z
        return extent_class(self._extent, grid_ends(self.kernel._tiles, most))

    def _check_grid(self, device: Device) -> None:
        """Refuse an extent that is too large for a grid of any member."""
        for member in self.kernel.space:
            shape = self._shaped(member)._shape
            grid_dim = tiled_config(shape).grid_dim
            most = device.limits.max_grid_dim
            if all(n <= top for n, top in zip(grid_dim, most, strict=True)):
                return
        check_limits(device, grid_dim, shape.block_dim, 0, 0, self._extent)

    def _choice(self, ask: Callable[..., Request]) -> MemberChoice:
        """The decision for kinds of arguments, a place and a class of extents; made once."""
        first = ask()
        extent, codes = self._class(first.place), first.binding.codes
        promises = worthwhile(first.promises, ONE_EACH)
        key = (first.state, codes, first.place, promises, extent, self._shape.together)
        known = self.kernel._choices.get(key)
        if known is None:
            self._check_grid(first.place)
            known = choose_member(*self._questions(ask, extent))
            remember(self.kernel._choices, key, known)
        return known

    def _ask(
        self,
        args: tuple[Any, ...],
        device: DeviceLike | None,
        arch: str | None,
        member: Member | None = None,
        extent: tuple[int, ...] | None = None,
    ) -> Request:
        """The request of a member, by default the first."""
        launch = self._shaped(member or self.kernel.space.members[0], extent)
        return launch._request(args, device, arch)

    def _questions(
        self, ask: Callable[..., Request], extent: tuple[int, ...]
    ) -> tuple[list[MemberProblem], Callable[[Member], Resources]]:
        """Each member as the planner wants it for an extent, and what compiles one."""
        asked: list[MemberProblem] = []
        requests: dict[Member, Request] = {}
        for member in self.kernel.space:
            requests[member] = request = ask(member, extent)
            problem = given_problem(request)
            if problem is None:
                raise LaunchConfigError(
                    f"{self.kernel.__qualname__} has a space, and too little is known of "
                    f"{request.place.name} to choose from it",
                    limit="Occupancy is computed for compute capability 7.5 and newer",
                    remedy="Name a member: kernel.member(…).forall(…, block=…)",
                )
            asked.append(MemberProblem(member, problem, self.kernel.code_of(member)))
        problems = {each.member: each.problem for each in asked}

        def compile_member(member: Member) -> Resources:
            return resources_of(requests[member], problems[member], ONE_EACH)

        return asked, compile_member

    def _finished(self, plan: LaunchPlan, place: Device) -> LaunchPlan:
        return replace(
            plan,
            extent=self._extent,
            device=str(place),
            cluster_dim=self._shape.together.cluster_dim,
            is_cooperative=self._shape.together.is_cooperative,
        )

    def _host_member(self, place: Device) -> Member:
        """The member for a CPU: the largest block whose storage stays in a core's cache.

        Threads of a block are loops there, which are better long; but each of the machine's
        threads should have some blocks.
        """
        space, threads = self.kernel.space, place.limits.multiprocessor_count
        extent = extent_class(self._extent)

        def rank(member: Member) -> tuple[bool, bool, int]:
            tile = space.tile(member)
            blocks = math.prod(-(-n // width) for n, width in zip(extent, tile, strict=False))
            fits = space.shared_bytes(member) <= _HOST_SHARED_BYTES
            return fits, blocks >= _HOST_BLOCKS * threads, member.block_threads

        return max(space.members, key=rank)


def _check_names(function: Callable[..., Any], names: tuple[str, ...], space: Space) -> None:
    unused = [name for name in space.parameters if name not in names and name != "block"]
    if unused:
        raise ArgumentValueError(
            f"the space of {function.__qualname__} has the parameter {unused[0]!r}",
            value=unused[0],
            limit="The kernel's keyword-only parameters are "
            + (", ".join(names) if names else "none"),
            remedy=f"Add it to the kernel: def {function.__name__}(…, *, {unused[0]})",
        )
    missing = [name for name in names if name not in space.parameters]
    if missing:
        raise ArgumentValueError(
            f"{function.__qualname__} has the keyword-only parameter {missing[0]!r}",
            value=missing[0],
            limit=f"Its space has {', '.join(space.parameters)}",
            remedy=f"Give it values: kd.Space(…, {missing[0]}=[…])",
        )


# Native code takes the calls of an instance once a member's launch can be repeated.
_SpacedLaunch = callable_by_entry(SpacedLaunch)


def make_spaced_launch(
    kernel: SpacedKernel, shape: LaunchShape, member: Member | None = None
) -> SpacedLaunch:
    """A launch that native code may take over."""
    return _SpacedLaunch(kernel, shape, member)
