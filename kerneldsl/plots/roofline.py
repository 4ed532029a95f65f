"""Launches under the roofs of a device: operations per second against operations per byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.explain.explanation import Explanation
from kerneldsl.plots.occupancy import COLORS, FAINT, Axes, axes_or_new
from kerneldsl.utilities.figures import INK
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["Point", "points_of", "roofline"]

#: Levels at which bytes are counted, with the marker of points and the line of the roof.
_LEVELS = {"memory": ("o", "-"), "L2": ("s", "--")}


class Point(NamedTuple):
    """A launch in the plot.

    Parameters
    ----------
    label : str
        What it is called.
    level : str
        ``"memory"`` or ``"L2"``: where its bytes are counted.
    intensity : float
        Operations on floats for each byte.
    flops_per_s : float
        Operations in a second: what the roof allows, or what was measured.
    """

    label: str
    level: str
    intensity: float
    flops_per_s: float


@shorten_errors
def roofline(
    *explanations: Explanation,
    labels: Sequence[str] | None = None,
    levels: Sequence[str] = ("memory",),
    seconds: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw launches under the roofs of their device.

    A launch is a point at its intensity, as high as the roofs allow; one that was measured is as
    high as it came.

    Parameters
    ----------
    *explanations : Explanation
        Made by ``kernel.explain(…)``, all for one device.
    labels : sequence of str, optional
        What each is called; by default by the names of their kernels.
    levels : sequence of {"memory", "L2"}
        The levels at which bytes are counted, each with its own roof. ``"memory"`` counts each
        sector once, as with caches that never fill. ``"L2"`` counts the sectors of every request
        that reads, as without a cache of level 1, and sectors that are written once.
    seconds : mapping of str to float, optional
        Measured times, by label.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ToolMissingError
        If Matplotlib is not installed.
    ArgumentTypeError, ArgumentValueError
        If there is no explanation, or one has no operation on floats or moves nothing. If devices
        differ. If labels, levels or seconds do not fit.

    References
    ----------
    S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
    Multicore Architectures", Communications of the ACM 52 (2009); C. Yang, T. Kurth, S. Williams,
    "Hierarchical Roofline Analysis for GPUs" (2020), for more than one level.
    """
    points = points_of(explanations, labels, levels, seconds)
    ax = axes_or_new(ax, (6.4, 4.0))
    roofs = explanations[0].roofline
    bandwidths = {"memory": roofs.memory_bytes_per_s, "L2": roofs.l2_bytes_per_s}
    intensities = [each.intensity for each in points]
    left = min(*intensities, roofs.peak_flops_per_s / max(bandwidths.values())) / 4
    right = max(*intensities, roofs.ridge) * 8
    for level in levels:
        slope = bandwidths[level]
        ridge = roofs.peak_flops_per_s / slope
        line = [left, ridge, right]
        ax.plot(
            line,
            [min(x * slope, roofs.peak_flops_per_s) for x in line],
            _LEVELS[level][1],
            color=FAINT,
            label=f"{level}: {slope / 1e12:.2g} TB/s; peak {roofs.peak_flops_per_s / 1e12:.3g} "
            "TFLOP/s",
        )
    colors = dict(zip(dict.fromkeys(each.label for each in points), COLORS * 9, strict=False))
    for point in points:
        name = point.label if len(levels) == 1 else f"{point.label}, {point.level}"
        ax.plot(
            [point.intensity],
            [point.flops_per_s],
            _LEVELS[point.level][0],
            color=colors[point.label],
            markersize=8,
            linestyle="none",
            label=name,
        )
        ax.axvline(point.intensity, color=colors[point.label], linewidth=0.6, alpha=0.4)
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(left, right),
        xlabel="operations on floats for each byte",
        ylabel="operations in a second",
        title=f"Roofline of {roofs.device}",
    )
    ax.legend(loc="lower right", fontsize="small", labelcolor=INK, framealpha=0)
    return ax


def points_of(
    explanations: Sequence[Explanation],
    labels: Sequence[str] | None,
    levels: Sequence[str],
    seconds: Mapping[str, float] | None,
) -> list[Point]:
    """Return the points of a plot; raises what :func:`roofline` raises."""
    _check_explanations(explanations)
    names = [each.kernel for each in explanations] if labels is None else list(labels)
    if len(names) != len(explanations) or not all(type(each) is str for each in names):
        raise ArgumentValueError(
            f"labels is {safe_repr(labels)}",
            value=labels,
            limit=f"There must be a text for each of the {len(explanations)} explanations",
            remedy="Leave labels out for the names of the kernels",
        )
    if isinstance(levels, str) or not levels or not all(each in _LEVELS for each in levels):
        raise ArgumentValueError(
            f"levels is {safe_repr(levels)}",
            value=levels,
            limit="Bytes are counted in " + " or ".join(map(repr, _LEVELS)),
            remedy='Give a tuple as ("memory", "L2")',
        )
    measured = dict(seconds or {})
    unknown = [name for name in measured if name not in names]
    if unknown or not all(value > 0 for value in measured.values()):
        raise ArgumentValueError(
            f"seconds is {safe_repr(seconds)}",
            value=seconds,
            limit="It maps labels to positive seconds; labels are " + ", ".join(names),
            remedy="Give times by the labels of the explanations",
        )
    return [
        _point(name, each, level, measured.get(name))
        for name, each in zip(names, explanations, strict=True)
        for level in levels
    ]


def _check_explanations(explanations: Sequence[Explanation]) -> None:
    for each in explanations:
        if not isinstance(each, Explanation):
            raise ArgumentTypeError(
                f"{safe_repr(each)} is not an explanation",
                value=each,
                limit="A roofline is drawn of explanations",
                remedy="Make one with kernel.explain(…)",
            )
        if not each.flops() or not each.roofline.intensity:
            raise ArgumentValueError(
                f"{each.kernel} cannot be drawn on a roofline",
                value=each,
                limit="A point needs operations on floats and bytes of device memory; this launch "
                f"has {each.flops():.3g} and {_moved(each):.3g}",
                remedy="Leave it out",
            )
    devices = {each.roofline.device for each in explanations}
    if len(devices) != 1:
        raise ArgumentValueError(
            f"explanations for {len(devices)} devices: {', '.join(sorted(devices)) or 'none'}",
            value=devices,
            limit="A roofline is that of one device",
            remedy="Give explanations that were made with one arch=",
        )


def _moved(each: Explanation) -> float:
    return each.dram_read_bytes + each.dram_written_bytes


def _point(name: str, found: Explanation, level: str, seconds: float | None) -> Point:
    roofs = found.roofline
    if level == "memory":
        nbytes, bandwidth = _moved(found), roofs.memory_bytes_per_s
    else:
        requested = sum(each.requested_bytes for each in found.arrays)
        nbytes, bandwidth = requested + found.dram_written_bytes, roofs.l2_bytes_per_s
    flops = found.flops()
    if seconds is None:
        seconds = max(nbytes / bandwidth, roofs.arithmetic_s)
    return Point(name, level, flops / nbytes, flops / seconds)
