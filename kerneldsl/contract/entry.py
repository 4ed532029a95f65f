"""Entry of a target in the core's table, known before the target is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["MemoryType", "TargetEntry"]


class MemoryType(IntEnum):
    """Kinds of memory, numbered as DLPack's ``DLDeviceType``.

    References
    ----------
    DLPack 1.3, ``dlpack.h``.
    """

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    CUDA_MANAGED = 13


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """A target that belongs to kerneldsl, in the table ``TARGETS`` of its package.

    Parameters
    ----------
    make : str
        ``module:function`` that makes it.
    is_hardware : bool
        Whether its devices are real, so that they are shown, checked, and one of them can be the
        default.
    forms : tuple of str
        Forms of code that it is requested by name, such as ``"ptx"``.
    files : mapping of str to str
        Suffix of a file to the form of code that ``kerneldsl compile`` writes into it; the first
        form is what it prints.
    together : tuple of str
        Those of these forms that hold code for several architectures.
    memory : tuple of MemoryType
        Memory of other libraries that its kernels take; torch calls its devices by its name.
    probe : str or None
        ``module:function`` that looks for its driver and returns a
        :class:`kerneldsl.tools.detection.probes.Finding`.
    dry_run : str or None
        A target that compiles and launches as it would on devices that are not there.
    """

    make: str
    is_hardware: bool = True
    forms: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    memory: tuple[MemoryType, ...] = ()
    probe: str | None = None
    dry_run: str | None = None
