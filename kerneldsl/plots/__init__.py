"""Plots of what explanations and plans know, with Matplotlib.

``pip install "kerneldsl[plots]"``. Each function draws into axes of Matplotlib and returns them, so
that titles, limits and files are Matplotlib's own affair. Nothing is measured or launched.

- :func:`roofline`: launches under the roofs of a device;
- :func:`occupancy`: the warps that a multiprocessor holds, by block, registers and shared memory;
- :func:`explore_occupancy`: the same with sliders in a notebook;
- :func:`landscape`: the predicted times of a launch's plans.
"""

from __future__ import annotations

from kerneldsl.plots.explorer import OccupancyExplorer, explore_occupancy
from kerneldsl.plots.landscape import landscape
from kerneldsl.plots.occupancy import occupancy
from kerneldsl.plots.roofline import roofline

__all__ = ["OccupancyExplorer", "explore_occupancy", "landscape", "occupancy", "roofline"]
