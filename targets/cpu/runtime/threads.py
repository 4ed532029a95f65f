"""The threads that run a launch: the target's own pool, or one of Numba's.

Numba has three thread pools. Each has a function ``parallel_for``, which runs the inner loop of a
generalized ufunc over ranges. The entries of kernels have that signature, so that a pool runs them
directly without a compiled wrapper. The target's own pool has the same function. The order of
preference:

``native``
    The target's own pool (:mod:`targets.cpu.runtime.pool_code`), on Linux. Any number of threads
    may launch at the same time, and the pool shares the launch of one of them. A forked child may
    continue.
``tbb``
    Any number of threads may launch at the same time, and a forked child may continue.
``omp``
    Any number of threads may launch at once; GNU's library ends a forked child.
``workqueue``
    Always available; a lock permits one launch at a time.
``serial``
    The calling thread.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import importlib.machinery
import importlib.util
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any

from kerneldsl.errors import TargetUnavailableError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import VARIABLES, choice
from targets.cpu.runtime.objects import IS_SUPPORTED, forget_threads, pool_address
from targets.cpu.runtime.processors import runnable_threads, startable_threads
from targets.cpu.runtime.signals import is_main_thread, set_current_launch

__all__ = [
    "LAYERS",
    "ThreadingLayer",
    "running_address",
    "thread_count",
    "threading_layer",
    "wake_ns",
]

#: Names that ``KERNELDSL_THREADING_LAYER`` takes, in the order of preference.
LAYERS = VARIABLES["KERNELDSL_THREADING_LAYER"].words
_MODULES = {
    "tbb": "numba.np.ufunc.tbbpool",
    "omp": "numba.np.ufunc.omppool",
    "workqueue": "numba.np.ufunc.workqueue",
}
_logger = logging.getLogger("kerneldsl.cpu")

#: ``parallel_for(fn, args, dims, steps, data, inner_ndim, array_count, num_threads)``
_PARALLEL_FOR = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_int,
)
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class ThreadingLayer:
    """One thread pool."""

    #: Name of the layer, one of :data:`LAYERS`.
    name: str
    #: Threads that share a launch.
    thread_count: int
    #: Whether a forked child may use the pool.
    survives_fork: bool
    #: The pool's function; ``None`` runs everything in the calling thread.
    parallel_for: Callable[..., None] | None = None
    #: Held during a launch.
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    #: Address of the pool's function for native code; 0 if it needs a lock.
    parallel_for_address: int = 0

    def run(self, entry: int, launch: int, steps: int, *, parallel: bool) -> None:
        """Run an entry over a range of steps and wait for it; the GIL is released meanwhile.

        `entry` is the address of ``void(char **range, int64 *count, int64 *steps, char *launch)``,
        `launch` that of the launch's header. If `parallel`, the threads share the range.
        """
        # The pool offsets each "array" by the start of its range times the array's step. With a
        # null base and a step of 1, the pointer that the entry gets is the start itself.
        is_main, before = is_main_thread(), 0
        base = (ctypes.c_size_t * 1)(0)
        counts = (ctypes.c_size_t * 1)(steps)
        strides = (ctypes.c_size_t * 1)(1)
        try:
            if is_main:
                before = set_current_launch(launch)
            self._run(entry, launch, base, counts, strides, parallel=parallel and steps > 1)
        finally:
            if is_main:
                set_current_launch(before)

    def _run(
        self, entry: int, launch: int, base: Any, counts: Any, strides: Any, *, parallel: bool
    ) -> None:
        if parallel and self.parallel_for is not None:
            _process.launches.append(entry)  # one step for the interpreter, so without a lock
            try:
                with self.lock:
                    self.parallel_for(
                        entry,
                        ctypes.addressof(base),
                        ctypes.addressof(counts),
                        ctypes.addressof(strides),
                        launch,
                        0,
                        1,
                        self.thread_count,
                    )
            finally:
                _process.launches.pop()
        else:
            _ENTRY(entry)(
                ctypes.addressof(base), ctypes.addressof(counts), ctypes.addressof(strides), launch
            )


_SERIAL = ThreadingLayer("serial", 1, survives_fork=True)


class _Process:
    """State of the thread pool in this process."""

    def __init__(self) -> None:
        self.layer: ThreadingLayer | None = None
        self.lock = threading.Lock()
        #: The thread that started the pool.
        self.starter: int | None = None
        #: An entry for each parallel launch that is running.
        self.launches: list[int] = []
        #: Number of running native launches; it changes under the interpreter's lock.
        self.running = (ctypes.c_int64 * 1)()
        self.may_keep_pool = True


_process = _Process()


def threading_layer() -> ThreadingLayer:
    """Return the layer of this process, chosen at the first call.

    ``KERNELDSL_THREADING_LAYER`` names one of :data:`LAYERS`; without it the first that loads is
    taken. There are as many threads as ``NUMBA_NUM_THREADS`` says, and never more than
    `runnable_threads` counts.

    Raises `ArgumentValueError` where the environment names a layer that is unknown, and
    `TargetUnavailableError` if it cannot be loaded, or cannot start its threads.
    """
    found = _process.layer
    if found is None:
        with _process.lock:
            if _process.layer is None:
                _process.layer = _choose()
                _process.starter = threading.get_ident()
                _logger.debug(
                    "threading layer %s, %d threads",
                    _process.layer.name,
                    _process.layer.thread_count,
                )
            found = _process.layer
    return found


def thread_count() -> int:
    """Return the number of threads that share a launch, as `threading_layer` has it.

    It does not compile the target's own pool.
    """
    is_own = IS_SUPPORTED and choice("KERNELDSL_THREADING_LAYER") in ("", "native")
    if _process.layer is None and is_own:
        return _runnable_count()
    return threading_layer().thread_count


def _choose() -> ThreadingLayer:
    requested = choice("KERNELDSL_THREADING_LAYER")
    reasons = []
    for name in (requested,) if requested else LAYERS:
        if name == "serial":
            return _SERIAL
        try:
            return _load(name)
        except (ImportError, OSError) as error:
            reasons.append(f"{name}: {error}")
            _logger.debug("threading layer %s cannot be loaded: %s", name, error)
    raise TargetUnavailableError(
        f"the threading layer {requested!r} cannot be loaded ({'; '.join(reasons)})",
        value=requested,
        remedy="Unset KERNELDSL_THREADING_LAYER, or install the library "
        "(`pip install tbb` for tbb, your system's libgomp for omp)",
    )


def _load(name: str) -> ThreadingLayer:
    count = _runnable_count()
    if name == "native":
        return _load_own(count)
    if name == "tbb":
        _preload_tbb()
    elif (started := startable_threads(count)) < count:
        raise _too_few_threads(name, count, started)
    pool = _import_pool(_MODULES[name])
    ctypes.CFUNCTYPE(None, ctypes.c_int)(pool.launch_threads)(count)
    # A pool does not run until its number of threads is set.
    ctypes.CFUNCTYPE(None, ctypes.c_int)(pool.set_num_threads)(count)
    return ThreadingLayer(
        name,
        count,
        survives_fork=name == "tbb",
        parallel_for=_PARALLEL_FOR(pool.parallel_for),
        lock=threading.Lock() if name == "workqueue" else nullcontext(),
        parallel_for_address=0 if name == "workqueue" else int(pool.parallel_for),
    )


def _too_few_threads(name: str, count: int, started: int) -> TargetUnavailableError:
    fewer = f"set NUMBA_NUM_THREADS to {started} or less, or " if started else ""
    return TargetUnavailableError(
        f"{count} threads of the threading layer {name!r} cannot be started, {started} can",
        value=started,
        limit="Threads are limited by ulimit -v (addresses), ulimit -u (processes of the user) and "
        "pids.max (control group)",
        remedy=f"Raise the limit, {fewer}unset KERNELDSL_THREADING_LAYER: the native layer uses "
        "the threads that can be started",
    )


def _load_own(count: int) -> ThreadingLayer:
    if not IS_SUPPORTED:
        raise OSError("it is there on Linux alone")
    address = pool_address(count)
    return ThreadingLayer(
        "native",
        count,
        survives_fork=True,
        parallel_for=_PARALLEL_FOR(address),
        parallel_for_address=address,
    )


def requested_threads() -> int | None:
    """Return how many threads ``NUMBA_NUM_THREADS`` names, as Numba reads it, if it is set."""
    given = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if "numba" in sys.modules or os.path.exists(".numba_config.yaml"):
        from numba import config

        return int(config.NUMBA_NUM_THREADS)
    return int(given) if given.isdecimal() and int(given) > 0 else None


def _runnable_count() -> int:
    """Return the threads of a pool: the requested number, at most as many as can run."""
    runnable = runnable_threads().threads
    return min(requested_threads() or runnable, runnable)


def _import_pool(name: str) -> Any:
    """Return Numba's module of a pool, by its path where Numba itself has not been imported.

    It is a library of C functions that needs nothing else of its package. It is not added to the
    imported modules, so that Numba finds it later by itself. The pool is then the same, because its
    state is in the library.
    """
    if "numba" not in sys.modules:
        package = importlib.util.find_spec("numba")
        folders = (package.submodule_search_locations if package is not None else None) or ()
        inner = name.split(".")[1:-1]
        paths = [os.path.join(folder, *inner) for folder in folders]
        spec = importlib.machinery.PathFinder.find_spec(name, paths)
        if spec is not None and spec.loader is not None:
            pool = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(pool)
            return pool
    return importlib.import_module(name)


def running_address() -> int:
    """Address of an int64 that native code counts its parallel launches in."""
    return ctypes.addressof(_process.running)


def _preload_tbb() -> None:
    """Load TBB's library by its path, since a wheel puts it where the loader does not look."""
    if sys.platform != "linux":
        return
    if _preload_from(os.path.join(sys.prefix, "lib")):
        return
    from importlib import metadata  # it imports e-mail and zip

    try:
        files = metadata.files("tbb") or []
    except metadata.PackageNotFoundError:
        return
    for folder in {os.path.dirname(str(f.locate())) for f in files if "libtbb.so" in f.name}:
        if _preload_from(folder):
            return


def _preload_from(folder: str) -> bool:
    for path in sorted(glob.glob(os.path.join(folder, "libtbb.so.*"))):
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            _logger.debug("%s cannot be loaded: %s", path, error)
        else:
            return True
    return False


def _before_fork() -> None:
    is_idle = not _process.launches and not _process.running[0]
    _process.may_keep_pool = threading.get_ident() == _process.starter and is_idle


def _after_fork_in_child() -> None:
    """Leave a pool that cannot live in a forked child alone there.

    The target's own pool starts its threads again. TBB continues, unless another thread than the
    one that started it forked, or a launch was running. Then the threads that it waits for do not
    exist.
    """
    forget_threads()
    _process.lock = threading.Lock()
    _process.launches.clear()
    _process.running[0] = 0
    layer = _process.layer
    if layer is None or layer.name == "native":
        return
    if not (layer.survives_fork and _process.may_keep_pool):
        _process.layer = _SERIAL


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


# -- cost of sharing a launch among the threads of the pool, measured once for the process --------


#: Samples, fewest samples if they take long, and most nanoseconds of all samples.
_SAMPLES, _LEAST_SAMPLES, _MOST_NS = 60, 24, 2_000_000
#: First launches, for which threads may have to be created and woken.
_FIRST = 8
#: Nanoseconds of such a launch in the calling thread alone, on the machine of the planner's
#: constants.
_ALONE_NS = 2300.0
_measured: dict[str, float] = {}


def wake_ns(layer: ThreadingLayer) -> float:
    """Return what it takes to share a launch, from its start to its end, beside the work.

    It is in nanoseconds of the machine that :func:`kerneldsl.planner.host.element_ns` describes.

    A shared launch of nothing is compared with one in the calling thread, made in turns. Their
    ratio is the same when the machine is slow for a while, or another one, and so are decisions.
    The interpreter's part in both is half of the shared one with two threads. It stands for what
    threads take until they are at work, since a launch of nothing does not wait for that. On a
    machine of two cores this gives 4.7 µs. Shared launches took 3 to 7 µs more than half of the
    serial time there. The threads are awake already, as they are in a program that launches much;
    the first launches cost more.
    """
    known = _measured.get(layer.name)
    if known is None:
        known = _measured[layer.name] = _measure(layer)
    return known


def _measure(layer: ThreadingLayer) -> float:
    if layer.parallel_for is None or layer.thread_count < 2:
        return 0.0
    # A function of the interpreter that needs no lock, does nothing and looks at no argument.
    nothing = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    assert nothing is not None
    for _ in range(_FIRST):
        layer.run(nothing, 0, layer.thread_count, parallel=True)
    alone: list[int] = []
    shared: list[int] = []
    while len(shared) < _SAMPLES and (len(shared) < _LEAST_SAMPLES or sum(shared) < _MOST_NS):
        for samples, parallel in ((alone, False), (shared, True)):
            began = time.perf_counter_ns()
            layer.run(nothing, 0, layer.thread_count, parallel=parallel)
            samples.append(time.perf_counter_ns() - began)
    # Other load on the machine only makes some samples longer.
    return _ALONE_NS * _lower_quartile(shared) / max(1.0, _lower_quartile(alone))


def _lower_quartile(samples: list[int]) -> float:
    return sorted(samples)[len(samples) // 4]  # statistics takes longer to import than this
