"""Addresses that compiling takes, held against the limit of the process (``RLIMIT_AS``).

LLVM ends a process in which it cannot allocate, and returns no error. So code that will load or
run it checks here first. If there is no limit that is one call of ``getrlimit``.

References
----------
getrlimit(2), ``RLIMIT_AS``; proc(5), ``/proc/pid/statm``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kerneldsl.errors import CompileError, SourceLocation
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["RAISE_LIMIT", "Addresses", "group_settings", "out_of_addresses", "require_addresses"]


#: Remedy for the limit.
RAISE_LIMIT = "Run `ulimit -v unlimited` first"
_MIB = 2**20
#: Growth of VmSize by the import of each module, in the order of a first compilation. Measured on
#: x86-64 Linux with llvmlite 0.50 and numba 0.68. The modules of kerneldsl represent LLVM's linker
#: and Numba's registries.
_IMPORTS = {
    "llvmlite.binding": 158 * _MIB,
    "kerneldsl.lowering.numba_internals.llvm_lock": 16 * _MIB,
    "numba": 24 * _MIB,
    "kerneldsl.lowering.numba_internals.host_code": 24 * _MIB,
}
#: Number of these imports that linking needs.
_IMPORTS_TO_LINK = 2
#: Growth by compiling after the imports (2 MiB for a small kernel, 7 for the largest of the
#: library), and by linking a kernel. In all, a first launch has succeeded with 339 MiB on two
#: processors, and one from the cache with 175.
_COMPILING_BYTES, _LINKING_BYTES = 8 * _MIB, 2 * _MIB


class Addresses:
    """The limit on addresses of this process, and what of it is in use."""

    def __init__(self, limit_bytes: int, used_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = used_bytes

    @classmethod
    def limited(cls) -> Addresses | None:
        """Return the address space; ``None`` if there is no limit, or the system reports none."""
        try:
            import resource
        except ImportError:  # Windows has no such limit
            return None
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit in (-1, resource.RLIM_INFINITY):
            return None
        try:
            with open("/proc/self/statm", "rb") as file:
                pages = int(file.read().split()[0])
        except OSError:  # another system than Linux, or one that hides it
            return None
        return cls(limit, pages * resource.getpagesize())

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be mapped."""
        return max(0, self.limit_bytes - self.used_bytes)

    def missing(self, *, compiles: bool = True) -> int | None:
        """Return how many bytes are needed if so many are not left.

        - `compiles`: whether kernels are compiled; otherwise compiled code is linked, which takes
          LLVM alone.
        """
        needed = _COMPILING_BYTES if compiles else _LINKING_BYTES
        modules = tuple(_IMPORTS.items())[: None if compiles else _IMPORTS_TO_LINK]
        needed += sum(nbytes for module, nbytes in modules if module not in sys.modules)
        return None if needed <= self.left_bytes else needed


def require_addresses(
    work: str, *, compiles: bool = True, where: Callable[[], SourceLocation] | None = None
) -> None:
    """Refuse to begin what a limit on addresses leaves no room for.

    - `work`: the work to do, as the subject of a sentence.
    - `compiles`: whether kernels are compiled; otherwise compiled code is linked, which takes LLVM
      alone.
    - `where`: returns the kernel's place.
    - raises `CompileError` if fewer addresses are left than it takes.
    """
    addresses = Addresses.limited()
    missing = addresses.missing(compiles=compiles) if addresses is not None else None
    if addresses is None or missing is None:
        return
    place = None if where is None else where()
    raise _refusal(f"{work} needs {format_bytes(missing)}", place, addresses)


def out_of_addresses(work: str, where: SourceLocation) -> CompileError | None:
    """Return the error for what found no memory after all; ``None`` if there is no limit."""
    addresses = Addresses.limited()
    if addresses is None:
        return None
    return _refusal(f"{work} found no more memory", where, addresses)


def _refusal(what: str, where: SourceLocation | None, addresses: Addresses) -> CompileError:
    left, limit = addresses.left_bytes, addresses.limit_bytes
    return CompileError(
        f"{what}, and {format_bytes(left)} of addresses are left",
        where=where,
        value=left,
        limit=f"The limit is {format_bytes(limit)} (RLIMIT_AS, ulimit -v); "
        f"{format_bytes(addresses.used_bytes)} are in use",
        remedy=RAISE_LIMIT,
    )


# References: Linux kernel, "Control Group v2", sections "Memory" and "CPU"; "CFS
# Bandwidth Control" for the first version.
def group_settings(
    controller: str, unified: str | None, first: str | None, root: Path
) -> Iterator[str]:
    """Yield a setting of this process's group and of each group above it, which holds as well.

    - `controller`: such as ``"memory"``.
    - `unified`, `first`: file of the setting in the second and in the first version of control
      groups; ``None`` leaves that version out.
    - `root`: root folder of the system's files, which is another one in tests.
    """
    folder = Path(root, "sys/fs/cgroup")
    for line in _read(Path(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            start, name = folder, unified
        elif controller in controllers.split(","):
            start, name = folder / controller, first
            if not start.is_dir():  # where several controllers are mounted together
                start = folder / controllers
        else:
            continue
        if name is None:
            continue
        group = Path(path.strip("/"))
        # The path may not be visible in a container.
        for part in (group, *group.parents):
            yield _read(start / part / name).strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
