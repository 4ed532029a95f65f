"""Kernels with a space of compile-time parameters, whose member the planner chooses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.constants import keyword_only_names
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

__all__ = ["SpacedKernel"]


class SpacedKernel(Kernel[Any, Any]):
    """A kernel whose block and compile-time parameters are chosen from a space.

    Made by ``@kd.kernel(space=kd.Space(…))``. ``forall`` takes the member that the planner finds
    best; :meth:`member` names one. A block and shared memory are not given to ``forall``, since
    the space says what they are; a plan names the member by its `parameters`.

    Attributes
    ----------
    space : Space
        The members.
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions, space: Space) -> None:
        names = keyword_only_names(function)
        _check_names(function, names, space)
        first = dict(space.members[0].values)
        super().__init__(function, options, {name: first[name] for name in names})
        self.space = space
        self._names = names
        self._kernels: dict[tuple[Member, ...], MemberKernel] = {}

    @shorten_errors
    def member(self, **values: Any) -> MemberKernel:
        """Return the kernel with these compile-time parameters, to be launched with its block.

        Parameters
        ----------
        **values
            Of as many parameters as tell which constants are meant.

        Returns
        -------
        MemberKernel

        Raises
        ------
        ArgumentValueError
            If no member has these values, or members with different constants do.
        """
        found = self.space.matching(**values)
        codes = {tuple(dict(each.values)[name] for name in self._names) for each in found}
        if len(codes) > 1:
            raise ArgumentValueError(
                f"{len(codes)} members of {self.__qualname__} have "
                + (
                    ", ".join(f"{name}={safe_repr(value)}" for name, value in values.items())
                    or "a code of their own, and none is named"
                ),
                value=values,
                limit=f"The compile-time parameters are {', '.join(self._names)}",
                remedy="Give a value to each of them: "
                f"{self.__qualname__}.member({', '.join(f'{name}=…' for name in self._names)})",
            )
        known = self._kernels.get(found)
        if known is None:
            (code,) = codes
            constants = dict(zip(self._names, code, strict=True))
            space = self.space.subset(found)
            made = MemberKernel(self.function, self.options, constants, space)
            made._made_dispatcher = self._dispatcher.of_member(found[0])
            known = self._kernels.setdefault(found, made)
        return known

    def _member_of_block(self, block: Any) -> MemberKernel:
        return self.member() if block is None else self.member(block=block)

    def _read_shape(
        self,
        extent: tuple[Any, ...],
        block: Any,
        stream: Any = None,
        shared_bytes: int = 0,
        plan: LaunchPlan | None = None,
        launch_attributes: LaunchAttributes = NO_ATTRIBUTES,
    ) -> LaunchShape:
        if block is not None or read_shared_bytes(shared_bytes):
            raise LaunchConfigError(
                f"{self.__qualname__} has a space, and forall was given a block or shared_bytes",
                value=block if block is not None else shared_bytes,
                limit="The space determines them",
                remedy="Leave them out, or name a member: kernel.member(block=…).forall(…)",
            )
        return shape_in_space(self, extent, stream, plan, launch_attributes)

    @shorten_errors
    def __getitem__(self, config: Any) -> Launch[Any]:
        """Refuse: an explicit launch has to say which member it is of."""
        raise LaunchConfigError(
            f"{self.__qualname__}[{safe_repr(config)}] is not a member of the kernel's space",
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
