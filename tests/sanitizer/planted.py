"""One faulty kernel for each tool of compute-sanitizer.

``python -m tests.sanitizer.planted memcheck`` launches the fault that memcheck must find. Each is
the fault of that tool alone, so that a finding cannot come from another one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceWarning, KernelError

__all__ = ["PLANTED", "Planted", "launch"]

_THREADS = 64


@kd.kernel(wraparound=False)
def store_past_the_end(x):
    x[kd.grid(1)] = np.float32(1)


@kd.kernel
def read_without_barrier(x, out):
    s = kd.shared.array(64, np.float32)
    t = kd.threadIdx.x
    s[t] = x[t]
    out[t] = s[(t + 32) % 64]  # written by the other warp, at an unknown time


@kd.kernel
def read_unwritten(x, out):
    i = kd.grid(1)
    out[i] = x[i] + np.float32(1)


@kd.kernel
def two_barriers_at_once(x, out):
    s = kd.shared.array(64, np.float32)
    t = kd.threadIdx.x
    s[t] = x[t]
    # One warp waits here and one there. Threads that ended before a barrier are no fault to the
    # tool: the hardware does not wait for them.
    if x[t] > 0:
        kd.syncthreads()
        out[t] = s[63 - t]
    else:
        kd.syncthreads()
        out[t] = s[t] + np.float32(1)


def _store_past_the_end() -> None:
    store_past_the_end[1, _THREADS](kd.to_device(np.zeros(_THREADS - 1, np.float32)))


def _read_without_barrier() -> None:
    x = kd.to_device(np.arange(_THREADS, dtype=np.float32))
    read_without_barrier[1, _THREADS](x, kd.to_device(np.zeros(_THREADS, np.float32)))


def _read_unwritten() -> None:
    x = kd.empty(_THREADS, np.float32)
    read_unwritten[1, _THREADS](x, kd.to_device(np.zeros(_THREADS, np.float32)))


def _two_barriers_at_once() -> None:
    x = kd.to_device(np.where(np.arange(_THREADS) < 32, 1, -1).astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BarrierDivergenceWarning)
        two_barriers_at_once[1, _THREADS](x, kd.to_device(np.zeros(_THREADS, np.float32)))


@dataclass(frozen=True)
class Planted:
    """A fault and how a tool reports it.

    Parameters
    ----------
    kernel : str
        Name of the kernel, which the report must hold.
    report : str
        Words that the report must hold.
    launch : callable
        Launches the kernel on the active device.
    """

    kernel: str
    report: str
    launch: Callable[[], None]


#: By the name of the tool that must find it.
PLANTED: Mapping[str, Planted] = {
    "memcheck": Planted("store_past_the_end", "Invalid __global__ write", _store_past_the_end),
    "racecheck": Planted("read_without_barrier", "Race reported", _read_without_barrier),
    "initcheck": Planted("read_unwritten", "Uninitialized __global__ memory read", _read_unwritten),
    "synccheck": Planted(
        "two_barriers_at_once", "Divergent thread(s) in block", _two_barriers_at_once
    ),
}


def launch(tool: str) -> None:
    """Launch a tool's fault on ``cuda:0`` and wait for it.

    The driver may report the fault too; it is the sanitizer's report that counts.
    """
    with kd.use("cuda:0"):
        try:
            PLANTED[tool].launch()
            kd.synchronize()
        except KernelError as error:
            print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    launch(sys.argv[1])
