"""Checks of ``kd.preflight()`` for the CPU target: Numba and the threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kerneldsl.contract import Check
from kerneldsl.contract.checks import said_by
from kerneldsl.errors import ArgumentValueError, TargetUnavailableError
from kerneldsl.tools.detection.probes import Finding
from kerneldsl.utilities.formatting import format_count

if TYPE_CHECKING:
    from targets.cpu.runtime.processors import Runnable

__all__ = ["check_cpu", "find_cpu"]


def find_cpu() -> Finding:
    """Say which processors these are."""
    return Finding(True, f"this machine's processors ({platform.machine()})")


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
        from kerneldsl.ir.explained_errors import NO_JIT

        yield Check("cpu.numba", "problem", *NO_JIT)
    else:
        yield Check("cpu.numba", "ok", "Numba compiles")
    yield _check_threads()


def _check_threads() -> Check:
    from targets.cpu.runtime.processors import runnable_threads
    from targets.cpu.runtime.threads import asked_threads, threading_layer

    name = "cpu.threading_layer"
    try:
        layer = threading_layer()
    except (ArgumentValueError, TargetUnavailableError) as error:
        return Check(name, "problem", said_by(error), error.remedy)
    found = f"{layer.name} with {format_count(layer.thread_count, 'thread')}"
    if layer.name != "serial":
        found += _thread_limit(asked_threads(), runnable_threads())
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


def _thread_limit(asked: int | None, runnable: Runnable) -> str:
    """Say what the number of threads comes from."""
    # Numba counts the processors where nothing is set: only a variable that is set is named.
    is_named = bool(os.environ.get("NUMBA_NUM_THREADS", "").strip())
    if asked is not None and asked < runnable.threads:
        return "; the limit is NUMBA_NUM_THREADS" if is_named else "; the limit is Numba's setting"
    more = f" of {asked} in NUMBA_NUM_THREADS" if is_named and asked != runnable.threads else ""
    return f"{more}; the limit is the {runnable.limit}"
