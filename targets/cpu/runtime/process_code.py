"""Machine code that a process needs once, beside its kernels.

Compiling it takes longer than all else that a first launch does of a small kernel, so it is in
the cache beside each kernel's; it holds no address of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneldsl.contract import UnusableCodeError
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["VERSION", "ProcessCode"]

#: Version of the handlers of signals, the pool of threads and the function that runs pieces. Those
#: that a package ships are used in their version alone; others are compiled.
VERSION = 1


class ProcessCode:
    """An object file, compiled where no earlier process has offered it.

    Parameters
    ----------
    function : str
        Function that it defines, which takes one address.
    compile_code : callable
        Returns it.
    """

    def __init__(self, function: str, compile_code: Callable[[], bytes]) -> None:
        self._function = function
        self._compile = compile_code
        self._code: bytes | None = None
        self._lock = ForkSafeLock()

    def offer(self, code: bytes | None) -> None:
        """Take what an earlier process has compiled."""
        if self._code is None and code:
            self._code = code

    def code(self) -> bytes:
        """Return the object file."""
        with self._lock:
            if self._code is None:
                self._code = self._compile()
            return self._code

    def load(self) -> Any:
        """Link it, and compile it again if it cannot be used; the caller keeps what it is."""
        from targets.cpu.runtime.objects import load_object

        require_addresses(f"linking {self._function} of the CPU target", compiles=False)
        try:
            return load_object(self.code(), self._function)
        except UnusableCodeError as error:
            logger.debug("%s is compiled anew: %s", self._function, error)
            self._code = None
            return load_object(self.code(), self._function)
