"""Records what launches compile and count, for packages that ship it.

While it is recorded, nothing is taken from the cache or from a package: everything is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Artifact, Compiler, Dim3, Specialization
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind

__all__ = ["Counted", "Recorded", "Recording", "note", "note_work", "recording", "recordings"]


class Recorded(NamedTuple):
    """A kernel that a launch has compiled."""

    #: The compiler of the kernel.
    compiler: Compiler
    #: The specialization that was compiled.
    specialization: Specialization
    #: The compiled code.
    artifact: Artifact


class Counted(NamedTuple):
    """Work of a kernel that a launch has counted."""

    #: The kernel as compiled for its arguments.
    unit: FunctionUnit
    kinds: tuple[Kind, ...]
    #: The block that was known.
    block_dim: Dim3 | None
    work: KernelWork


class Recording:
    """Code and counts that launches have made."""

    def __init__(self) -> None:
        self.compiled: list[Recorded] = []
        self.counted: list[Counted] = []


#: Recordings in progress.
recordings: list[Recording] = []


@contextmanager
def recording() -> Iterator[Recording]:
    """Record what is compiled and counted, in a ``with`` block of the main thread."""
    found = Recording()
    recordings.append(found)
    try:
        yield found
    finally:
        recordings.pop()


def note(compiler: Compiler, specialization: Specialization, artifact: Artifact) -> None:
    """Add a kernel that a launch has compiled, or compiled before, to what is recorded."""
    for found in recordings:
        found.compiled.append(Recorded(compiler, specialization, artifact))


def note_work(counted: Counted) -> None:
    """Add work that a launch has counted, or counted before, to what is recorded."""
    for found in recordings:
        found.counted.append(counted)
