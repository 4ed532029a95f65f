"""Waiting for devices; a program that makes no stream needs nothing else of this package."""

from __future__ import annotations

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import DeviceLostError, DriverError
from kerneldsl.placement.devices import device_of, used_devices
from kerneldsl.streams.current import refuse_waiting
from kerneldsl.streams.order import let_go

__all__ = ["synchronize"]


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until everything that was started has finished.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        Wait for this one alone; else for each device that was used so far.

    Raises
    ------
    DriverError
        If something that was started has failed, or a device is lost; after what loses the
        process, every CUDA device is.
    GraphError
        Inside of a ``with stream.capture()``.
    """
    refuse_waiting()
    failure: DriverError | None = None
    for each in used_devices() if device is None else (device_of(device),):
        try:
            each.synchronize()
        except DriverError as error:  # the other devices are waited for all the same
            # What has just failed is news; that a device is lost has been said before.
            if failure is None or (
                isinstance(failure, DeviceLostError) and not isinstance(error, DeviceLostError)
            ):
                failure = error
    let_go()
    if failure is not None:
        raise failure
