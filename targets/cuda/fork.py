"""The guard against CUDA in a forked child.

The driver does not survive ``fork()``: in the child every call fails, or worse. Once CUDA has been
used, a child that is forked is told so before it calls anything.
"""

from __future__ import annotations

import os

from kerneldsl.errors import DriverError

__all__ = ["ForkGuard", "fork_guard"]


class ForkGuard:
    """Knows whether this process was forked from one that had used CUDA."""

    def __init__(self) -> None:
        #: Whether it was.
        self.has_forked = False
        self._is_armed = False

    def arm(self) -> None:
        """Note that CUDA is in use in this process; children forked from now on are warned."""
        if not self._is_armed:
            self._is_armed = True
            os.register_at_fork(after_in_child=self._note)

    def _note(self) -> None:
        self.has_forked = True

    def check(self) -> None:
        """Raise `DriverError` in such a child."""
        if self.has_forked:
            raise self.error()

    def error(self) -> DriverError:
        """The error for such a child."""
        return DriverError(
            "CUDA cannot be used in this process, which was forked after its parent had used CUDA",
            code=3,
            name="CUDA_ERROR_NOT_INITIALIZED",
            limit="The CUDA driver does not survive fork()",
            remedy='Start processes with multiprocessing.get_context("spawn"), or fork before the '
            "first use of CUDA",
        )


#: The guard of this process.
fork_guard = ForkGuard()
