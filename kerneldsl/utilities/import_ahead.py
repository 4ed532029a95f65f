"""Import what a first launch needs, while a driver is being waited for.

A driver takes a tenth of a second to start and another to open a device. Python waits meanwhile. A
first launch imports some hundred modules, writes methods of their dataclasses, and reads what its
cache's keys depend on. So a separate thread does that in steps during the wait. When the driver
answers, the current step is finished, and the next wait continues with the following one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from kerneldsl.utilities.dataclasses import write_methods
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import no_fork

__all__ = ["FIRST_LAUNCH", "OWN_KERNEL", "import_ahead"]

#: Modules that every first launch imports, besides those of a target. Each takes a few milliseconds
#: after those before it.
FIRST_LAUNCH = (
    "kerneldsl.language.kinds",
    "kerneldsl.contract.abi",
    "kerneldsl.frontend.unit",
    "kerneldsl.contract.code",
    "kerneldsl.memory.creation",
    "kerneldsl.launch.arguments.staging",
    "kerneldsl.planner",
    "kerneldsl.planner.candidates",
    "kerneldsl.planner.choose",
    "kerneldsl.launch.request",
    "kerneldsl.launch.decision",
    "kerneldsl.launch.work",
    "kerneldsl.cache.key",
    "kerneldsl.launch.dispatch",
    "kerneldsl.streams.waiting",
    "kerneldsl.lowering.captured_arrays",
    "kerneldsl.frontend.linked_code",
    "kerneldsl.contract.device_code",
    "kerneldsl.launch.measured",
    "kerneldsl.cache.disk",
)

#: Further modules for a kernel of this program, with its code in the cache. A kernel that a package
#: ships, or of CUDA C++, needs none of them, so they come after those.
OWN_KERNEL = (
    "kerneldsl.launch.fitted_models",
    "kerneldsl.cache.toolchain",
    "kerneldsl.cache.remembered",
    "kerneldsl.analysis.analyze",
    "kerneldsl.frontend.normalize",
    "kerneldsl.language.intrinsics.table",
)

#: Function that computes the common part of all keys of the cache, and its module.
_IDENTITY = ("kerneldsl.cache.toolchain", "toolchain_identity")

#: Seconds before the thread imports anything. Without a driver, or with nothing to import, the
#: caller is done sooner.
_QUICK_S = 0.003
#: Longest wait for the thread. The waiting thread may hold the import lock of a module that the
#: other needs. An example is a module that works on a GPU when it is imported.
_PATIENCE_S = 1.0


#: Groups of modules that were read completely.
_done: set[tuple[str, ...]] = set()


@contextmanager
def import_ahead(*modules: str) -> Iterator[None]:
    """Return a context manager in which the interpreter's lock is given up for long.

    `modules` are imported after what every first launch takes.
    """
    wanted = (*FIRST_LAUNCH, *modules, *OWN_KERNEL)
    # NumPy's modules import one another. If two threads begin to import it, one may get a module
    # that is half initialized. So this thread never imports it first. When the interpreter ends, a
    # thread might never begin.
    if wanted in _done or "numpy" not in sys.modules or sys.is_finalizing():
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(
        target=_read, args=(is_over, wanted), name="kerneldsl-import-ahead", daemon=True
    )
    is_started = True
    try:
        thread.start()
    except RuntimeError:  # there are too many threads
        is_started = False
    try:
        yield
    finally:
        is_over.set()
        # A module that two threads import at once may be incomplete in each, if packages import
        # their parts.
        if is_started:
            thread.join(_PATIENCE_S)


def _read(is_over: threading.Event, modules: tuple[str, ...]) -> None:
    if is_over.wait(_QUICK_S):
        return
    try:
        for module in modules:
            with no_fork:  # a child would wait for the import for ever
                import_module(module)
            if is_over.is_set():
                return
        _find_identity()
        write_methods(is_over.is_set)
        _done.add(modules)
    except Exception as error:  # noqa: BLE001 -- the code that needs it gets the error
        logger.debug("importing ahead: %s", error)


def _find_identity() -> None:
    """Find what is the same in every key of the cache; it is remembered there."""
    module, name = _IDENTITY
    getattr(sys.modules[module], name)()
