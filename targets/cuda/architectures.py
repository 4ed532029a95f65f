"""Architectures and PTX ISA versions that can be compiled for, and their combinations.

LLVM's wheel is built with assertions: it ends the process for a pair that it does not
know. So every pair is checked here, before LLVM sees it.

References
----------
PTX ISA 9.0, section "Release Notes" (which PTX version came with which CUDA release and driver, and
which introduced each target); the minimum of each architecture is LLVM 22's, asked of
``llvmlite`` 0.50 in child processes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.utilities.formatting import format_version

__all__ = [
    "ARCHITECTURES",
    "DEFAULT_ARCH",
    "NEWEST_PTX",
    "OLDEST",
    "PTX_RELEASES",
    "Architecture",
    "PtxRelease",
    "PtxVersion",
    "choose_ptx_version",
    "newest_ptx_of_driver",
    "parse_arch",
    "parse_ptx_version",
    "ptx_version_for_driver",
]

#: A PTX ISA version as (major, minor).
PtxVersion = tuple[int, int]

#: Default target, if neither the caller nor a device names an architecture.
DEFAULT_ARCH = "sm_75"

#: Below PTX 6.0 there is no ``bar.warp.sync``, which the language needs.
_LANGUAGE_MINIMUM: PtxVersion = (6, 0)

#: Bytes of shared memory that a block can have on every device.
_SHARED_BYTES = 48 * 1024
_MAX_SHARED_BYTES = {
    number: kilobytes * 1024
    for numbers, kilobytes in (
        ((75,), 64),
        ((70, 72), 96),
        ((86, 88, 89, 120, 121), 99),
        ((80, 87), 163),
        ((90, 100, 101, 103, 110), 227),
    )
    for number in numbers
}

#: The oldest version worth choosing by itself: CUDA 11's, which every supported driver takes.
_PREFERRED: PtxVersion = (7, 0)


class Architecture(NamedTuple):
    """One target architecture."""

    #: Name as LLVM, ptxas and the driver spell it, such as ``"sm_90a"``.
    name: str
    #: The first PTX ISA version with this architecture.
    minimum_ptx: PtxVersion
    #: Bytes of static shared memory that ptxas grants a block.
    max_static_shared_bytes: int = 48 * 1024
    #: Bytes of local memory that a thread can have.
    max_local_bytes: int = 512 * 1024
    #: Threads of a block.
    max_threads_per_block: int = 1024
    #: Registers a thread may use.
    max_registers_per_thread: int = 255

    @property
    def max_shared_bytes(self) -> int:
        """Bytes of static and dynamic shared memory that a block can have.

        CUDA Programming Guide, technical specifications per compute capability.
        """
        return _MAX_SHARED_BYTES.get(self.number, _SHARED_BYTES)

    @property
    def number(self) -> int:
        """The compute capability as one number: 90 for ``sm_90a``."""
        return int(self.name[3:].rstrip("af"))

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor."""
        return divmod(self.number, 10)

    @property
    def suffix(self) -> str:
        """``"a"`` for code that runs on this architecture alone, ``"f"`` for its family."""
        return self.name[-1] if self.name[-1] in "af" else ""

    def assembles_for(self, device: Architecture) -> bool:
        """Return whether PTX for this architecture can be assembled for a device of another."""
        if self.suffix == "a":
            return self.number == device.number
        has_family = self.suffix == "f"
        if has_family and self.compute_capability[0] != device.compute_capability[0]:
            return False
        return self.number <= device.number


class PtxRelease(NamedTuple):
    """First release with a PTX ISA version."""

    #: The version.
    ptx: PtxVersion
    #: The first CUDA release with it.
    cuda: tuple[int, int]
    #: The first driver branch that takes it.
    driver: int


#: The versions that LLVM 22 writes, oldest first.
PTX_RELEASES: tuple[PtxRelease, ...] = (
    PtxRelease((6, 0), (9, 0), 384),
    PtxRelease((6, 1), (9, 1), 387),
    PtxRelease((6, 2), (9, 2), 396),
    PtxRelease((6, 3), (10, 0), 400),
    PtxRelease((6, 4), (10, 1), 418),
    PtxRelease((6, 5), (10, 2), 440),
    PtxRelease((7, 0), (11, 0), 445),
    PtxRelease((7, 1), (11, 1), 455),
    PtxRelease((7, 2), (11, 2), 460),
    PtxRelease((7, 3), (11, 3), 465),
    PtxRelease((7, 4), (11, 4), 470),
    PtxRelease((7, 5), (11, 5), 495),
    PtxRelease((7, 6), (11, 6), 510),
    PtxRelease((7, 7), (11, 7), 515),
    PtxRelease((7, 8), (11, 8), 520),
    PtxRelease((8, 0), (12, 0), 525),
    PtxRelease((8, 1), (12, 1), 530),
    PtxRelease((8, 2), (12, 2), 535),
    PtxRelease((8, 3), (12, 3), 545),
    PtxRelease((8, 4), (12, 4), 550),
    PtxRelease((8, 5), (12, 5), 555),
    PtxRelease((8, 6), (12, 7), 565),
    PtxRelease((8, 7), (12, 8), 570),
    PtxRelease((8, 8), (12, 9), 575),
    PtxRelease((9, 0), (13, 0), 580),
)

NEWEST_PTX = PTX_RELEASES[-1].ptx

_MINIMUM_PTX: dict[str, PtxVersion] = {
    "sm_60": (5, 0),
    "sm_61": (5, 0),
    "sm_62": (5, 0),
    "sm_70": (6, 0),
    "sm_72": (6, 1),
    "sm_75": (6, 3),
    "sm_80": (7, 0),
    "sm_86": (7, 1),
    "sm_87": (7, 4),
    "sm_88": (9, 0),
    "sm_89": (7, 8),
    "sm_90": (7, 8),
    "sm_90a": (8, 0),
    "sm_100": (8, 6),
    "sm_100a": (8, 6),
    "sm_100f": (8, 8),
    "sm_101": (8, 6),
    "sm_101a": (8, 6),
    "sm_101f": (8, 8),
    "sm_103": (8, 8),
    "sm_103a": (8, 8),
    "sm_103f": (8, 8),
    "sm_110": (9, 0),
    "sm_110a": (9, 0),
    "sm_110f": (9, 0),
    "sm_120": (8, 7),
    "sm_120a": (8, 7),
    "sm_120f": (8, 8),
    "sm_121": (8, 8),
    "sm_121a": (8, 8),
    "sm_121f": (8, 8),
}

#: Every architecture by name, oldest first.
ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(name, minimum) for name, minimum in _MINIMUM_PTX.items()
}

#: The oldest architecture: its PTX runs on every device.
OLDEST = ARCHITECTURES["sm_60"]

_KNOWN_VERSIONS = frozenset(r.ptx for r in PTX_RELEASES)


def parse_arch(text: str) -> Architecture:
    """Read an architecture's name.

    Read a name such as ``"sm_90"``, ``"sm_90a"``, ``"compute_90"``, ``"90"`` or ``"9.0"``.

    Raises `ArgumentValueError` if there is no such architecture; the message lists those there
    are.

    Examples
    --------
    >>> parse_arch("9.0").name
    'sm_90'
    >>> parse_arch("sm_100a").minimum_ptx
    (8, 6)
    """
    named = text.strip().lower() if isinstance(text, str) else ""
    match = re.fullmatch(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d)([af]?)", named)
    arch = ARCHITECTURES.get(f"sm_{int(match[1])}{match[2]}{match[3]}") if match else None
    if arch is None:
        raise ArgumentValueError(
            f"arch {safe_repr(text)} is unknown",
            value=text,
            limit=f"Known architectures are {', '.join(ARCHITECTURES)}",
            remedy="Name one of them",
        )
    return arch


def older_architectures(arch: str) -> tuple[str, ...]:
    """Return the architectures with PTX that devices of one can run, the newest first.

    Examples
    --------
    >>> older_architectures("sm_86")[:3]
    ('sm_86', 'sm_80', 'sm_75')
    >>> older_architectures("sm_90a")[:2]
    ('sm_90a', 'sm_90')
    """
    own = parse_arch(arch)
    others = (each for each in ARCHITECTURES.values() if not each.suffix and each != own)
    older = (each for each in others if each.number <= own.number)
    found = sorted(older, key=lambda each: each.number, reverse=True)
    return (own.name, *(each.name for each in found))


def parse_ptx_version(value: str | float | PtxVersion) -> PtxVersion:
    """Read a PTX ISA version and check that LLVM can write it.

    Takes ``"7.8"``, ``7.8`` and ``(7, 8)``.

    Raises `ArgumentValueError` if it is not a version, or not one that can be written.

    Examples
    --------
    >>> parse_ptx_version("7.8")
    (7, 8)
    """
    version: PtxVersion | None = None
    if isinstance(value, tuple):
        if len(value) == 2 and all(isinstance(part, int) for part in value):
            version = value
    else:
        text = str(value).strip() if isinstance(value, (str, float)) else ""
        match = re.fullmatch(r"(\d{1,3})\.(\d)", text)
        version = (int(match[1]), int(match[2])) if match else None
    if version not in _KNOWN_VERSIONS:
        known = ", ".join(format_version(r.ptx) for r in PTX_RELEASES)
        raise ArgumentValueError(
            f"unsupported ptx_version {safe_repr(value)}",
            value=value,
            limit=f"This LLVM writes PTX ISA {known}",
            remedy="Name one of them, or leave it out",
        )
    return version


def ptx_version_for_driver(cuda_version: int) -> PtxVersion:
    """Return the newest PTX ISA version that a driver takes and LLVM writes.

    `cuda_version` is as ``cuDriverGetVersion`` gives it: 1000 · major + 10 · minor.

    Raises `ArgumentValueError` where the driver is older than CUDA 9.0.

    Examples
    --------
    >>> ptx_version_for_driver(13000)
    (9, 0)
    >>> ptx_version_for_driver(12060)
    (8, 5)
    """
    driver = (cuda_version // 1000, cuda_version % 1000 // 10)
    usable = [r.ptx for r in PTX_RELEASES if r.cuda <= driver]
    if not usable:
        oldest = PTX_RELEASES[0]
        raise ArgumentValueError(
            f"the driver supports CUDA {format_version(driver)}",
            value=cuda_version,
            limit=f"kerneldsl needs CUDA {format_version(oldest.cuda)} (driver {oldest.driver})",
            remedy="Update the NVIDIA driver",
        )
    return usable[-1]


def newest_ptx_of_driver(cuda: tuple[int, int]) -> PtxVersion | None:
    """Return the newest PTX ISA version that a driver of a CUDA release takes, LLVM's or not.

    It is ``None`` for a release that is newer than this table.

    Examples
    --------
    >>> newest_ptx_of_driver((12, 6)), newest_ptx_of_driver((13, 2)), newest_ptx_of_driver((14, 0))
    ((8, 5), (9, 2), None)
    """
    newest = PTX_RELEASES[-1]
    if cuda <= newest.cuda:
        return ptx_version_for_driver(1000 * cuda[0] + 10 * cuda[1])
    major, minor = newest.cuda
    same_release = cuda[0] == major  # since CUDA 13 each release has the next version of PTX
    return (newest.ptx[0], newest.ptx[1] + cuda[1] - minor) if same_release else None


def choose_ptx_version(
    arch: Architecture, requested: str | float | PtxVersion | None = None
) -> PtxVersion:
    """Return the PTX ISA version to write for an architecture.

    By default that is the oldest that serves, so that old drivers take it.

    Raises `ArgumentValueError` where the requested version does not know the architecture.
    """
    if requested is None:
        return max(arch.minimum_ptx, _PREFERRED)
    version = parse_ptx_version(requested)
    minimum = max(arch.minimum_ptx, _LANGUAGE_MINIMUM)
    if version < minimum:
        raise ArgumentValueError(
            f"PTX ISA {format_version(version)} does not support {arch.name}",
            value=version,
            limit=f"{arch.name} came with PTX ISA {format_version(minimum)}",
            remedy=f"Use ptx_version={format_version(minimum)!r} or newer, or an older arch",
        )
    return version
