"""Sliders of the explorer of occupancies, by ipywidgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError, ToolMissingError
from kerneldsl.planner.limits import COMPUTE_CAPABILITIES, RULES

if TYPE_CHECKING:
    from kerneldsl.plots.explorer import OccupancyExplorer

__all__ = ["Sliders"]

#: Fewest registers of a thread on the slider; compilers give no fewer.
_FEWEST_REGISTERS = 16
_SHARED_STEP = 256


class Sliders:
    """Sliders that change an explorer, and what it shows below them.

    - `explorer`: what they change.
    - raises `ToolMissingError` if ipywidgets is not installed.
    """

    def __init__(self, explorer: OccupancyExplorer) -> None:
        widgets = _import_ipywidgets()
        self._explorer = explorer
        self._is_following = False
        own = explorer.found.device.compute_capability
        known = [each for each in COMPUTE_CAPABILITIES if RULES[each].threads is not None]
        capabilities = sorted({own, *known})
        slider = {"continuous_update": False, "style": {"description_width": "12em"}}
        wide = {"layout": {"width": "40em"}, **slider}
        self.capability = widgets.Dropdown(
            options=[(f"{major}.{minor}", (major, minor)) for major, minor in capabilities],
            description="compute capability",
            style=slider["style"],
        )
        self.block_threads = widgets.IntSlider(description="threads of a block", **wide)
        self.registers = widgets.IntSlider(description="registers a thread", **wide)
        self.shared_bytes = widgets.IntSlider(
            description="bytes of shared memory", step=_SHARED_STEP, **wide
        )
        self.shown = widgets.HTML()
        self.follow()
        controls = (self.capability, self.block_threads, self.registers, self.shared_bytes)
        for each in controls:
            each.observe(self._changed, names="value")
        #: The whole, as a notebook shows it.
        self.box = widgets.VBox([*controls, self.shown])

    def follow(self) -> None:
        """Show what the explorer has now."""
        found, self._is_following = self._explorer.found, True
        try:
            device = found.device
            most = max(device.max_shared_memory_per_block_optin, self._explorer.shared_bytes)
            self.capability.value = device.compute_capability
            _put(
                self.block_threads,
                found.block_threads,
                (min(device.warp_size, found.block_threads), device.max_threads_per_block),
                step=device.warp_size,
            )
            fewest = min(_FEWEST_REGISTERS, found.kernel.registers)
            _put(self.registers, found.kernel.registers, (fewest, device.max_registers_per_thread))
            _put(self.shared_bytes, self._explorer.shared_bytes, (0, most), step=_SHARED_STEP)
            self.shown.value = str(self._explorer.html())
        finally:
            self._is_following = False

    def _changed(self, _: Any) -> None:
        if self._is_following:
            return
        try:
            self._explorer.change(
                compute_capability=self.capability.value,
                block_threads=self.block_threads.value,
                registers=self.registers.value,
                shared_bytes=self.shared_bytes.value,
            )
        except ArgumentValueError:  # of a device that had more: the slider goes back
            self.follow()


def _put(slider: Any, value: int, ends: tuple[int, int], step: int = 1) -> None:
    """Give a slider its value and its range at once."""
    least, most = ends
    with slider.hold_trait_notifications():
        slider.min, slider.max, slider.step = least, max(most, value), step
        slider.value = value


def _import_ipywidgets() -> Any:
    """Return the module ``ipywidgets``.

    - raises `ToolMissingError` if it is not installed.
    """
    try:
        import ipywidgets
    except ImportError as error:
        raise ToolMissingError(
            "ipywidgets is not installed",
            limit="Sliders are its widgets; the picture and the words need none",
            remedy='pip install "kerneldsl[notebook]"',
        ) from error
    return ipywidgets
