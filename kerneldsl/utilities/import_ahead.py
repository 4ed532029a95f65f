"""Import what a first launch needs, while a driver is being waited for.

A driver takes a tenth of a second to start and another to open a device, in which Python has
nothing to do, and a first launch imports some hundred modules and reads what its cache's keys
depend on. So a separate thread does that meanwhile, in steps: when the driver answers, the step
that is under way is finished, and the next wait goes on from there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import no_fork

__all__ = ["FIRST_LAUNCH", "import_ahead"]

#: What a first launch with everything in the cache imports, beside what a target does. Each takes a
#: few milliseconds where those before it have been imported.
FIRST_LAUNCH = (
    "kerneldsl.language.kinds",
    "kerneldsl.contract.abi",
    "kerneldsl.frontend.unit",
    "kerneldsl.contract.code",
    "kerneldsl.memory.creation",
    "kerneldsl.launch.arguments.staging",
    "kerneldsl.planner",
    "kerneldsl.planner.candidates",
    "kerneldsl.analysis.count_work",
    "kerneldsl.planner.choose",
    "kerneldsl.launch.request",
    "kerneldsl.launch.decision",
    "kerneldsl.analysis.widening",
    "kerneldsl.launch.fitted_models",
    "kerneldsl.cache",
    "kerneldsl.cache.specialization",
    "kerneldsl.launch.dispatch",
    "kerneldsl.streams.waiting",
    "kerneldsl.lowering.captured_arrays",
    "kerneldsl.analysis.analyze",
    "kerneldsl.transforms.separate_tiles",
    "kerneldsl.frontend.normalize",
)

#: What finds the part that all keys of the cache have in common, when the modules are there.
_IDENTITY = ("kerneldsl.cache.toolchain", "toolchain_identity")

#: If there is no driver that is known sooner than this, and nothing need be imported.
_QUICK_S = 0.003
#: The thread is not waited for without end: whoever is waiting may be importing a module, say a
#: program that works on a GPU when it is imported, which another import needs.
_PATIENCE_S = 1.0


#: What was read whole, with nothing left for another wait.
_done: set[tuple[str, ...]] = set()


@contextmanager
def import_ahead(*modules: str) -> Iterator[None]:
    """Return a context manager in which the interpreter's lock is given up for long.

    `modules` are imported beside what every first launch takes.
    """
    wanted = (*FIRST_LAUNCH, *modules)
    # NumPy's parts import one another: a program that begins with it in two threads may be told of
    # one that is half-made, and neither of the two must be ours. When all ends, a thread might
    # never begin.
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
        # What two threads import at once each may find half-made, if packages import their parts.
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
        _done.add(modules)
    except Exception as error:  # noqa: BLE001 -- whoever needs the module imports it again, and is told
        logger.debug("importing ahead: %s", error)


def _find_identity() -> None:
    """Find what is the same in every key of the cache; it is remembered there."""
    module, name = _IDENTITY
    getattr(sys.modules[module], name)()
