"""Everything that can be known of a device, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from kerneldsl.target.device import Device

__all__ = ["DeviceInfo"]


@dataclass(frozen=True)
class DeviceInfo:
    """Everything that can be known of a device.

    Parameters
    ----------
    device : Device
        Which one.
    """

    device: Device
