"""Cards of devices, of their descriptions, and of streams."""

from __future__ import annotations

from kerneldsl.contract import Device, DeviceInfo
from kerneldsl.contract.info_display import attribute_rows, short_rows
from kerneldsl.streams.streams import Stream
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.html import Html, card, facts_table, fold, table

__all__ = ["device_card", "info_card", "stream_card"]


def device_card(device: Device) -> Html:
    """Return the card of a device: what is known of it without asking it."""
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
    """Return the card of a stream: what it is, without asking the device how far it has come."""
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
