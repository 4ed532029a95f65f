"""Cards of arrays, devices, streams and spaces of compile-time parameters."""

from __future__ import annotations

from kerneldsl.contract import Device, DeviceInfo
from kerneldsl.contract.info_display import attribute_rows, short_rows
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.display import shown_values
from kerneldsl.planner.space import Member, Space
from kerneldsl.streams.streams import Stream
from kerneldsl.utilities.formatting import format_bytes, format_count
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, table

__all__ = ["array_card"]

_LAYOUTS = {"C": "C contiguous", "F": "Fortran contiguous", "A": "strided"}


def array_card(array: DeviceArray) -> Html:
    """Return the card of an array: its properties, its place, and its values at the edges."""
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


def device_card(device: Device) -> Html:
    """Return the card of a device: what is known of it without a call."""
    limits = device.limits
    return card(
        f"{device} · {device.name}",
        facts_table(
            (
                ("kind", device.kind),
                ("architecture", device.arch),
                ("cannot be used", device.unusable_reason()),
                ("threads of a block", limits.max_threads_per_block),
                ("shared memory of a block", format_bytes(limits.max_shared_memory_per_block)),
                ("multiprocessors", limits.multiprocessor_count),
                ("threads of a warp", limits.warp_size),
            )
        ),
    )


def info_card(info: DeviceInfo) -> Html:
    """Return the card of a description: the short table, and every attribute folded."""
    every = table(("attribute", "what it is", "value"), attribute_rows(info))
    return card(
        f"{info} · {info.name}",
        facts_table(short_rows(info)),
        fold("Every attribute that is not live", every),
    )


def stream_card(stream: Stream) -> Html:
    """Return the card of a stream: what it is, without its progress."""
    return card(
        f"Stream on {stream.device}",
        facts_table(
            (
                ("is", repr(stream)),
                ("device", f"{stream.device} ({stream.device.name})"),
                ("priority", stream.priority),
                ("waits for the default stream", "yes" if stream.is_blocking else "no"),
            )
        ),
    )


#: Members that the table lists.
_SHOWN = 64


def space_card(space: Space) -> Html:
    """Return the card of a space: its parameters, and its members folded."""
    rows = [
        (*(value for _, value in member.values), space.tile(member), _shared(space, member))
        for member in space.members[:_SHOWN]
    ]
    more = len(space) - len(rows)
    return card(
        f"Space of {format_count(len(space), 'member')}",
        facts_table(
            (name, ", ".join(map(str, values))) for name, values in space.parameters.items()
        ),
        fold(
            "Members",
            table((*space.parameters, "indices of a block", "shared memory"), rows),
            element("p", f"and {more} more") if more else Html(),
        ),
    )


def _shared(space: Space, member: Member) -> str | None:
    nbytes = space.shared_bytes(member)
    return format_bytes(nbytes) if nbytes else None


def member_card(member: Member) -> Html:
    return card(
        "Member of a space",
        facts_table((*member.values, ("threads of a block", member.block_threads))),
    )
