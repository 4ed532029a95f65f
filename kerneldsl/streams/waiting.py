"""Wait for devices. A program without streams needs nothing else of this package."""

from __future__ import annotations

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import DeviceLostError, DriverError
from kerneldsl.placement.devices import device_of, used_devices
from kerneldsl.streams.current import refuse_waiting
from kerneldsl.streams.order import release_finished

__all__ = ["synchronize"]


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until all launches and copies have finished.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        Wait for this device alone; by default for each device that was used so far.

    Raises
    ------
    DriverError
        If some of the work has failed, or a device is lost. After a fault that ends the use of CUDA
        in this process, every CUDA device is lost.
    GraphError
        Inside of a ``with stream.capture()``.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> x = kd.to_device(np.ones(3))
    >>> double.forall(3)(x)
    >>> kd.synchronize()
    """
    refuse_waiting()
    failure: DriverError | None = None
    for each in used_devices() if device is None else (device_of(device),):
        try:
            each.synchronize()
        except DriverError as error:  # the other devices are waited for all the same
            # A new error replaces a report that the device is lost, which was raised before.
            if failure is None or (
                isinstance(failure, DeviceLostError) and not isinstance(error, DeviceLostError)
            ):
                failure = error
    release_finished()
    if failure is not None:
        raise failure
