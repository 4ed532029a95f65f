"""``kerneldsl devices``, ``backends`` and ``default``: the devices, and the default one.

None of them imports Numba. ``kerneldsl summary`` prints the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kerneldsl.tools.cli.output import JsonOption, new_console, print_json, print_table, progress

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceInfo
    from kerneldsl.tools.detection import Backend

__all__ = [
    "backends",
    "default",
    "devices",
    "live_cells",
    "memory_text",
    "print_backends",
    "print_devices",
    "result_or_message",
]

T = TypeVar("T")

#: Live values of a device: header, name and form.
_LIVE = (
    ("busy", "utilization_percent", "{:.0f} %"),
    ("temperature", "temperature_celsius", "{:.0f} °C"),
    ("power", "power_watts", "{:.0f} W"),
    ("clock", "current_clock_mhz", "{:.0f} MHz"),
)


def backends(as_json: JsonOption = False) -> None:
    """List backends: those that this machine has, and those that kerneldsl can use."""
    from kerneldsl.tools.detection import backends as find_backends

    found = find_backends()
    if as_json:
        print_json({"backends": [backend.to_dict() for backend in found]})
        return
    print_backends(found)


def print_backends(found: Sequence[Backend]) -> None:
    """Print backends as a table, and mark simulated ones."""
    print_table(
        ("backend", "detected", "version", "usable", "why"),
        [
            (
                b.name,
                "yes" if b.is_detected else "no",
                b.version,
                "yes" if b.is_usable else "no",
                b.reason,
            )
            for b in found
        ],
        fixed=("backend", "detected", "usable"),
    )
    if any(b.is_faked for b in found):
        new_console(stderr=True).print("KERNELDSL_FAKE_GPU is set: this is not the real machine.")


def devices(
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", help="Show all attributes of one device, such as cuda:0."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Only the devices of this target.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the devices that kernels can run on, or show all attributes of one."""
    from kerneldsl.placement.described import device_info
    from kerneldsl.placement.described import devices as find_devices
    from kerneldsl.placement.devices import current_target
    from kerneldsl.placement.registry import get_target

    if device is not None and target is not None:
        raise typer.BadParameter("--device names one device, and --target those of a target")
    if device is not None:
        info = device_info(device)
        if as_json:
            print_json({"device": info.to_dict()})
        else:
            _print_device(info)
        return
    found = find_devices(target)
    if as_json:
        print_json({"devices": [info.to_dict(live=False) for info in found]})
        return
    if target is not None and not found:
        reason = get_target(target).unavailable_reason() or "it has no device"
        new_console().print(f"No devices of {target}: {reason}", markup=False, soft_wrap=True)
        return
    print_devices(found, result_or_message(current_target)[0])


def result_or_message(find: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result, or the message of the error, for example of a wrong variable."""
    from kerneldsl.errors import KernelError

    try:
        return find(), None
    except KernelError as error:
        return None, str(error)


def print_devices(
    infos: Sequence[DeviceInfo],
    default: str | None,
    live: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Print devices as a table, the default one marked.

    - `infos`: the devices.
    - `default`: the device that kernels run on by default.
    - `live`: live attributes of each device. Columns without any known value are left out.
    """
    from kerneldsl.contract.info_display import DEVICE_HEADERS, device_row, known

    shown = [
        (h, n, form) for h, n, form in _LIVE if any(each.get(n) is not None for each in live or ())
    ]
    rows: list[tuple[object, ...]] = []
    for number, info in enumerate(infos):
        now = live[number] if live else {}
        free = now.get("free_memory_bytes", known(info, "free_memory_bytes"))
        device, *others = device_row(info)
        rows.append(
            (
                f"{device} *" if device == default else device,
                *others,
                memory_text(free, known(info, "total_memory_bytes")),
                *live_cells(now, shown),
            )
        )
    headers = (*DEVICE_HEADERS, "memory free / total", *(header for header, _, _ in shown))
    print_table(headers, rows, fixed=("device",))


def live_cells(
    live: Mapping[str, Any], columns: Sequence[tuple[str, str, str]] = _LIVE
) -> list[str | None]:
    """Return the cells of a device's live values."""
    values = ((live.get(name), form) for _, name, form in columns)
    return [None if value is None else form.format(value) for value, form in values]


def memory_text(free: int | None, total: int | None) -> str | None:
    """Free and total memory of a device, for a person."""
    from kerneldsl.utilities.formatting import format_bytes

    if total is None:
        return None
    return f"{'?' if free is None else format_bytes(free)} / {format_bytes(total)}"


def _print_device(info: DeviceInfo) -> None:
    from kerneldsl.contract.info_display import format_value

    groups: dict[str, list[tuple[object, ...]]] = {}
    values, unavailable = info.collect(info.fields())
    for field in info.fields():
        is_known = field.name not in unavailable
        shown = format_value(field, values[field.name]) if is_known else None
        why = unavailable.get(field.name) or info.reasons.get(field.name, "")
        groups.setdefault(field.group, []).append((field.name, shown, why))
    new_console().print(f"{info}: {info.name}", style="bold", markup=False)
    for group, rows in groups.items():
        print_table((group, "value", "why"), rows, fixed=(group,))


def default(
    by: Annotated[
        str,
        typer.Option(
            "--by", help="score, or benchmark to measure the rates of a copy and of arithmetic."
        ),
    ] = "score",
    as_json: JsonOption = False,
) -> None:
    """Show the default device of kernels, and the reason for its choice."""
    from kerneldsl.placement.devices import current_target, why_current
    from kerneldsl.tools.ranking import rank_devices

    chosen, why = current_target(), why_current()
    with progress("Measuring", is_quiet=as_json or by != "benchmark"):
        ranking = rank_devices(by=by)  # type: ignore[arg-type]  # it refuses other words itself
    if as_json:
        told = ranking.to_dict()
        print_json({"device": chosen, "reason": why, "by": told["by"], "ranking": told["devices"]})
        return
    new_console().print(f"Kernels run on {chosen}. {why}.", markup=False, soft_wrap=True)
    rows: list[tuple[object, ...]] = []
    for entry in ranking.entries:
        parts, measured = entry.score, entry.measurement
        row: tuple[object, ...] = (
            str(entry.info),
            entry.info.name,
            f"{parts.kind_points:.0f} ({parts.kind})",
            f"{parts.compute_capability_points:.1f}",
            f"{parts.memory_points:.1f}",
            f"{parts.multiprocessor_points:.1f}",
            f"{parts.total:.1f}",
        )
        if by == "benchmark":
            row += (
                None if measured is None else f"{measured.copy_bytes_per_s / 1e9:.4g} GB/s",
                None
                if measured is None
                else f"{measured.float32_operations_per_s / 1e9:.4g} GFLOP/s",
            )
        rows.append((*row, entry.problem or "yes"))
    measures = ("copy", "float32") if by == "benchmark" else ()
    print_table(
        (
            "device",
            "name",
            "kind",
            "capability",
            "memory",
            "processors",
            "score",
            *measures,
            "usable",
        ),
        rows,
        fixed=("device",),
    )
