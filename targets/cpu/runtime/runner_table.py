"""Name and options of the function that runs the pieces of every kernel."""

from __future__ import annotations

from enum import IntFlag

__all__ = ["RUNNER", "RunnerOption"]

#: Its symbol.
RUNNER = "kd_run_pieces"


class RunnerOption(IntFlag):
    """Abilities of the function that a kernel needs."""

    #: Scratch memory.
    SCRATCH = 1
    #: Dynamic shared memory in it.
    DYNAMIC = 2
    #: A signal may make it leave the body.
    LEAVE = 4
