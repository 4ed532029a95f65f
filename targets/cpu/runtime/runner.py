"""The function that runs the pieces of every kernel in this process.

Compiled kernels call it by its name, so that none of them has its own.
"""

from __future__ import annotations

from typing import Any

from kerneldsl.utilities.locks import ForkSafeLock
from targets.cpu.runtime.process_code import ProcessCode
from targets.cpu.runtime.runner_table import RUNNER

__all__ = ["RUNNER_CODE", "runner_symbols"]


def _compile() -> bytes:
    from targets.cpu.runtime.runner_code import compile_runner

    return compile_runner()


#: Its machine code.
RUNNER_CODE = ProcessCode(RUNNER, _compile)
_lock = ForkSafeLock()


class _Runner:
    """The one of the process."""

    #: Keeps the code.
    loaded: Any = None


def runner_symbols() -> dict[str, int]:
    """Return the address of the function by its name, for a linker."""
    with _lock:
        if _Runner.loaded is None:
            _Runner.loaded = RUNNER_CODE.load()
        return {RUNNER: _Runner.loaded.address}
