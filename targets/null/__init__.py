"""A target without hardware: every step of the CUDA path but the last.

Kernels are compiled to PTX for a described device, and the PTX is checked. Memory is host bytes
with made-up addresses. Launches are validated as by a driver and recorded, but nothing runs. So
planning, launching and every error of the GPU path are tested on every machine.

The described device is an H100 until :func:`set_device` or :func:`described_as` names another.

Examples
--------
>>> from targets import null
>>> with null.described_as(null.SMALL_OLD_CARD) as target:
...     target.devices()[0].limits.max_shared_memory_per_block
49152
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device
from targets.null.devices import H100, SMALL_OLD_CARD

if TYPE_CHECKING:
    from kerneldsl.errors import DriverError
    from targets.null.target import NullTarget

__all__ = ["H100", "SMALL_OLD_CARD", "described_as", "fault", "make_target", "set_device"]


@cache
def make_target() -> NullTarget:
    """Return the process's one null target."""
    from targets.null.target import NullTarget

    return NullTarget(H100)


def fault(kind: str, doing: str | None = None, **fields: Any) -> DriverError:
    """Compose the error that a driver would answer with; see :func:`targets.null.faults.fault`.

    Examples
    --------
    >>> from targets import null
    >>> make_target().fail_next("allocate", null.fault("memory"))
    >>> make_target().reset()
    """
    from targets.null.faults import fault as compose

    return compose(kind, doing, **fields)


def set_device(*devices: Device) -> None:
    """Describe the devices of the null target from now on, in their order.

    Parameters
    ----------
    *devices : Device
        Such as `H100`; naming one twice gives two devices of its kind.
    """
    make_target().set_devices(*devices)


@contextmanager
def described_as(*devices: Device) -> Iterator[NullTarget]:
    """Return a context manager in which the null target has just these devices.

    Parameters
    ----------
    *devices : Device
        As for `set_device`.

    Yields
    ------
    NullTarget
        The target; its `launches` are those of the block.
    """
    target = make_target()
    before = target.devices()
    target.set_devices(*devices)
    target.reset()
    try:
        yield target
    finally:
        target.set_devices(*before)
        target.reset()
