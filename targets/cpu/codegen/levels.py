"""Levels of processors, and the vector extensions of this one, that compiled code may use.

Numba lets LLVM look at the processor, unless its own variables say otherwise. This module finds
the same without importing Numba. Where Linux lists the features of the processor, LLVM is not
loaded either.

References
----------
System V Application Binary Interface, AMD64 Architecture Processor Supplement, section
"Micro-Architecture Levels". LLVM names a processor for each of them.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.modules import imported

__all__ = [
    "LEVELS",
    "Level",
    "compiled_for",
    "compiling_for",
    "extensions_in_use",
    "features_by_linux",
    "features_in_use",
    "features_of_levels",
    "supported_levels",
]


@dataclass(frozen=True)
class Level:
    """A level of processors, or an architecture as a whole."""

    #: Name, such as ``"x86-64-v3"``. It is LLVM's name of the processor, too, except for
    #: ``"aarch64"``.
    name: str
    #: Architecture, as `platform.machine` names it.
    machine: str
    #: LLVM's names of the features that every processor of it has.
    features: frozenset[str]


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
def compiling_for(name: str) -> Iterator[Any]:
    """Compile for a level, in a ``with`` block; the value is LLVM's target machine for it.

    Code is for this processor outside of such blocks. The caller holds Numba's compiler lock.
    """
    global _current  # noqa: PLW0603
    before, _current = _current, LEVELS[name]
    try:
        yield _target_machine(name)
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
    target = llvm.Target.from_triple(f"{level.machine}-unknown-linux-gnu")
    processor = "generic" if name == "aarch64" else name
    # A linker may place it anywhere.
    return target.create_target_machine(cpu=processor, opt=3, reloc="pic", codemodel="small")


# -- vector extensions that compiled code may use on this processor -------------------------------


#: LLVM's name of a feature to the extension's usual one, widest first.
_EXTENSIONS = {
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "avx": "AVX",
    "sve2": "SVE2",
    "sve": "SVE",
    "neon": "NEON",
}
#: Architectures that include NEON, whatever LLVM lists.
_HAS_NEON = ("aarch64", "arm64")

#: LLVM's names, by Linux's, of the features in levels of processors.
_NAMES = {
    "abm": "lzcnt",
    "bmi1": "bmi",
    "lahf_lm": "sahf",
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    **{
        name: name
        for name in (
            *("avx", "avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
            *("bmi2", "cx16", "f16c", "fma", "movbe", "popcnt", "ssse3", "xsave"),
        )
    },
}

#: The entry of one processor is shorter; to read all would take long on a large machine.
_MOST_BYTES = 1 << 14


@dataclass(frozen=True)
class CompiledFor:
    """Processor and features that Numba has LLVM compile for."""

    #: LLVM's name of the processor, such as ``"znver3"``.
    cpu: str
    #: LLVM's names of the features in use.
    features: frozenset[str]


def compiled_for() -> CompiledFor:
    """Return what Numba has LLVM compile for in this process.

    Raises `AttributeUnavailableError` where LLVM does not know this processor.
    """
    settings = _numba_settings()
    cpu, wanted, is_avx_on = settings
    host_cpu, host_features = _host()
    features = set(host_features)
    if wanted is not None:
        if cpu not in (None, host_cpu):
            features.clear()  # what a named processor implies, only LLVM's tables know
        for flag in wanted.split(","):
            name = flag.strip()
            if name.startswith("+"):
                features.add(name[1:])
            elif name.startswith("-"):
                features.discard(name[1:])
    elif not is_avx_on:
        features = {name for name in features if not name.startswith("avx")}
    return CompiledFor(cpu or host_cpu, frozenset(features))


def extensions_in_use() -> tuple[str, ...]:
    """Return the vector extensions in use, widest first; ``("baseline",)`` for none.

    Raises `AttributeUnavailableError` where LLVM does not know this processor.
    """
    features = compiled_for().features
    found = [name for feature, name in _EXTENSIONS.items() if feature in features]
    if platform.machine().lower() in _HAS_NEON and "NEON" not in found:
        found.append("NEON")
    return tuple(found) or ("baseline",)


def features_of_levels() -> frozenset[str]:
    """Return the features of :func:`compiled_for`, or at least those that levels consist of.

    LLVM is not loaded for that where Linux lists them.
    """
    cpu, wanted, is_avx_on = _numba_settings()
    if cpu is None and wanted is None and imported("llvmlite") is None:
        found = features_by_linux()
        if found:
            return found if is_avx_on else frozenset(f for f in found if not f.startswith("avx"))
    return compiled_for().features


def _numba_settings() -> tuple[str | None, str | None, bool]:
    """Name of the processor, features, and whether AVX is allowed, as Numba reads them."""
    config: Any = getattr(imported("numba"), "config", None)
    if config is not None:  # a program may have set them there
        return config.CPU_NAME, config.CPU_FEATURES, bool(config.ENABLE_AVX)
    allowed = os.environ.get("NUMBA_ENABLE_AVX", "1").strip()
    return (
        os.environ.get("NUMBA_CPU_NAME"),
        os.environ.get("NUMBA_CPU_FEATURES"),
        allowed not in ("", "0"),
    )


@functools.cache
def _host() -> tuple[str, frozenset[str]]:
    import llvmlite.binding

    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError as error:
        raise AttributeUnavailableError(
            f"LLVM does not know the features of this processor: {error}"
        ) from error
    in_use = frozenset(name for name, is_on in features.items() if is_on)
    return llvmlite.binding.get_host_cpu_name(), in_use


@functools.cache
def features_by_linux(file: str = "/proc/cpuinfo") -> frozenset[str]:
    """Return LLVM's names of the features that Linux lists of the first processor.

    Those that the system does not support are missing, as for LLVM. The result is empty where
    Linux lists none, as on a processor of another architecture.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace")
        finally:
            os.close(descriptor)
    except (OSError, AttributeError):  # not on every system
        return frozenset()
    for line in text.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            return frozenset(_NAMES[flag] for flag in flags.split() if flag in _NAMES)
    return frozenset()
