"""Requests: the arguments and the shape of a launch, and the key by which its code is found.

Launches, plans and inspections all begin here, with arguments or with the text of a signature.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kerneldsl.contract import ONE_EACH, ArrayPromises, Device, DeviceLike, ElementMapping, Promises
from kerneldsl.contract.abi import integer_parameters
from kerneldsl.contract.promises import MAX_ALIGNMENT, is_narrow
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    LaunchConfigError,
    TargetUnavailableError,
)
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, array_kinds, for_parameters
from kerneldsl.launch.arguments.arguments import bind, check_writable, overlap
from kerneldsl.launch.arguments.binding import Binding, code_of, kinds_of
from kerneldsl.launch.arguments.checked_promises import NOTHING
from kerneldsl.launch.dimensions import check_bounds, check_limits, check_rank
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.launch.state import KernelState
from kerneldsl.placement.devices import FallbackDevice, device_of, resolve
from kerneldsl.placement.registry import get_target, target_writing
from kerneldsl.utilities.formatting import format_count

if TYPE_CHECKING:
    from kerneldsl.planner.candidates import Candidate
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.planner.space import Member

__all__ = [
    "Request",
    "arrays_overlap",
    "check_arch",
    "check_shape",
    "in_order",
    "make_request",
    "named_device",
    "named_kinds",
    "read_arguments",
    "read_kinds",
]


class Request(NamedTuple):
    """Request for a launch: all that determines it.

    Parameters
    ----------
    state : KernelState
        The kernel, with the current captured constants.
    shape : LaunchShape
        Grid and block, or the extent. If it does not select the member of a space, the request is
        only for a decision, and :meth:`of` returns the request of the member.
    device : Device
        The device.
    binding : Binding
        The arguments, bound to the parameters.
    promise_number : int
        Number of the properties of the arguments, in the state's table.
    extents : object
        The class of the extents, or the value used instead; ``None`` if nothing is planned.
    key : tuple
        Key of the executable and the plan in the tables of the state.
    fallback : FallbackDevice or None
        If the chosen device cannot be used: that device, and the reason why the CPU replaces it.
    candidate : Candidate or None
        Block, mapping and member, once they are decided. ``None`` if nothing is planned.
    """

    state: KernelState
    shape: LaunchShape
    device: Device
    binding: Binding
    promise_number: int
    extents: Any
    key: tuple[Any, ...]
    fallback: FallbackDevice | None = None
    candidate: Candidate | None = None

    def with_promises(self, number: int) -> Request:
        """Return the request with other promises of its arguments."""
        *others, _, extents = self.key
        return self._replace(promise_number=number, key=(*others, number, extents))

    def of(self, member: Member, extent: tuple[int, ...] | None = None) -> Request:
        """Make the request of a member of the kernel's space; for another extent, or the same."""
        assert self.state.of_member is not None
        state, shape = self.state.of_member(member), self.shape.of(member, extent)
        return _complete(state, shape, self.device, self.binding)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return kinds_of(self.binding.codes)

    @property
    def mapping(self) -> ElementMapping:
        """The mapping of the indices of the launch to threads, once it is decided."""
        if self.candidate is None or not self.state.traits.uses_grid_only:
            return ONE_EACH
        return self.candidate.mapping

    @property
    def promises(self) -> Promises:
        """All that holds of the arguments."""
        return self.state.promises[self.promise_number]


def make_request(
    state: KernelState,
    shape: LaunchShape,
    args: tuple[Any, ...],
    device: Device | None = None,
    *,
    is_launch: bool = False,
) -> Request:
    """Make the request of a launch.

    Parameters
    ----------
    state : KernelState
        The kernel.
    shape : LaunchShape
        The shape of the launch.
    args : tuple
        The arguments, or the text of a signature.
    device : Device, optional
        The device; by default that of a launch.
    is_launch : bool
        Whether the request is for a launch. Then a signature is not valid, arrays that the kernel
        writes must be writable, and the CPU may replace a device that cannot be used.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError, DeviceMismatchError
        If these arguments cannot be passed.
    """
    binding = read_arguments(state, args, is_launch=is_launch)
    fallback = None
    if device is None:
        chosen = resolve(binding.device or shape.device)
        if isinstance(chosen, FallbackDevice):
            device, fallback = chosen.device, chosen if is_launch else None
        else:
            device = chosen
            if is_launch and shape.plan is not None:
                _check_plan(shape.plan, device)
    try:
        state = _for_device(state, device, binding)
    except TargetUnavailableError as error:
        if fallback is not None:
            error.add_line(f"The CPU stands in for {fallback.asked}: {fallback.missing.what}")
        raise
    if shape.space is not None:
        limits = device.limits
        extents = shape.planned_for if device.is_shared_out else shape.planned_within(limits)
        key = (binding.codes, device, extents, shape.launch_attributes, shape.space)
        return Request(state, shape, device, binding, NOTHING, extents, key, fallback)
    found = _complete(state, shape, device, binding)
    return found if fallback is None else found._replace(fallback=fallback)


def _for_device(state: KernelState, device: Device, binding: Binding) -> KernelState:
    """Return the state that a device runs, and give its arguments the kinds of its signature."""
    found = state.for_compiler(device.compiler)
    if found is not state and found.signatures:
        from kerneldsl.launch.arguments.signature import conform

        conform(binding, found.signatures, found.unit.parameters)
    return found


def _check_plan(plan: LaunchPlan, device: Device) -> None:
    """Raise an error for a plan of a GPU on the CPU, and for a plan of the CPU on a GPU.

    A CPU that replaces a device ignores the plan and makes its own.
    """
    is_of_other = plan.arch != device.arch if device.is_host else plan.host is not None
    if is_of_other:
        raise LaunchConfigError(
            f"a plan for {plan.device} was given to a launch on {device}",
            value=plan,
            limit="What the plan says of threads and vectors has no meaning there",
            remedy="Leave plan= out, or plan for this device: kernel.forall(…).plan(…)",
        )


def _complete(state: KernelState, shape: LaunchShape, device: Device, binding: Binding) -> Request:
    """Find what holds of the arguments, and what the request is found by."""
    promise_number, extents = NOTHING, None
    if device.compiler.maps_elements:
        if state.code is None:  # else it is the same code whatever holds of the arguments
            promise_number = _promise_number(state, shape, device, binding)
        if state.traits.uses_grid_only:  # whose threads walk on where a grid is too small
            extents = shape.planned_for
        else:
            extents = shape.planned_within(device.limits)
    elif device.is_shared_out:
        extents = shape.planned_for
    # Ints are quick to hash, so the key contains the mode as its rank.
    key = (
        binding.codes,
        shape.forall_ndim,
        device,
        shape.block_dim,
        promise_number,
        extents,
    )
    return Request(state, shape, device, binding, promise_number, extents, key)


def _promise_number(
    state: KernelState, shape: LaunchShape, device: Device, binding: Binding
) -> int:
    """Return the number of what holds of the arguments, in the state's table."""
    if binding.is_assumed:
        return state.promises.number(_assumed_promises(binding, shape.extent))
    if binding.host and not device.shares_host_memory:  # they are copied to other addresses
        return NOTHING
    return state.promises.number_of(binding, shape.extent, shape.threads)


def check_shape(request: Request) -> bool:
    """Check the shape against kernel and device; say whether there is anything to launch.

    - raises `LaunchConfigError` if the kernel cannot be launched in this shape, or the device
      cannot run it.
    """
    state, shape = request.state, request.shape
    traits = state.traits
    if shape.extent is not None:
        check_rank(state.unit, traits, len(shape.extent), shape.extent)
    if shape.extent is not None and shape.block_dim is None and traits.uses_block:
        raise LaunchConfigError(
            f"{state.unit.qualname} uses block-level operations (shared memory, barriers, "
            "warp operations or tiles), and forall was given no block",
            limit="forall chooses a block only for kernels with independent threads",
            remedy="Give the block: kernel.forall(n, block=256)(…) or @kd.kernel(block=256)",
        )
    if traits.uses_dynamic_shared and shape.shared_bytes == 0:
        raise LaunchConfigError(
            f"{state.unit.qualname} uses dynamic shared memory, and was launched with "
            "shared_bytes 0",
            value=0,
            limit="shared.array(0, dtype) has as many bytes as the launch gives it",
            remedy="Give them: kernel[grid, block, stream, shared_bytes](…) or "
            "kernel.forall(n, block=…, shared_bytes=…)(…)",
        )
    check_limits(
        request.device,
        shape.grid_dim,
        shape.block_dim,
        traits.static_shared_bytes,
        shape.shared_bytes,
    )
    bounds = state.options.launch_bounds
    if bounds is not None and shape.block_dim is not None:
        check_bounds(state.unit.qualname, shape.block_dim, bounds[0])
    return shape.extent is None or 0 not in shape.extent


# ---------------------------------------------------------------------- arguments


def read_arguments(
    state: KernelState, args: tuple[Any, ...], *, is_launch: bool = False
) -> Binding:
    """Read arguments and convert them to the declared signature, as for `make_request`."""
    if not is_launch:
        kinds = named_kinds(args, state.parameter_count)
        if kinds is not None:
            return read_kinds(state, kinds)
        from kerneldsl.launch.arguments.signature import refuse_signatures

        refuse_signatures(state.unit.qualname, state.unit.parameters, args)
    if len(args) != state.parameter_count:
        _refuse_count(state.unit, len(args), state.unit.parameters[: len(args)])
    if state.hidden:
        args = (*args, *state.hidden)
    binding = bind(state.unit.parameters, args)
    if is_launch and binding.read_only and state.traits.written:
        check_writable(binding, state.unit.parameters, args, state.traits.written)
    if state.signatures:
        from kerneldsl.launch.arguments.signature import conform  # few kernels declare one

        conform(binding, state.signatures, state.unit.parameters)
    return binding


def named_kinds(args: tuple[Any, ...], count: int) -> tuple[Kind, ...] | None:
    """Return the kinds of a signature that is given instead of arguments.

    It is ``None`` unless the only argument is one signature.
    """
    if len(args) != 1:
        return None
    from kerneldsl.language.signatures import is_signature, read_signature

    if not is_signature(args[0]):
        return None
    try:
        kinds = read_signature(args[0])
    except ValueError as error:
        raise ArgumentValueError(str(error), value=args[0]) from error
    return for_parameters(kinds, count)


def read_kinds(state: KernelState, kinds: tuple[Kind, ...]) -> Binding:
    """Return a binding for arguments of known kinds without values."""
    if len(kinds) == state.parameter_count:
        kinds += state.hidden_kinds()
    if len(kinds) != len(state.unit.parameters):
        _refuse_count(state.unit, len(kinds), state.unit.parameters[: len(kinds)])
    binding = Binding()
    binding.codes = binding.given = tuple(map(code_of, kinds))
    binding.is_assumed = True
    return binding


def arrays_overlap(state: KernelState, binding: Binding) -> bool:
    """Return whether an array that the kernel writes overlaps another one in memory."""
    return not binding.is_assumed and overlap(binding, state.traits.written)


def in_order(unit: FunctionUnit, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return arguments by position, followed by those passed by name in the kernel's order.

    - raises `ArgumentTypeError` for a name that is unknown or given twice, or a parameter that is
      missing.
    """
    rest = unit.parameters[len(args) :]
    wrong = [name for name in named if name not in rest]
    if wrong:
        known = wrong[0] in unit.parameters
        from kerneldsl.language.other_names import closest_name

        near = None if known else closest_name(wrong[0], rest)
        raise ArgumentTypeError(
            f"{unit.qualname} was given the argument {wrong[0]!r} "
            + ("twice" if known else "that it does not have"),
            value=wrong[0],
            limit=f"Its parameters are ({', '.join(unit.parameters)})",
            remedy="Give it once" if known else f"Write {near}=…" if near else "Leave it out",
        )
    if any(name not in named for name in rest):
        _refuse_count(unit, len(args) + len(named), {*unit.parameters[: len(args)], *named})
    return (*args, *(named[name] for name in rest))


def _refuse_count(unit: FunctionUnit, count: int, given: Collection[str]) -> NoReturn:
    """Say which of the parameters are not among the given ones, or how many arguments too many."""
    wanted = unit.parameters[: len(unit.parameters) - len(unit.hidden)]
    missing = [repr(name) for name in wanted if name not in given]
    # Keyword-only parameters without default values are those of a space, which launches do not
    # pass.
    by_name = list(getattr(unit.function, "__kwdefaults__", None) or ())
    if missing:
        what = "missing " + ", ".join(missing)
    else:
        what = f"{count - len(wanted)} too many, from argument {len(wanted) + 1} on"
    raise ArgumentTypeError(
        f"{unit.qualname} was given {format_count(count, 'argument')}: {what}",
        value=count,
        limit=f"Its parameters are ({', '.join(wanted)})",
        remedy=f"Give {by_name[0]} by name: {by_name[0]}=…" if by_name and not missing else None,
    )


def _assumed_promises(binding: Binding, extent: tuple[int, ...] | None) -> Promises:
    """Return the promises that are assumed for arguments of known kinds without values.

    They hold for arrays that were made for the extent: aligned, without overlap, and of its length;
    and for integers that count something.
    """
    kinds = kinds_of(binding.codes)
    arrays = tuple(
        ArrayPromises(
            MAX_ALIGNMENT if kind.layout != "A" else 1,
            None,
            None,
            extent is not None and kind.ndim == len(extent),
        )
        for kind in array_kinds(kinds)
    )
    extent = extent or ()
    shapes = (extent for each in arrays if each.is_extent)
    return Promises(
        arrays,
        is_disjoint=True,
        is_narrow=is_narrow(extent, shapes),
        has_narrow_integers=bool(integer_parameters(kinds)),
    )


# --------------------------------------------------------------------- devices


def named_device(device: DeviceLike | None, arch: str | None) -> Device | None:
    """Return the device that is named or described; ``None`` where neither is."""
    check_arch(arch)
    if arch is not None:
        return get_target(target_writing("ptx")).described(arch)
    return None if device is None else device_of(device)


def check_arch(arch: Any) -> None:
    """Raise `ArgumentValueError` unless an architecture is text, or is left out."""
    if arch is not None and not isinstance(arch, str):
        raise wrong_value("arch", arch, "It must be text, such as 'sm_90'")
