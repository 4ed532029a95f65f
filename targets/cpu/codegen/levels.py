"""Levels of processors: what code that is compiled for other machines may use.

References
----------
System V Application Binary Interface, AMD64 Architecture Processor Supplement, section
"Micro-Architecture Levels". LLVM names a processor for each of them.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.vector_extensions import compiled_for, features_of_levels

__all__ = ["LEVELS", "Level", "compiling_for", "features_in_use", "supported_levels"]


@dataclass(frozen=True)
class Level:
    """A level of processors, or an architecture as a whole.

    Parameters
    ----------
    name : str
        Such as ``"x86-64-v3"``; LLVM's name of the processor, too.
    machine : str
        Architecture, as `platform.machine` names it.
    features : frozenset of str
        LLVM's names of the features that every processor of it has.
    """

    name: str
    machine: str
    features: frozenset[str]

    @property
    def triple(self) -> str:
        """LLVM's name of the machine and its system."""
        return f"{self.machine}-unknown-linux-gnu"


_V2 = ["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"]
_V3 = [*_V2, *["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]]
_V4 = [*_V3, *["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]]
#: Each level by its name, the best of an architecture first.
LEVELS = {
    level.name: level
    for level in (
        Level("x86-64-v4", "x86_64", frozenset(_V4)),
        Level("x86-64-v3", "x86_64", frozenset(_V3)),
        Level("x86-64-v2", "x86_64", frozenset(_V2)),
        Level("aarch64", "aarch64", frozenset({"neon"})),
    )
}
#: What LLVM calls the processor of a level that has another name there.
_PROCESSORS = {"aarch64": "generic"}
#: The level that is compiled for, under Numba's compiler lock; ``None`` for this processor.
_current: Level | None = None


def supported_levels() -> tuple[str, ...]:
    """Return the levels with code that this process can run, best first.

    Features that Numba's variables turn off, such as ``NUMBA_ENABLE_AVX=0``, count as missing.
    """
    machine = platform.machine()
    levels = [level for level in LEVELS.values() if level.machine == machine]
    if len(levels) > 1:  # nothing lists what each processor of an architecture has
        features = features_of_levels()
        levels = [level for level in levels if level.features <= features]
    return tuple(level.name for level in levels)


@contextmanager
def compiling_for(name: str | None) -> Iterator[Any]:
    """Compile for a level, in a ``with`` block; the value is LLVM's target machine for it.

    With ``None``, code is for this processor, and the value is ``None``. The caller holds Numba's
    compiler lock.
    """
    global _current  # noqa: PLW0603
    before, _current = _current, None if name is None else LEVELS[name]
    try:
        yield None if name is None else _target_machine(name)
    finally:
        _current = before


def features_in_use() -> frozenset[str]:
    """Return LLVM's names of the features of the processor that is compiled for."""
    return compiled_for().features if _current is None else _current.features


@functools.cache
def _target_machine(name: str) -> Any:
    import llvmlite.binding as llvm

    level = LEVELS[name]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(level.triple)
    # A linker may place it anywhere.
    processor = _PROCESSORS.get(name, name)
    return target.create_target_machine(cpu=processor, opt=3, reloc="pic", codemodel="small")
