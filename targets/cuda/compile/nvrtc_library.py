"""Finds the file of NVRTC: the one that is loaded, or that is loaded when a source is compiled.

References
----------
cuda.pathfinder, ``load_nvidia_dynamic_lib``, "Search order"; ld.so(8); ldconfig(8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories

__all__ = ["find_library", "load_library", "loaded_libraries"]

#: Names of the library, the newest release first; others are of releases that nothing here calls.
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
_MAPS = Path("/proc/self/maps")
_LOADED = re.compile(r"^(?:\S+\s+){5}(/.*/libnvrtc\.so\.\S+?)( \(deleted\))?$", re.MULTILINE)
_LINKER_CACHE = Path("/etc/ld.so.cache")


def loaded_libraries() -> list[Path]:
    """Return the files of NVRTC in this process, without links.

    Raises `LookupError` if one was replaced on the disk.
    """
    try:
        text = _MAPS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not on Linux
        return []
    rows = dict(_LOADED.findall(text)) if "libnvrtc.so" in text else {}
    if any(rows.values()):
        raise LookupError("NVRTC was replaced after it was loaded")
    return [Path(path).resolve() for path in rows]


def find_library() -> Path | None:
    """Return the file of NVRTC that :func:`load_library` loads, without links."""
    return next((place.resolve() for place in _places() if place.is_file()), None)


def _places() -> Iterator[Path]:
    folders: list[Path] = []
    for wheel in wheel_directories():
        folders += [wheel / "cu13" / "lib", wheel / "cuda_nvrtc" / "lib"]
    if os.environ.get("CONDA_PREFIX"):
        folders.append(Path(os.environ["CONDA_PREFIX"]) / "lib")
    folders += map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))
    for folder in folders:
        yield from (folder / name for name in _NAMES)
    yield from _linked_places()
    for root in toolkit_directories():
        for name in _NAMES:
            yield root / "lib64" / name
            yield root / "lib" / name


def _linked_places() -> Iterator[Path]:
    """Yield where the system's linker finds the library."""
    try:
        data = _LINKER_CACHE.read_bytes()
    except OSError:
        return
    for name in _NAMES:
        found = re.search(rb"\0(/[^\0]*/%s)\0" % re.escape(name.encode()), data)
        if found:
            yield Path(os.fsdecode(found[1]))


def load_library() -> None:
    """Load NVRTC, if this process has not, so that ``cuda.bindings`` calls the file that is found.

    By itself it looks for packages in the folders of this Python alone, and not on all of its path.
    """
    library = None if loaded_libraries() else find_library()
    if library is not None:
        import ctypes

        # It does not search the file of functions in its own folder, and finds one that is loaded.
        for each in (*sorted(library.parent.glob("libnvrtc-builtins.so.*")), library):
            with suppress(OSError):  # which the bindings report
                ctypes.CDLL(str(each))
