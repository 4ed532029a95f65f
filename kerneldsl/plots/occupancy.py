"""Occupancy as NVIDIA's calculator draws it, and Matplotlib and the colors of all plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ToolMissingError
from kerneldsl.errors.values import safe_repr
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.planner.block_occupancy import occupancy as held_by
from kerneldsl.utilities.figures import suit_any_page
from kerneldsl.utilities.formatting import format_percent
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["COLORS", "FAINT", "MARK", "Axes", "axes_or_new", "curves", "import_pyplot", "occupancy"]


#: Registers a thread from one point of a curve to the next, and bytes of shared memory.
_REGISTER_STEP, _SHARED_STEP = 4, 1024
#: Inches of the three plots.
_SIZE = (9.0, 2.8)


@shorten_errors
def occupancy(found: Occupancy, *, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Draw the warps that a multiprocessor holds, against what a block takes.

    Three plots: by threads of a block, by registers a thread, and by shared memory of a block. In
    each the other two are as they are in `found`, which is marked.

    Parameters
    ----------
    found : Occupancy
        ``kernel.explain(…).occupancy``, or what :func:`kerneldsl.planner.block_occupancy` gives.
    axes : sequence of three matplotlib.axes.Axes, optional
        Where to draw; by default beside each other in a new figure.

    Returns
    -------
    tuple of matplotlib.axes.Axes

    Raises
    ------
    ToolMissingError
        If Matplotlib is not installed.
    ArgumentTypeError, ArgumentValueError
        If `found` is no occupancy, or there are not three axes.

    References
    ----------
    NVIDIA Nsight Compute documentation, "Occupancy Calculator", section "Graphs".
    """
    if not isinstance(found, Occupancy):
        raise ArgumentTypeError(
            f"{safe_repr(found)} is not an occupancy",
            value=found,
            limit="The plot needs a device, a kernel's resources and a block",
            remedy="Pass kernel.explain(…).occupancy, which needs an assembler, or "
            "kerneldsl.planner.occupancy(device, resources, block_threads)",
        )
    axes = _three(axes)
    for ax, (label, values, warps, now) in zip(axes, curves(found), strict=True):
        ax.step(values, warps, where="mid", color=COLORS[0])
        ax.plot([now], [found.active_warps], "o", color=MARK)
        ax.axhline(found.device.max_warps_per_multiprocessor, color=FAINT, linewidth=0.8)
        ax.set(xlabel=label, ylim=(0, found.device.max_warps_per_multiprocessor * 1.08))
        ax.label_outer()
    axes[0].set_ylabel("warps at once")
    limit = ", ".join(each.replace("_", " ") for each in found.limiters)
    axes[1].set_title(f"{format_percent(found.fraction, '.0f')}, limited by {limit}")
    return tuple(axes)


def _three(axes: Any) -> Sequence[Axes]:
    if axes is None:
        return new_axes(_SIZE, 3)
    try:
        given = list(axes)
    except TypeError:
        given = []
    if len(given) != 3 or not all(hasattr(ax, "set_xscale") for ax in given):
        raise ArgumentValueError(
            f"axes is {safe_repr(axes)}",
            value=axes,
            limit="There are three plots",
            remedy="Give three axes, as of matplotlib.pyplot.subplots(1, 3)",
        )
    return given


def curves(found: Occupancy) -> list[tuple[str, list[float], list[int], float]]:
    """Return label, values, warps and the present value of each of the three plots."""
    device, kernel = found.device, found.kernel
    threads, dynamic = found.block_threads, found.dynamic_shared_bytes
    warp = device.warp_size
    largest = min(device.max_threads_per_block, kernel.max_threads_per_block)
    blocks = range(warp, largest + 1, warp)
    registers = range(_REGISTER_STEP * 4, 256, _REGISTER_STEP)
    most = device.max_shared_memory_per_block_optin - kernel.static_shared_bytes
    opted_in = replace(kernel, max_dynamic_shared_bytes=most)
    shared = range(0, most + 1, _SHARED_STEP)
    static = kernel.static_shared_bytes

    def warps(values: range, ask: Callable[[int], Occupancy]) -> list[int]:
        return [ask(value).active_warps for value in values]

    return [
        (
            "threads of a block",
            [*blocks],
            warps(blocks, lambda n: held_by(device, kernel, n, dynamic)),
            threads,
        ),
        (
            "registers a thread",
            [*registers],
            warps(
                registers, lambda n: held_by(device, replace(kernel, registers=n), threads, dynamic)
            ),
            kernel.registers,
        ),
        (
            "KiB of shared memory a block",
            [(static + n) / 1024 for n in shared],
            warps(shared, lambda n: held_by(device, opted_in, threads, n)),
            (static + dynamic) / 1024,
        ),
    ]


#: Axes of Matplotlib.
Axes: TypeAlias = Any

#: Colors that people with color-blindness tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
#: Colours of lines that are no data, and of the marked object.
FAINT, MARK = "#8c959f", "#d55e00"


def import_pyplot() -> Any:
    """Return the module ``matplotlib.pyplot``.

    - raises `ToolMissingError` if Matplotlib is not installed.

    References
    ----------
    M. Okabe, K. Ito, "Color Universal Design" (2008), for `COLORS`.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ToolMissingError(
            "Matplotlib is not installed",
            limit="Plots are drawn with it",
            remedy='pip install "kerneldsl[plots]"',
        ) from error
    return pyplot


def new_axes(size: tuple[float, float], count: int = 1) -> list[Axes]:
    """Return axes side by side, in a new figure of a size in inches."""
    made = import_pyplot().subplots(
        1, count, figsize=size, sharey=True, layout="constrained", squeeze=False
    )
    suit_any_page(made[0])
    return list(made[1][0])


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given axes, or those of a new figure of a size in inches.

    A new figure suits light and dark pages; given axes keep their colors.

    - raises `ArgumentTypeError` if they are no axes of Matplotlib.
    """
    if ax is None:
        return new_axes(size)[0]
    if not hasattr(ax, "set_xscale"):
        raise ArgumentTypeError(
            f"ax is {safe_repr(ax)}",
            value=ax,
            limit="It must be axes of Matplotlib, or None for new ones",
            remedy="Take them from matplotlib.pyplot.subplots()",
        )
    return ax
