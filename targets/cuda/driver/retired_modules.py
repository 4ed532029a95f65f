"""Modules of kernels that are garbage, until nothing on their device can run them any more.

A finalizer runs at any time, in any thread. It must not wait for the device, which would spoil a
graph that is recorded, or delay the program. So it only notes the module. Before ordinary code
loads another module, it marks the work on the device, and unloads the modules before marks that
have been reached. It waits only for drivers that cannot mark everything (before CUDA 12.5).

A graph keeps the kernels that were recorded in it, so their modules are not among these.
"""

from __future__ import annotations

import sys
from collections import deque

from kerneldsl.errors import DriverError
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard
from targets.cuda.driver.functions import LoadedFunction
from targets.cuda.driver.marks import Mark, is_recording, mark_everything

__all__ = ["retire", "unload_finished"]

#: Functions that finalizers have noted.
_retired: deque[tuple[Driver, LoadedFunction]] = deque()
#: Functions that wait for their mark, which is ``None`` where the driver cannot make one.
_marked: deque[tuple[Mark | None, Driver, LoadedFunction]] = deque()


def retire(driver: Driver, function: LoadedFunction) -> None:
    """Note the module of a function that is not launched any more; calls nothing of the driver."""
    if not (fork_guard.has_forked or sys.is_finalizing()):
        _retired.append((driver, function))


def unload_finished() -> None:
    """Unload those modules that nothing can run any more.

    Errors are written down as suppressed. On a device on which a graph is being recorded nothing is
    done.
    """
    if fork_guard.has_forked:
        return
    try:
        for _ in range(len(_retired)):
            _mark(*_retired.popleft())
        for _ in range(len(_marked)):
            _unload(*_marked.popleft())
    except IndexError:  # another thread was faster
        return


def _mark(driver: Driver, function: LoadedFunction) -> None:
    index = function.device_index
    if driver.watch.is_lost(index):
        return
    if is_recording(index):
        _retired.append((driver, function))
        return
    try:
        _marked.append((mark_everything(driver, index), driver, function))
    except DriverError as error:  # the device is lost
        driver.suppress(error, index)


def _unload(mark: Mark | None, driver: Driver, function: LoadedFunction) -> None:
    index = function.device_index
    if driver.watch.is_lost(index):
        return
    if is_recording(index) or not (mark is None or mark.is_reached()):
        _marked.append((mark, driver, function))
        return
    try:
        if mark is None:
            functions.unload(driver, function)
        else:
            functions.unload_idle(driver, function)
    except DriverError as error:
        driver.suppress(error, index)
