"""The landscape of a launch's plans: the predicted time of each, by two of its choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.plots.occupancy import MARK, Axes, axes_or_new
from kerneldsl.utilities.figures import suit_any_page
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["landscape", "times_by"]

#: Choices that every plan has.
_CHOICES = ("block", "items", "vector", "order")


@shorten_errors
def landscape(
    plans: Sequence[LaunchPlan],
    x: str | None = None,
    y: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted times of a launch's plans as a map with the best cell framed.

    A cell is the fastest of the plans with its two values; if none has them it stays empty.

    Parameters
    ----------
    plans : sequence of LaunchPlan
        What ``kernel.forall(n).plans(…)`` returned.
    x, y : str, optional
        Choices along the two axes: a parameter of the kernel's space, or ``"block"``, ``"items"``,
        ``"vector"``, ``"order"``. By default the first two parameters that vary, or else the block
        and items of a thread.
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
        If there is no plan with a predicted time, something is no plan, or plans have no such
        choice.

    See Also
    --------
    kerneldsl.Launch.plans : All plans of a launch.
    """
    found = _predicted(plans)
    names = _varied(found)
    x, y = x or names[0], y or next(each for each in names if each != (x or names[0]))
    times = times_by(found, x, y)
    columns, rows = (sorted({key[k] for key in times}, key=_order) for k in (0, 1))
    is_new = ax is None
    ax = axes_or_new(ax, (1.6 + 0.62 * len(columns), 1.2 + 0.45 * len(rows)))
    grid = [[times.get((c, r), math.nan) / 1e3 for c in columns] for r in rows]
    best = min(times, key=lambda key: times[key])
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    values = [time / 1e3 for time in times.values()]
    lowest, highest = min(values), max(values)
    shown = ax.imshow(
        grid,
        origin="lower",
        aspect="auto",
        cmap="viridis_r",
        norm=LogNorm(lowest, max(highest, lowest * 1.01)),
    )
    for (column, row), time in times.items():
        at = columns.index(column), rows.index(row)
        is_dark = time / 1e3 > math.sqrt(lowest * highest)
        ax.text(
            *at,
            _microseconds(time),
            ha="center",
            va="center",
            fontsize="x-small",
            color="white" if is_dark else "black",
        )
    corner = columns.index(best[0]) - 0.5, rows.index(best[1]) - 0.5
    ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=MARK, linewidth=2.5))
    ax.set_xticks(range(len(columns)), [str(each) for each in columns])
    ax.set_yticks(range(len(rows)), [str(each) for each in rows])
    ax.set(xlabel=x, ylabel=y, title=f"{found[0].kernel} on {found[0].arch}: predicted µs")
    bar = ax.figure.colorbar(shown, ax=ax, label="µs", ticks=[lowest, highest])
    bar.ax.set_yticklabels([_microseconds(each * 1e3) for each in (lowest, highest)])
    bar.ax.minorticks_off()
    if is_new:
        suit_any_page(ax.figure)
    return ax


def _microseconds(time_ns: float) -> str:
    """Return a time as microseconds of three digits, or of all before the point."""
    return f"{time_ns / 1e3:.3g}" if time_ns < 999.5e3 else f"{time_ns / 1e3:.0f}"


def times_by(plans: Sequence[LaunchPlan], x: str, y: str) -> dict[tuple[Any, Any], float]:
    """Return the least predicted time, in nanoseconds, for each pair of two choices' values."""
    times: dict[tuple[Any, Any], float] = {}
    for plan in plans:
        key = _choice(plan, x), _choice(plan, y)
        assert plan.predicted_ns is not None
        times[key] = min(plan.predicted_ns, times.get(key, math.inf))
    return times


def _predicted(plans: Any) -> list[LaunchPlan]:
    given = list(plans) if isinstance(plans, Sequence) else [plans]
    for each in given:
        if not isinstance(each, LaunchPlan):
            raise ArgumentTypeError(
                f"{safe_repr(each)} is not a plan",
                value=each,
                limit="A landscape is drawn of plans",
                remedy="Give what kernel.forall(n).plans(…) returns",
            )
    found = [each for each in given if each.predicted_ns is not None]
    if not found:
        raise ArgumentValueError(
            f"none of {len(given)} plans has a predicted time",
            value=plans,
            limit="Times are predicted for launches of some index on devices that are known",
            remedy='Get the plans of one: kernel.forall(n).plans(…, arch="sm_90")',
        )
    return found


def _varied(plans: Sequence[LaunchPlan]) -> list[str]:
    """Return names of choices, those first that differ among the plans."""
    names = [*(name for name, _ in plans[0].parameters), *_CHOICES]
    return sorted(
        dict.fromkeys(names), key=lambda name: len({_choice(each, name) for each in plans}) == 1
    )


def _choice(plan: LaunchPlan, name: str) -> Any:
    """Return a plan's value of a choice, a parameter's before another of that name.

    A block of one axis is a number.
    """
    x, y, z = plan.block_dim
    choices: dict[str, Any] = {
        "block": x if y == z == 1 else plan.block_dim,
        "items": math.prod(plan.items),
        "vector": plan.vector,
        "order": plan.order,
        **dict(plan.parameters),
    }
    if name not in choices:
        raise ArgumentValueError(
            f"plans have no choice {safe_repr(name)}",
            value=name,
            limit="They have " + ", ".join(choices),
            remedy="Name one of those",
        )
    return choices[name]


def _order(value: Any) -> tuple[Any, ...]:
    """Return a key that orders numbers by size and other values by their text."""
    is_number = isinstance(value, int | float)
    return (not is_number, value if is_number else str(value))
