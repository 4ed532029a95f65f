"""Matplotlib, imported when something is drawn, and the colors of all plots."""

from __future__ import annotations

from typing import Any, TypeAlias

from kerneldsl.errors import ArgumentTypeError, ToolMissingError
from kerneldsl.errors.values import safe_repr
from kerneldsl.utilities.figures import suit_any_page

__all__ = ["COLORS", "FAINT", "MARK", "Axes", "axes_or_new", "import_pyplot", "new_axes"]

#: Axes of Matplotlib.
Axes: TypeAlias = Any

#: Colors that people with color-blindness tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
#: Of lines that are no data, and of the one thing that is marked.
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
