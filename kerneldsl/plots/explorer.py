"""Explorer of occupancies: sliders in a notebook, a picture and words everywhere else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import Any

from kerneldsl.cards.bundle import is_html_shown
from kerneldsl.contract import Device
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ToolMissingError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.planner.block_limits import KernelResources
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.planner.block_occupancy import occupancy as held_by
from kerneldsl.planner.limits import (
    COMPUTE_CAPABILITIES,
    RULES,
    ComputeCapability,
    DeviceOccupancyLimits,
)
from kerneldsl.plots.occupancy import import_pyplot
from kerneldsl.plots.occupancy import occupancy as draw_occupancy
from kerneldsl.utilities.html import Html, card, element
from kerneldsl.utilities.modules import imported
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["OccupancyExplorer", "explore_occupancy"]

#: Fewest registers of a thread on the slider; compilers give no fewer.
_FEWEST_REGISTERS = 16
_SHARED_STEP = 256


class _Sliders:
    """Sliders that change an explorer, and what it shows below them.

    - `explorer`: the explorer that they change.
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


_HTML, _PLAIN = "text/html", "text/plain"
#: Initial values of an explorer.
_CAPABILITY, _BLOCK_THREADS, _REGISTERS = (9, 0), 256, 32
#: Number to the limit of a device that it is at most.
_MOST = {
    "registers": "max_registers_per_thread",
    "block_threads": "max_threads_per_block",
    "shared_bytes": "max_shared_memory_per_block_optin",
}


@shorten_errors
def explore_occupancy(
    of: Occupancy | DeviceOccupancyLimits | Device | ComputeCapability = _CAPABILITY,
    *,
    block_threads: int | None = None,
    registers: int | None = None,
    shared_bytes: int | None = None,
) -> OccupancyExplorer:
    """Explore what a multiprocessor holds, with sliders for what a block takes.

    At the end of a notebook's cell it is shown with sliders for threads of a block, registers and
    shared memory, and with a choice of compute capabilities. This needs ipywidgets. Pages without a
    running notebook kernel show the curves and the text, and a terminal shows the text.

    Parameters
    ----------
    of : Occupancy, DeviceOccupancyLimits, Device or tuple of int
        The start: ``kernel.explain(…).occupancy`` with its kernel and block, a device, or a compute
        capability, which needs no device.
    block_threads, registers, shared_bytes : int, optional
        Threads of a block, registers of a thread, and bytes of shared memory of a block, static and
        dynamic. By default those of `of`, or 256, 32 and 0.

    Returns
    -------
    OccupancyExplorer

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `of` is of another type or too little is known of it, or a number is out of range.

    Examples
    --------
    >>> explorer = explore_occupancy((9, 0), block_threads=160, registers=80)
    >>> print(explorer.found.summary())
    4 blocks of 160 threads at once, 20 of 64 warps: occupancy 31 %, limited by registers.
    >>> explorer.change(registers=72)
    >>> explorer.found.active_blocks
    5

    References
    ----------
    NVIDIA Nsight Compute documentation, "Occupancy Calculator".
    """
    explorer = OccupancyExplorer(_begin(of))
    explorer.change(block_threads=block_threads, registers=registers, shared_bytes=shared_bytes)
    return explorer


def _begin(of: Any) -> Occupancy:
    if isinstance(of, Occupancy):
        return of
    if isinstance(of, DeviceOccupancyLimits):
        limits = of
    elif isinstance(of, Device):
        limits = DeviceOccupancyLimits.from_device(of)
    elif isinstance(of, tuple):
        limits = DeviceOccupancyLimits.for_compute_capability(of)
    else:
        raise ArgumentTypeError(
            f"{safe_repr(of)} has no occupancy to explore",
            value=of,
            limit="It must be an Occupancy, a device, its DeviceOccupancyLimits, or a compute "
            "capability",
            remedy="Give kernel.explain(…).occupancy, or a compute capability such as (9, 0)",
        )
    return _held(limits, KernelResources(registers=_REGISTERS), _BLOCK_THREADS, 0)


def _read(name: str, value: Any, present: int, least: int, limits: DeviceOccupancyLimits) -> int:
    """Return a number that is requested, or the present one."""
    found = present if value is None else as_int(value)
    if found is None:
        raise wrong_type(name, value, "It must be an int")
    attribute = _MOST[name]
    most = getattr(limits, attribute)
    if found != present and not least <= found <= most:
        major, minor = limits.compute_capability
        raise ArgumentValueError(
            f"{name} is {found}",
            value=found,
            limit=f"It must be {least} to {most} on compute capability {major}.{minor} "
            f"({attribute})",
            remedy="Give a number in this range",
        )
    return found


def _held(
    limits: DeviceOccupancyLimits, kernel: KernelResources, block_threads: int, dynamic: int
) -> Occupancy:
    """Return the occupancy of a kernel that opts in to all the shared memory there is."""
    most = max(0, limits.max_shared_memory_per_block_optin - kernel.static_shared_bytes)
    return held_by(limits, replace(kernel, max_dynamic_shared_bytes=most), block_threads, dynamic)


class OccupancyExplorer:
    """An occupancy with a changeable device and block; :func:`explore_occupancy` makes one.

    Parameters
    ----------
    found : Occupancy
        The occupancy of the present choice.
    """

    def __init__(self, found: Occupancy) -> None:
        self._found = found
        self._sliders: _Sliders | None = None

    @property
    def found(self) -> Occupancy:
        """Occupancy of the present choice, by :func:`kerneldsl.planner.block_occupancy`."""
        return self._found

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes, static and dynamic."""
        return self._found.kernel.static_shared_bytes + self._found.dynamic_shared_bytes

    @shorten_errors
    def change(
        self,
        *,
        compute_capability: ComputeCapability | None = None,
        block_threads: int | None = None,
        registers: int | None = None,
        shared_bytes: int | None = None,
    ) -> None:
        """Change what is looked at; sliders that are shown follow.

        Parameters
        ----------
        compute_capability : tuple of int, optional
            Of another device.
        block_threads, registers, shared_bytes : int, optional
            As of :func:`explore_occupancy`; shared memory below the kernel's static one takes that
            for less.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If a number is no integer, or out of the device's range.
        """
        found = self._found
        limits, kernel = found.device, found.kernel
        if compute_capability is not None and compute_capability != limits.compute_capability:
            limits = DeviceOccupancyLimits.for_compute_capability(compute_capability)
        # A value that the other device cannot have stays, and is reported; new values must be in
        # its range.
        registers = _read("registers", registers, kernel.registers, 0, limits)
        block_threads = _read("block_threads", block_threads, found.block_threads, 1, limits)
        shared_bytes = _read("shared_bytes", shared_bytes, self.shared_bytes, 0, limits)
        kernel = replace(kernel, registers=registers)
        dynamic = found.dynamic_shared_bytes
        if shared_bytes != self.shared_bytes:
            static = min(kernel.static_shared_bytes, shared_bytes)
            kernel = replace(kernel, static_shared_bytes=static)
            dynamic = shared_bytes - static
        self._found = _held(limits, kernel, block_threads, dynamic)
        if self._sliders is not None:
            self._sliders.follow()

    def figure(self) -> Any:
        """Return the curves as a figure of Matplotlib, drawn by :func:`kerneldsl.plots.occupancy`.

        Raises
        ------
        ToolMissingError
            If Matplotlib is not installed.
        """
        figure = draw_occupancy(self._found)[0].figure
        import_pyplot().close(figure)  # it is shown here, not at the end of the cell
        return figure

    def widget(self) -> Any:
        """Return the sliders with what they show, a widget of ipywidgets.

        Raises
        ------
        ToolMissingError
            If ipywidgets or Matplotlib is not installed.
        """
        if self._sliders is None:
            self._sliders = _Sliders(self)
        return self._sliders.box

    def html(self) -> Html:
        """Return what a page without JavaScript shows: the words, and the curves as a picture.

        Raises
        ------
        ToolMissingError
            If Matplotlib is not installed.
        """
        file = BytesIO()
        self.figure().savefig(file, format="png", dpi=100)
        source = "data:image/png;base64," + b64encode(file.getvalue()).decode()
        major, minor = self._found.device.compute_capability
        words = str(self).splitlines()
        picture = f'<img src="{source}" style="max-width:100%" alt="{words[0]}">'
        return card(
            f"Occupancy, compute capability {major}.{minor}",
            *(element("p", line) for line in words),
            Html(picture),
        )

    def __str__(self) -> str:
        return self._found.explain()

    def __repr__(self) -> str:
        found = self._found
        return (
            f"explore_occupancy({found.device.compute_capability}, "
            f"block_threads={found.block_threads}, registers={found.kernel.registers}, "
            f"shared_bytes={self.shared_bytes})"
        )

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, Any]:
        """Return the sliders where a kernel of Jupyter runs this, and the static forms beside them.

        What takes a package that is missing is left out.
        """

        def is_wanted(kind: str) -> bool:
            return (include is None or kind in include) and not (exclude and kind in exclude)

        found: dict[str, Any] = {}
        if _is_in_notebook():
            with suppress(ToolMissingError):
                found |= self.widget()._repr_mimebundle_()
        if is_wanted(_HTML) and (include is not None or is_html_shown()):
            with suppress(ToolMissingError):
                found[_HTML] = str(self.html())
        found[_PLAIN] = str(self)
        return {kind: value for kind, value in found.items() if is_wanted(kind)}


def _is_in_notebook() -> bool:
    ipython = imported("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
