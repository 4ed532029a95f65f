"""The guard against CUDA in a forked child.

The driver does not survive ``fork()``: in the child every call fails, or worse. Once CUDA has been
used, a child that is forked is informed before it calls anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kerneldsl.errors import DriverError
from targets.cuda.driver.codes import DRIVER_CODES
from targets.cuda.driver.errors import compose_error

__all__ = ["ForkGuard", "fork_guard"]


class ForkGuard:
    """Knows whether this process was forked from one that had used CUDA."""

    def __init__(self) -> None:
        #: Whether this process was forked from one that had used CUDA.
        self.has_forked = False
        self._is_armed = False
        self._is_registered = False
        self._forget: Callable[[], object] | None = None
        self._abandoned: list[object] = []

    def arm(self, forget: Callable[[], object] | None = None) -> None:
        """Note that CUDA is in use in this process; children forked from now on are informed.

        `forget` is called first in such a child, so that what it forgets need not be checked at
        each use.
        """
        self._forget = forget
        self._is_armed = True
        if not self._is_registered:
            self._is_registered = True
            if hasattr(os, "register_at_fork"):  # where processes can fork
                os.register_at_fork(after_in_child=self._note)

    def disarm(self) -> None:
        """Note that CUDA could not be started after all; a child may try for itself."""
        self._is_armed = False

    def _note(self) -> None:
        if not self._is_armed:
            return
        self.has_forked = True
        if self._forget is not None:
            self._forget()

    def abandon(self, *owners: object) -> None:
        """Keep objects of the parent's driver permanently in such a child; else do nothing.

        Finalizers call this: to give it back would call a driver that is not there.
        """
        if self.has_forked:
            self._abandoned += owners

    def check(self) -> None:
        """Raise `DriverInitializationError` in such a child."""
        if self.has_forked:
            raise self.error()

    def error(self) -> DriverError:
        """Return the error for such a child."""
        return compose_error(
            DRIVER_CODES[3],
            "use CUDA in this process, which was forked after its parent had used CUDA",
            limit="The CUDA driver does not survive fork()",
            remedy='Start processes with multiprocessing.get_context("spawn"), or fork before the '
            "first use of CUDA",
        )


#: The guard of this process.
fork_guard = ForkGuard()
