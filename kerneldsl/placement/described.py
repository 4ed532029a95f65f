"""Descriptions of devices: one of them, and tables of them."""

from __future__ import annotations

from kerneldsl.contract import DeviceInfo, DeviceLike
from kerneldsl.placement.devices import chosen_device
from kerneldsl.placement.registry import get_target, is_hardware, target_names
from kerneldsl.utilities.formatting import AsTable, format_bytes
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["Devices", "device_info", "devices"]


class Devices(AsTable, tuple[DeviceInfo, ...]):
    """A tuple of described devices; it is shown as a table."""

    __slots__ = ()

    def _table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        from kerneldsl.contract.info_display import DEVICE_HEADERS, device_row, known

        rows: list[tuple[object, ...]] = []
        for info in self:
            total = known(info, "total_memory_bytes")
            rows.append((*device_row(info), None if total is None else format_bytes(total)))
        return (*DEVICE_HEADERS, "memory"), rows


@shorten_errors
def devices(target: str | None = None) -> Devices:
    """Describe the devices of a target, or of every usable target with real hardware.

    Parameters
    ----------
    target : str, optional
        The name of a target, such as ``"cuda"``. An unusable target has no devices.

    Returns
    -------
    Devices
        A tuple of :class:`DeviceInfo`, shown as a table. They are in the driver's order, which
        ``CUDA_VISIBLE_DEVICES`` may change. Pass one to :class:`use` to select it.

    Raises
    ------
    UnknownTargetError
        If there is no such target.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> [str(info) for info in kd.devices("cpu")]
    ['cpu']
    """
    names = (target,) if target is not None else filter(is_hardware, target_names())
    found = (get_target(name) for name in names)
    return Devices(device.describe() for each in found for device in each.devices())


@shorten_errors
def device_info(device: DeviceLike | None = None) -> DeviceInfo:
    """Describe one device.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        As :class:`use` takes it; by default the current device.

    Returns
    -------
    DeviceInfo

    Raises
    ------
    UnknownTargetError, TargetUnavailableError, DeviceMismatchError
        As :class:`use` raises them.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> info = kd.device_info("cpu")
    >>> info.kind, info.total_memory_bytes > 0
    ('cpu', True)
    """
    return chosen_device(device).describe()
