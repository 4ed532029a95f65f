"""Features of this processor as Linux lists them, which takes less time than to load LLVM."""

from __future__ import annotations

import functools
import os

__all__ = ["features_by_linux"]

#: Names of LLVM by Linux's, of what levels of processors consist of.
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
