"""Checks of ``kd.preflight()`` for the CPU target: Numba and the threads."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldsl.contract import Check
from kerneldsl.contract.checks import said_by
from kerneldsl.errors import TargetUnavailableError
from kerneldsl.utilities.formatting import format_count

__all__ = ["check_cpu"]


def check_cpu() -> Iterator[Check]:
    """Look at Numba's settings and the threading layer."""
    try:
        from numba import config
    except ImportError as error:
        yield Check(
            "cpu.numba",
            "problem",
            f"Numba cannot be imported: {error}",
            "Install the numba and llvmlite that fit: pip install --force-reinstall kerneldsl",
        )
        return
    if config.DISABLE_JIT:
        from kerneldsl.lowering.errors import NO_JIT

        yield Check("cpu.numba", "problem", *NO_JIT)
    else:
        yield Check("cpu.numba", "ok", "Numba compiles")
    yield _check_threads()


def _check_threads() -> Check:
    from targets.cpu.processors import runnable_threads
    from targets.cpu.threads import asked_threads, threading_layer

    name = "cpu.threading_layer"
    try:
        layer = threading_layer()
    except TargetUnavailableError as error:
        return Check(name, "problem", said_by(error), error.remedy)
    found = f"{layer.name} with {format_count(layer.thread_count, 'thread')}"
    asked, runnable = asked_threads(), runnable_threads()
    if asked is not None and asked > runnable.threads:
        found += f" of {asked} that NUMBA_NUM_THREADS names; the limit is the {runnable.limit}"
    if layer.name == "workqueue":
        return Check(
            name,
            "warning",
            f"{found}; it runs one launch at a time",
            "Install TBB: pip install tbb",
        )
    if layer.name == "serial":
        return Check(
            name,
            "warning",
            f"{found}: launches use the calling thread alone",
            "Unset KERNELDSL_THREADING_LAYER; in a forked child, use spawn instead of fork",
        )
    if not layer.survives_fork:
        return Check(
            name,
            "ok",
            f"{found}; a forked child runs on one thread (TBB would go on: pip install tbb)",
        )
    return Check(name, "ok", found)
