"""Redefine a kernel again and again in a process of its own, as a notebook does.

``python -m tests.support.redefining WARM_UP COUNT`` prints by how many bytes its resident memory
has grown for `COUNT` redefinitions, with what the allocator holds free, and without.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["define", "growth"]

_TEXT = """
@kd.kernel
def k(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = {number}
"""


def define(number: int) -> Any:
    """Return a new kernel, which sets an array to `number`."""
    import kerneldsl as kd

    text, name = _TEXT.format(number=number), f"<cell {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"kd": kd}
    exec(compile(text, name, "exec"), names)
    return names.pop("k")  # as another definition takes the name


def _redefine(number: int) -> None:
    out = np.zeros(4)
    define(number).forall(4)(out)
    assert (out == number).all()
    del linecache.cache[f"<cell {number}>"]


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _read() -> tuple[int, int]:
    gc.collect()
    whole = _resident_bytes()
    ctypes.CDLL(None).malloc_trim(0)
    return whole, _resident_bytes()


def growth(warm_up: int, count: int) -> tuple[int, int]:
    """Return the bytes by which a process grows, with the allocator's free memory and without."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(warm_up), str(count)],
        capture_output=True,
        text=True,
        env={**os.environ, "KERNELDSL_CACHE": "off", "KERNELDSL_TARGET": "cpu"},
        check=True,
    )
    whole, trimmed = map(int, done.stdout.split())
    return whole, trimmed


if __name__ == "__main__":
    warm_up, count = map(int, sys.argv[1:])
    for number in range(warm_up):
        _redefine(number)
    whole, trimmed = _read()
    for number in range(warm_up, warm_up + count):
        _redefine(number)
    whole_after, trimmed_after = _read()
    print(whole_after - whole, trimmed_after - trimmed)
