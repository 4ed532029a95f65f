"""``cuda.core``, imported when something of it is first requested by name.

Importing it takes a fifth of a second, which a program that only launches must not pay (ADR 6). Its
objects own streams, events and graphs. Frequent calls on them go to the driver by their handles,
through :class:`~targets.cuda.driver.driver.Driver`. So errors, forks and lost devices are handled
in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kerneldsl.errors import KernelError, ToolMissingError
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.driver.driver import Driver

__all__ = ["core_device", "import_core"]

_importing = ForkSafeLock()


def import_core() -> Any:
    """Return the module ``cuda.core``.

    Raises `ToolMissingError` if it is not installed, or too old.
    """
    try:
        # Threads that import it at once can be handed it half made: its modules import each other.
        with _importing:
            from cuda import core
    except ImportError as error:
        raise ToolMissingError(
            "streams, events and graphs need cuda.core, which is not installed",
            remedy='pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of '
            "CUDA 12",
        ) from error
    if not hasattr(core, "Device"):
        raise ToolMissingError(
            f"cuda.core {getattr(core, '__version__', 'of unknown version')} is too old",
            limit="kerneldsl needs cuda.core 1.1 or newer",
            remedy='pip install --upgrade "cuda-core>=1.1"',
        )
    return core


@contextmanager
def core_device(driver: Driver, index: int, doing: str) -> Iterator[tuple[Any, Any]]:
    """Return a context manager for calls of cuda.core on a device; it converts their errors.

    It gives the module, and its object for the device, which is current. `doing` is for the error's
    text, and begins with a verb.

    Raises `DriverError` in place of what cuda.core raises.
    """
    core = import_core()
    with driver.current(index):
        try:
            device = core.Device(index)
            device.set_current()
            yield core, device
        except KernelError:
            raise
        except Exception as error:
            # The classes of these errors are private; their texts begin with the driver's name for
            # the error.
            raise driver.foreign_failure(error, doing, index=index) from error
