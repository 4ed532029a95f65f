"""Object code that another process compiled, linked into this one by LLVM's ORC, without Numba.

ORC reports what is missing or malformed; the older MCJIT, which Numba uses, ends the process.

References
----------
LLVM, "ORC Design and Implementation"; llvmlite, "JIT library builder".
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from kerneldsl.contract import UnusableCodeError
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cpu.object_files import BadObjectError, check_object

__all__ = ["IS_SUPPORTED", "LoadedObject", "host_identity", "load_object"]

#: Where this has been tried: the names of symbols differ on other systems.
IS_SUPPORTED = sys.platform == "linux"

_lock = ForkSafeLock()
_numbers = itertools.count(1)
_jit: Any = None


class LoadedObject:
    """Linked object code; it is unloaded with this."""

    def __init__(self, tracker: Any, address: int) -> None:
        self._tracker = tracker
        self.address = address


def load_object(code: bytes, entry_name: str) -> LoadedObject:
    """Link an object file against the functions of this process.

    Raises `UnusableCodeError` if it is not an object file for this machine, or calls what this
    process does not have.
    """
    try:
        check_object(code, entry_name)
    except BadObjectError as error:
        raise UnusableCodeError(f"it is not an object file for this process: {error}") from error
    import llvmlite.binding as llvm

    with _lock:
        jit = _start(llvm)
        builder = llvm.JITLibraryBuilder()
        builder.add_object_img(code).add_current_process().export_symbol(entry_name)
        try:
            tracker = builder.link(jit, f"kerneldsl {next(_numbers)}")
        except RuntimeError as error:
            raise UnusableCodeError(f"LLVM cannot link it: {error}") from error
        return LoadedObject(tracker, int(tracker[entry_name]))


def _start(llvm: Any) -> Any:
    global _jit  # noqa: PLW0603 -- one linker for the process
    if _jit is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _jit = llvm.create_lljit_compiler()
    return _jit


def host_identity() -> dict[str, str]:
    """Return the processor as LLVM sees it: code for another one may hold what it does not know."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return {
        "processor": llvm.get_host_cpu_name(),
        "processor features": ",".join(sorted(name for name, has in features.items() if has)),
        "triple": llvm.get_process_triple(),
    }
