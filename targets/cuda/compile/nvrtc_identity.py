"""Identifies NVRTC and the headers of a source, for keys of the cache, without loading NVRTC.

To load it takes a tenth of a second, which a process with cached code need not spend. The file is
searched where ``cuda.pathfinder`` searches when NVRTC is loaded. A key is computed before and after
compiling. So if another file is loaded, the code is not cached.

References
----------
cuda.pathfinder, ``load_nvidia_dynamic_lib``, "Search order"; ld.so(8); ldconfig(8).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from kerneldsl.cache.remembered import Computed, remembered
from kerneldsl.contract.cuda_options import CudaOptions
from targets.cuda.compile.cuda_text import CudaText
from targets.cuda.compile.headers import includes_anything, includes_digest, toolkit_headers
from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories

__all__ = ["headers_digest", "nvrtc_identity"]

#: Names of the library, the newest release first; others are of releases that nothing here calls.
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
_MAPS = Path("/proc/self/maps")
_LOADED = re.compile(r"^(?:\S+\s+){5}(/.*/libnvrtc\.so\.\S+?)( \(deleted\))?$", re.MULTILINE)
_LINKER_CACHE = Path("/etc/ld.so.cache")


def nvrtc_identity() -> str:
    """Return the names and a digest of the files of NVRTC that compile a source.

    These are the file that would be loaded, and files that are loaded, such as another library's.

    Raises `LookupError` if a loaded file cannot be identified, `ToolMissingError` if there is none.
    """
    found = _search()
    if found is None:  # it is not installed, or in a place that only the system knows
        _load()
    libraries = sorted({*_loaded(), *([] if found is None else [found])})
    try:
        return " ".join(_identify(library) for library in libraries)
    except OSError as error:
        raise LookupError(f"NVRTC cannot be read: {error}") from error


def headers_digest(source: CudaText, options: CudaOptions) -> str:
    """Return a digest of all files that a source may include.

    Raises `LookupError` if a macro with an unknown value is included.
    """
    toolkit = toolkit_headers(_release()) if includes_anything(source.text) else ()
    digest = includes_digest(source.text, source.folder, options.folders, toolkit, options.macros)
    return hashlib.sha256(f"{digest} {source.name}".encode()).hexdigest()


def _release() -> int:
    """Return the major release of CUDA that NVRTC is of."""
    found = _search()
    if found is None:
        return _load()
    return int(found.name.removeprefix("libnvrtc.so.").partition(".")[0])


def _load() -> int:
    """Load NVRTC; return its major release."""
    from targets.cuda.compile.nvrtc import nvrtc_version

    return nvrtc_version()[0]


def _loaded() -> list[Path]:
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


def _search() -> Path | None:
    """Return the file of NVRTC that is loaded first, without links."""
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


def _identify(library: Path) -> str:
    """Return the name of a library, and a digest of its contents and of its built-in functions.

    Raises `OSError` if a file cannot be read.
    """
    # The library loads the file of functions from its own folder.
    files = (library, *sorted(library.parent.glob("libnvrtc-builtins.so*")))
    about = {"NVRTC": "\n".join(map(str, files))}
    return f"{library.name} {remembered(about, lambda: _digest(files))}"


def _digest(files: Sequence[Path]) -> Computed:
    contents = [(each.name, _digest_of(each)) for each in files]
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()
    return Computed(digest, map(str, files))


def _digest_of(file: Path) -> str:
    status = file.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    return _digest_as_it_is(file, status.st_ino, status.st_size, times)


@cache
def _digest_as_it_is(file: Path, _inode: int, _size: int, _changed_ns: tuple[int, int]) -> str:
    """Return the digest of a file, read once in a process."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
