"""Grid, block, extent and shared memory: read, and checked against a device."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, NoReturn

from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.utilities.formatting import format_count

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.contract import Device, Dim3
    from kerneldsl.frontend.unit import FunctionUnit

__all__ = [
    "check_bounds",
    "check_limits",
    "check_rank",
    "read_dim3",
    "read_extent",
    "read_shared_bytes",
    "read_stream",
]

_AXES = "XYZ"
_ROUND_UP = "Round up: (n + block - 1) // block"


def _read_ints(value: Any, field: str, smallest: int) -> tuple[int, ...]:
    items = value if isinstance(value, (tuple, list)) else (value,)
    for item in items:
        _refuse_array(item, field)
    if not 1 <= len(items) <= 3:
        raise LaunchConfigError(
            f"{field} {safe_repr(value)} has {format_count(len(items), 'axis', 'axes')}",
            value=value,
            limit=f"{field} must be an int or a tuple of 1 to 3 ints",
            remedy="Combine axes, as in n0 * n1" if items else None,
        )
    found = []
    for item in items:
        number = as_int(item)
        if number is None:
            raise LaunchConfigError(
                f"{field} {safe_repr(value)} {'is' if item is value else 'contains'} a "
                + type(item).__name__,
                value=value,
                limit=f"{field} must be an int or a tuple of 1 to 3 ints",
                remedy=_remedy(item, field),
            )
        if number < smallest:
            raise LaunchConfigError(
                f"{field} {safe_repr(value)} contains {safe_repr(number)}",
                value=value,
                limit=f"Each axis of {field} must be at least {smallest}",
                remedy=_ROUND_UP if field == "grid_dim" else None,
            )
        if number >= 2**63:
            raise LaunchConfigError(
                f"{field} {safe_repr(value)} is too large",
                value=value,
                limit=f"Each axis of {field} must fit int64",
            )
        found.append(number)
    return tuple(found)


def _refuse_array(item: Any, field: str) -> None:
    """Refuse an array in the place of its size, without what is in it."""
    shape = getattr(type(item), "shape", None) and getattr(item, "shape", None)
    if not isinstance(shape, tuple) or not shape:
        return
    raise LaunchConfigError(
        f"{field} was given an array of shape {shape}",
        value=shape,
        limit=f"{field} must be an int or a tuple of 1 to 3 ints",
        remedy="Give tuple(array.tolist()) for the numbers in it, or array.size, or *array.shape",
    )


#: Examples for values that are no numbers.
_EXAMPLES = {
    "grid_dim": "Give the number of blocks, such as 128",
    "block_dim": "Give the number of threads of a block, such as 256",
    "extent": "Give the number of indices, such as x.size, or *x.shape",
}


def _remedy(item: Any, field: str) -> str | None:
    if isinstance(item, bool) or not isinstance(item, numbers.Real):
        return _EXAMPLES.get(field)
    return _ROUND_UP if field == "grid_dim" else "Use //, which gives an int of two ints"


def read_dim3(value: Any, field: str) -> Dim3:
    """Read a grid or block.

    - `value`: extents along x, y and z; axes that are left out are 1.
    - `field`: ``"grid_dim"`` or ``"block_dim"``.
    - raises `LaunchConfigError` if it is no int or 1-3 ints, or one is below 1.
    """
    if type(value) is int and 0 < value < 2**63:
        return value, 1, 1
    x, y, z = (*_read_ints(value, field, 1), 1, 1)[:3]
    return x, y, z


def read_extent(extent: Any) -> tuple[int, ...]:
    """Read the extent of ``forall``: 1-3 ints, or one tuple of them; zero is allowed.

    - raises `LaunchConfigError` if it is not that, or an extent is negative or beyond int64.
    """
    if not isinstance(extent, (tuple, list)):
        extent = (extent,)
    if len(extent) == 1 and type(extent[0]) is int and 0 <= extent[0] < 2**63:
        return (extent[0],)
    value = extent[0] if len(extent) == 1 and isinstance(extent[0], (tuple, list)) else extent
    return _read_ints(tuple(value), "extent", 0)


def read_shared_bytes(value: Any) -> int:
    """Read the size of dynamic shared memory in bytes.

    - raises `LaunchConfigError` if it is no int >= 0.
    """
    number = value if type(value) is int else as_int(value)
    if number is None or not 0 <= number < 2**63:
        raise LaunchConfigError(
            f"shared_bytes is {safe_repr(value)}",
            value=value,
            limit="Dynamic shared memory must be an int, 0 or more bytes",
        )
    return number


def read_stream(value: Any) -> Any:
    """Check that something can be a stream; what it is, is the target's business.

    - raises `LaunchConfigError` if it is a bool, float, text or tuple.
    """
    if isinstance(value, (bool, float, str, tuple, list)):
        raise LaunchConfigError(
            f"stream is {safe_repr(value)}",
            value=value,
            limit="A stream is None (the current one), a kd.Stream, another library's stream, or a "
            "handle",
            remedy="The order is kernel[grid, block, stream, shared_bytes]",
        )
    return value


def check_rank(
    unit: FunctionUnit, traits: KernelTraits, rank: int, extent: tuple[int, ...] | None = None
) -> None:
    """Check that a kernel needs indices of as many axes as its extent has.

    - `unit`: the kernel.
    - `rank`: axes of the extent of ``forall``.
    - `extent`: the extent, if it is known.
    - raises `LaunchConfigError` if the kernel or a device function of it calls ``grid`` or
      ``gridsize`` for another number of axes. A kernel that calls neither may have any extent.
    """
    if traits.grid_ndims <= {rank}:
        return
    asked = {
        use.static["ndim"]: (f"kd.{use.intrinsic.name}({use.static['ndim']})", reached, name)
        for reached in unit.reachable()
        for name, use in reached.uses.items()
        if use.intrinsic.name in ("grid", "gridsize")
    }
    wrong = sorted(asked.keys() - {rank})
    call, reached, name = asked[wrong[0]]
    if len(asked) > 1:
        remedy = f"Launch {unit.qualname}[grid, block](…), where a kernel may call several"
    elif wrong[0] == 1 and extent is not None and rank == 2:
        remedy = (
            f"For {extent[0]} indices in blocks of {extent[1]} threads write "
            f"{unit.qualname}.forall({extent[0]}, block={extent[1]}); for an index of each axis "
            f"call kd.grid({rank})"
        )
    else:
        axes = ", ".join(f"n{axis}" for axis in range(wrong[0])) if wrong[0] > 1 else "n"
        remedy = f"Write {unit.qualname}.forall({axes}), or call kd.grid({rank})"
    raise LaunchConfigError(
        f"{unit.qualname} calls {call} and was launched over "
        + (f"an extent of rank {rank}" if extent is None else f"the extent {extent}"),
        where=reached.locate_use(name),
        value=extent or rank,
        limit="Under forall, kd.grid(n) is an index of an extent with n axes",
        remedy=remedy,
    )


def check_bounds(kernel: str, block_dim: Dim3, most: int) -> None:
    """Refuse a block with more threads than the kernel's ``launch_bounds``."""
    threads = block_dim[0] * block_dim[1] * block_dim[2]
    if threads > most:
        raise ResourceLimitError(
            f"block_dim {block_dim} has {format_count(threads, 'thread')}",
            value=block_dim,
            limit=f"{kernel} is compiled for up to {most} threads a block (launch_bounds)",
            remedy="Use a smaller block, or compile with larger launch_bounds",
        )


def check_limits(
    device: Device,
    grid_dim: Dim3 | None,
    block_dim: Dim3 | None,
    static_shared_bytes: int,
    shared_bytes: int,
    extent: tuple[int, ...] | None = None,
) -> None:
    """Check a launch against what the device can do.

    - `device`: the device of the launch.
    - `grid_dim`, `block_dim`: blocks of the grid, threads of a block; ``None`` where the target
      will choose.
    - `static_shared_bytes`, `shared_bytes`: shared memory that the kernel declares and that the
      launch adds, in bytes a block.
    - `extent`: extent of ``forall``, if the grid follows from it.
    - raises `LaunchConfigError` naming the driver's limit, its value and the value found.
    """
    limits = device.limits
    if block_dim is not None:
        threads, most = math.prod(block_dim), limits.max_threads_per_block
        if threads > most:
            what = f"block_dim {block_dim} needs {format_count(threads, 'thread')}"
            _refuse(what, threads, device, most, "MAX_THREADS_PER_BLOCK", "Reduce block_dim")
        what = f"block_dim {block_dim} has {{}} threads along {{}}"
        remedy = "Reduce block_dim, or turn it so that a longer axis comes first"
        _check_axes(device, block_dim, limits.max_block_dim, "MAX_BLOCK_DIM", what, remedy)
    if grid_dim is not None:
        what = f"grid_dim {grid_dim} has {{}} blocks along {{}}"
        remedy = "Let x be the longest axis, or let each thread do several elements with a "
        remedy += "loop over kd.gridsize"
        if extent is not None:
            what = f"forall over {extent} takes {{}} blocks of {block_dim} threads along {{}}"
            remedy = "Launch parts of the extent, each with its offset as an argument"
        _check_axes(device, grid_dim, limits.max_grid_dim, "MAX_GRID_DIM", what, remedy)
    shared = static_shared_bytes + shared_bytes
    if shared > limits.max_shared_memory_per_block:
        _refuse(
            f"the kernel needs {shared} bytes of shared memory a block ({static_shared_bytes} "
            f"declared in it, {shared_bytes} from the launch)",
            shared,
            device,
            limits.max_shared_memory_per_block,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
            "Use smaller shared arrays",
        )


def _check_axes(
    device: Device, dims: Dim3, limits: Dim3, name: str, what: str, remedy: str
) -> None:
    """Refuse more than a limit along an axis; `what` has places for the number and the axis."""
    for axis, found, most in zip(_AXES, dims, limits, strict=True):
        if found > most:
            _refuse(what.format(found, axis.lower()), found, device, most, f"{name}_{axis}", remedy)


def _refuse(what: str, value: int, device: Device, limit: int, name: str, remedy: str) -> NoReturn:
    raise LaunchConfigError(
        what, value=value, limit=f"{device} allows {limit} ({name})", remedy=remedy
    )
