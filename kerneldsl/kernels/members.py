"""A member of a kernel's space: a kernel with its constants, which knows its block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import LaunchConfigError
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes
from kerneldsl.launch.dimensions import read_dim3, read_extent, read_shared_bytes, read_stream

if TYPE_CHECKING:
    from kerneldsl.contract import Dim3
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.planner.space import Member, Space

__all__ = ["MemberKernel", "shape_in_space"]


class MemberKernel(Kernel[Any, Any]):
    """A kernel with the constants of a member of its space. Made by :meth:`SpacedKernel.member`.

    It is launched with the block of the member. Without an explicit size, a launch gets the
    shared memory of the member. A block computes as many indices of the extent of ``forall`` as
    ``covers`` of the space returns. If several blocks have these constants, ``forall`` without a
    block takes the one that the planner predicts to be the fastest.

    Attributes
    ----------
    space : Space
        The members with these constants: one, unless the constants leave the block open.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: KernelOptions,
        constants: Mapping[str, Any],
        space: Space,
    ) -> None:
        super().__init__(function, options, constants)
        self.space = space
        # Code that needs a known block is compiled for this one.
        self._block = space.members[0].block_dim if len(space) == 1 else None

    def _find(self, block_dim: Dim3) -> Member:
        """Return the member with a block.

        - raises `LaunchConfigError` if there is none.
        """
        for member in self.space:
            if member.block_dim == block_dim:
                return member
        blocks = ", ".join(str(each.block_dim) for each in self.space)
        raise LaunchConfigError(
            f"{self.__qualname__}.member({self._constants_text}) was given the block {block_dim}",
            value=block_dim,
            limit=f"The members with these constants have {blocks}",
            remedy="Use that block, or name the member of the block: kernel.member(block=…)",
        )

    def _shared_bytes(self, member: Member, asked: Any) -> int:
        """Return the dynamic shared memory of a block: the requested size, or else the member's.

        - raises `LaunchConfigError` if the member's code uses more than the requested size.
        """
        given, needed = read_shared_bytes(asked), self.space.shared_bytes(member)
        if 0 < given < needed:
            raise LaunchConfigError(
                f"{self.__qualname__}.member({member}) was given shared_bytes {given}",
                value=given,
                limit=f"A block of this member uses {needed} bytes (shared= of the space)",
                remedy="Leave shared_bytes out",
            )
        return given or needed

    def _read_grid(self, grid: Any, block: Any, stream: Any, shared_bytes: Any) -> LaunchShape:
        from kerneldsl.launch.shape import LaunchShape

        member = self._find(read_dim3(block, "block_dim"))
        return LaunchShape(
            read_dim3(grid, "grid_dim"),
            member.block_dim,
            None,
            read_stream(stream),
            self._shared_bytes(member, shared_bytes),
            launch_attributes=self._launch_attributes,
            member=member,
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
        from kerneldsl.launch.shape import LaunchShape

        if plan is not None:
            return shape_in_space(self, extent, stream, plan, launch_attributes)
        members = self.space.members
        if block is not None:
            members = (self._find(read_dim3(block, "block_dim")),)
        if len(members) > 1:
            if read_shared_bytes(shared_bytes):
                raise LaunchConfigError(
                    f"{self.__qualname__}.member({self._constants_text}) was given shared_bytes "
                    "and no block",
                    value=shared_bytes,
                    limit=f"{len(members)} blocks go with these constants",
                    remedy="Give the block, too, or neither",
                )
            return shape_in_space(self, extent, stream, None, launch_attributes)
        (member,) = members
        return LaunchShape(
            None,
            member.block_dim,
            read_extent(extent),
            read_stream(stream),
            self._shared_bytes(member, shared_bytes),
            None,
            self.space.tile(member),
            launch_attributes,
            member=member,
        )

    def _member_of_block(self, block: Any) -> MemberKernel:
        if block is not None:
            self._find(read_dim3(block, "block_dim"))
        return self

    @property
    def _constants_text(self) -> str:
        """The parameters that are the same in all members."""
        return ", ".join(
            f"{name}={values[0]!r}"
            for name, values in self.space.parameters.items()
            if len(values) == 1
        )

    def __repr__(self) -> str:
        return f"<member {self._constants_text} of {super().__repr__()[1:]}"

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        arguments = self.options, self._constant_values, self.space
        return reduce_function(self, self.function, *arguments)


def shape_in_space(
    kernel: Any,
    extent: tuple[Any, ...],
    stream: Any,
    plan: LaunchPlan | None,
    launch_attributes: LaunchAttributes,
) -> LaunchShape:
    """Read the shape of a launch; the planner, or a plan, chooses the member.

    - `kernel`: a kernel with a space.
    - `extent`, `stream`, `plan`, `launch_attributes`: the arguments of ``forall``.
    - raises `LaunchConfigError` if the plan is not a plan of a member of the space.
    """
    from kerneldsl.launch.shape import LaunchShape

    space: Space = kernel.space
    shape = LaunchShape(
        *(None, None, read_extent(extent), read_stream(stream), 0, plan),
        launch_attributes=launch_attributes,
        space=space,
    )
    if plan is None:
        return shape
    wanted = dict(plan.parameters)
    for member in space:
        if member.block_dim == plan.block_dim and dict(member.values) == wanted:
            return shape.of(member)
    raise LaunchConfigError(
        f"{kernel.__qualname__} was given a plan of "
        + (", ".join(f"{name}={value!r}" for name, value in wanted.items()) or "no member")
        + f" with block_dim {plan.block_dim}",
        value=plan.parameters,
        limit=f"The members are those of {space!r}",
        remedy=f"Take a plan of this kernel: {kernel.__qualname__}.forall(…).plan(…)",
    )
