"""Colors of Matplotlib's figures that can be read on light and on dark pages."""

from __future__ import annotations

from typing import Any

__all__ = ["INK", "suit_any_page"]

#: Colour of text and lines: a contrast of 4.5 with white, and of 4.1 with the darkest pages.
INK = "#767676"


def suit_any_page(figure: Any) -> None:
    """Make the background of a figure transparent, and its axes and their names gray.

    Make legends with ``labelcolor=INK, framealpha=0``.

    References
    ----------
    W3C, WCAG 2.1, section 1.4.3 "Contrast (Minimum)".
    """
    figure.patch.set_alpha(0.0)
    for axes in figure.axes:
        axes.patch.set_alpha(0.0)
        axes.tick_params(which="both", colors=INK)
        for line in axes.spines.values():
            line.set_edgecolor(INK)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_color(INK)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_offset_text().set_color(INK)
