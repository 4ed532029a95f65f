"""A description of a device for people: its fields with their units, a short table, a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.contract.info_fields import Field
from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.utilities.formatting import format_bytes, text_table

if TYPE_CHECKING:
    from kerneldsl.contract.info import DeviceInfo

__all__ = [
    "DEVICE_HEADERS",
    "as_text",
    "attribute_rows",
    "device_row",
    "format_value",
    "known",
    "short_rows",
]


#: Headers of a table of devices, except for their memory.
DEVICE_HEADERS = ("device", "name", "kind", "arch", "processors", "bandwidth")

#: Fields of the short table. Those that are not available are left out.
_SHORT = (
    "name",
    "kind",
    "arch",
    "compute_capability",
    "multiprocessor_count",
    "physical_core_count",
    "usable_core_count",
    "vector_extension",
    "clock_rate_khz",
    "total_memory_bytes",
    "peak_bandwidth_bytes_per_s",
    "l2_cache_bytes",
    "l3_cache_bytes",
    "max_threads_per_block",
    "max_shared_memory_per_block_optin_bytes",
    "uuid",
    "pci_address",
)


def format_value(field: Field[Any], value: Any) -> str:
    """Write a value of an attribute for a person to read.

    Parameters
    ----------
    field : Field
        The attribute; its unit decides.
    value : object
        Its value.

    Returns
    -------
    str
        Such as ``"140 GiB"``, ``"1.98 GHz"``, ``"9.0"`` or ``"yes"``.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.name == "processes":
        used = (f"{pid} ({'?' if b is None else format_bytes(b)})" for pid, b in value)
        return ", ".join(used) or "none"
    if isinstance(value, tuple):
        if field.name == "compute_capability" or field.name.endswith("_version"):
            return ".".join(map(str, value))
        numbers = all(isinstance(item, int) for item in value)
        return (" × " if numbers else ", ").join(map(str, value))
    if field.unit == "bytes":
        return format_bytes(value)
    if field.unit == "bytes/s":
        return f"{value / 1e12:.3g} TB/s" if value >= 1e12 else f"{value / 1e9:.3g} GB/s"
    if field.unit == "kHz":
        return f"{value / 1e6:.4g} GHz" if value >= 1_000_000 else f"{value / 1e3:.4g} MHz"
    number = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{number} {field.unit}".strip()


def as_text(info: DeviceInfo) -> str:
    """Return the short table; reads nothing live."""
    return text_table((str(info), ""), short_rows(info))


def short_rows(info: DeviceInfo) -> list[tuple[str, str]]:
    """Return the same as names and values."""
    fields = {f.name: f for f in info.fields(is_live=False)}
    shown = ((name, _text_of(info, fields[name])) for name in _SHORT if name in fields)
    return [(name, text) for name, text in shown if text is not None]


def attribute_rows(info: DeviceInfo) -> list[tuple[str, str, str]]:
    """Return every attribute that is not live: name, summary, and its value or why it has none."""
    return [
        (f.name, f.summary, text if text is not None else f"not available: {info.why(f.name)}")
        for f in info.fields(is_live=False)
        for text in [_text_of(info, f)]
    ]


def known(info: DeviceInfo, name: str) -> Any:
    """Return an attribute of a device, or ``None`` if it is unavailable."""
    try:
        return info.get(name)
    except AttributeUnavailableError:
        return None


def device_row(info: DeviceInfo) -> tuple[object, ...]:
    """Return a device's row of a table below `DEVICE_HEADERS`; reads nothing live."""
    bandwidth = known(info, "peak_bandwidth_bytes_per_s")
    return (
        str(info),
        info.name,
        info.kind,
        info.arch,
        known(info, "multiprocessor_count") or known(info, "usable_core_count"),
        None if bandwidth is None else f"{bandwidth / 1e9:.0f} GB/s",
    )


def _text_of(info: DeviceInfo, field: Field[Any]) -> str | None:
    try:
        return format_value(field, info.get(field.name))
    except AttributeUnavailableError:
        return None
