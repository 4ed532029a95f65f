"""The card of a device array."""

from __future__ import annotations

from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.display import shown_values
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.html import Html, card, element, facts_table

__all__ = ["array_card"]

_LAYOUTS = {"C": "C contiguous", "F": "Fortran contiguous", "A": "strided"}


def array_card(array: DeviceArray) -> Html:
    """Return the card of an array: what it is, where it is, and its values at the edges."""
    extents = " × ".join(map(str, array.shape)) or "scalar"
    found = shown_values(array)
    values = (
        element("p", found.problem)
        if found.text is None
        else element("pre", element("span", found.text, class_="row"))
    )
    return card(
        f"{type(array).__name__} {extents}, {array.dtype}, on {array.device}",
        facts_table(
            (
                ("shape", extents),
                ("dtype", array.dtype),
                ("device", f"{array.device} ({array.device.name})"),
                ("place", _place(array)),
                ("layout", _LAYOUTS[array.layout]),
                ("strides", None if array.layout == "C" else f"{array.strides} bytes"),
                ("size", format_bytes(array.nbytes)),
            )
        ),
        values,
    )


def _place(array: DeviceArray) -> str:
    """Say where the first element is, and who may write it."""
    if array.is_closed:
        return "closed"
    place = f"{array.location:#x}" if isinstance(array.location, int) else str(array.location)
    return f"{place}, read-only" if array.is_read_only else place
