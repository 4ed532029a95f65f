"""Records what launches compile, for packages that ship it.

While it is recorded, nothing is taken from the cache or from a package: everything is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kerneldsl.contract import Artifact, Compiler, Specialization

__all__ = ["Recorded", "is_recording", "note", "recording"]

_current: list[list[Recorded]] = []


class Recorded(NamedTuple):
    """A kernel that a launch has compiled."""

    #: What compiled it.
    compiler: Compiler
    #: What it was compiled for.
    specialization: Specialization
    #: Its code.
    artifact: Artifact


@contextmanager
def recording() -> Iterator[list[Recorded]]:
    """Record what is compiled, in a ``with`` block of the main thread."""
    found: list[Recorded] = []
    _current.append(found)
    try:
        yield found
    finally:
        _current.pop()  # blocks are nested, and lists with equal contents are not the same


def is_recording() -> bool:
    """Return whether anything is recorded."""
    return bool(_current)


def note(compiler: Compiler, specialization: Specialization, artifact: Artifact) -> None:
    """Add a kernel that a launch has compiled, or compiled before, to what is recorded."""
    for found in _current:
        found.append(Recorded(compiler, specialization, artifact))
