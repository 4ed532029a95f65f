"""Kernels with a space of compile-time parameters, from which the planner chooses a member."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.constants import MAX_KERNELS, ParameterizedKernel, keyword_only_names
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.kernels.members import MemberKernel, shape_in_space
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes
from kerneldsl.launch.dimensions import read_shared_bytes
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.kernels.launches import Launch
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.planner.space import Member, Space

__all__ = ["OpenSpacedKernel", "SpacedKernel", "make_spaced"]


class _LaunchedOverSpace(Kernel[Any, Any]):
    """Launches of kernels that take their block from a space."""

    space: Space

    def _read_shape(
        self,
        extent: tuple[Any, ...],
        block: Any,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        launch_attributes: LaunchAttributes = NO_ATTRIBUTES,
    ) -> LaunchShape:
        _refuse_block(self, block, shared_bytes)
        return shape_in_space(self, extent, stream, plan, launch_attributes)

    @shorten_errors
    def __getitem__(self, config: Any) -> Launch[Any]:
        """Refuse: an explicit launch must name its member."""
        raise _no_member(self, config)

    def __reduce__(self) -> Any:
        return _reduced(self, super().__reduce__())


class SpacedKernel(_LaunchedOverSpace):
    """A kernel with a block and compile-time parameters that are chosen from a space.

    Made by ``@kd.kernel(space=kd.Space(…))``. ``forall`` takes the member that the planner predicts
    to be the fastest; :meth:`member` names one. ``forall`` takes no block and no shared memory:
    the space determines them. A plan names its member by its `parameters`.

    Attributes
    ----------
    space : Space
        The members.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: KernelOptions,
        space: Space,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        names = keyword_only_names(function)
        first = {**given, **dict(space.members[0].values)}
        super().__init__(function, options, {name: first[name] for name in names})
        self.space = space
        self._given = given
        self._names = tuple(name for name in names if name not in given)
        self._kernels: dict[tuple[Member, ...], MemberKernel] = {}

    @shorten_errors
    def member(self, **values: Any) -> MemberKernel:
        """Return the kernel with these compile-time parameters, to be launched with its block.

        Parameters
        ----------
        **values
            Values of parameters; enough of them to determine the constants.

        Returns
        -------
        MemberKernel

        Raises
        ------
        ArgumentValueError
            If no member has these values, or several members with different constants have them.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> space = kd.Space(block=[64], width=[2, 4], covers=lambda c: c.block * c.width)
        >>> @kd.kernel(space=space)
        ... def double(x, *, width):
        ...     for i in range(kd.grid(1) * width, min((kd.grid(1) + 1) * width, x.size)):
        ...         x[i] *= 2
        >>> len(double.member(width=4).space)
        1
        """
        found = self.space.matching(**values)
        codes = {tuple(dict(each.values)[name] for name in self._names) for each in found}
        if len(codes) > 1:
            raise ArgumentValueError(
                f"{len(codes)} members of {self.__qualname__} have "
                + (
                    ", ".join(f"{name}={safe_repr(value)}" for name, value in values.items())
                    or "separate code, and none is named"
                ),
                value=values,
                limit=f"The compile-time parameters are {', '.join(self._names)}",
                remedy="Give a value to each of them: "
                f"{self.__qualname__}.member({', '.join(f'{name}=…' for name in self._names)})",
            )
        known = self._kernels.get(found)
        if known is None:
            (code,) = codes
            constants = {**self._given, **dict(zip(self._names, code, strict=True))}
            space = self.space.subset(found)
            made = MemberKernel(self.function, self.options, constants, space)
            made._made_dispatcher = self._dispatcher.of_member(found[0])
            known = self._kernels.setdefault(found, made)
        return known

    def _member_of_block(self, block: Any) -> MemberKernel:
        return self.member() if block is None else self.member(block=block)


class OpenSpacedKernel(_LaunchedOverSpace, ParameterizedKernel):
    """A kernel with compile-time parameters from a space and further ones from its launches.

    Made by ``@kd.kernel(space=kd.Space(…))`` of a function with more keyword-only parameters than
    the space has. Each combination of their values gives a `SpacedKernel`.

    Attributes
    ----------
    space : Space
        The members.
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions, space: Space) -> None:
        super().__init__(function, options)
        self.space = space
        self._names = tuple(name for name in self._names if name not in space.parameters)
        self._members: dict[Hashable, MemberKernel] = {}

    @shorten_errors
    def member(self, **values: Any) -> Any:
        """Return the kernel with the values of these compile-time parameters.

        Parameters
        ----------
        **values
            A value for each parameter that the space does not have. Values of parameters of the
            space fix those as well; the planner chooses the others.

        Returns
        -------
        SpacedKernel or MemberKernel
        """
        key, constants = self._take(values)
        if not values:
            return self._kernel_of(key, constants)
        whole = key, tuple(values.items())
        known = self._members.get(whole)
        if known is None:
            spaced: Any = self._kernel_of(key, constants)
            if len(self._members) >= MAX_KERNELS:
                self._members.clear()
            known = self._members.setdefault(whole, spaced.member(**values))
        return known

    def _make(self, constants: dict[str, Any]) -> SpacedKernel:
        return SpacedKernel(self.function, self.options, self.space, constants)


def make_spaced(
    function: Callable[..., Any], options: KernelOptions, space: Space
) -> SpacedKernel | OpenSpacedKernel:
    """Make the kernel of a function with a space, which has all its parameters or some of them."""
    names = keyword_only_names(function)
    _check_names(function, names, space)
    is_open = any(name not in space.parameters for name in names)
    return (OpenSpacedKernel if is_open else SpacedKernel)(function, options, space)


def _refuse_block(kernel: _LaunchedOverSpace, block: Any, shared_bytes: int) -> None:
    if block is not None or read_shared_bytes(shared_bytes):
        raise LaunchConfigError(
            f"{kernel.__qualname__} has a space, and forall was given a block or shared_bytes",
            value=block if block is not None else shared_bytes,
            limit="The space determines them",
            remedy="Leave them out, or name a member: kernel.member(block=…).forall(…)",
        )


def _no_member(kernel: _LaunchedOverSpace, config: Any) -> LaunchConfigError:
    return LaunchConfigError(
        f"{kernel.__qualname__}[{safe_repr(config)}] is not a member of the kernel's space",
        value=config,
        limit=f"The space is {kernel.space!r}",
        remedy=f"Write {kernel.__qualname__}.member(…)[grid, block], or "
        f"{kernel.__qualname__}.forall(n)",
    )


def _reduced(kernel: _LaunchedOverSpace, found: Any) -> Any:
    """Return the result of ``__reduce__`` for a kernel that the other process can import."""
    if isinstance(found, str):
        return found
    raise pickle.PicklingError(
        f"the kernel {kernel.__qualname__} has a space with functions, which are not pickled as "
        "source; put the kernel into a module that the other process can import"
    )


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
