"""Identifies NVRTC and the headers of a source, for keys of the cache, without loading NVRTC.

To load it takes a tenth of a second, which a process with cached code need not spend. Its file is
searched as for loading it. A key is computed before and after compiling. So if another file is
loaded, the code is not cached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kerneldsl.cache.remembered import Computed, remembered
from kerneldsl.contract.cuda_options import CudaOptions
from targets.cuda.compile.diagnostics import CudaText
from targets.cuda.compile.headers import includes_anything, includes_digest, toolkit_headers
from targets.cuda.compile.nvrtc_library import find_library, loaded_libraries

__all__ = ["headers_digest", "nvrtc_identity"]


def nvrtc_identity() -> str:
    """Return the names and a digest of the files of NVRTC that compile a source.

    These are the file that would be loaded, and files that are loaded, such as another library's.

    Raises `LookupError` if a loaded file cannot be identified, `ToolMissingError` if there is none.
    """
    found = find_library()
    if found is None:  # it is not installed, or in a place that only the system knows
        _load()
    libraries = sorted({*loaded_libraries(), *([] if found is None else [found])})
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
    found = find_library()
    if found is None:
        return _load()
    return int(found.name.removeprefix("libnvrtc.so.").partition(".")[0])


def _load() -> int:
    """Load NVRTC; return its major release."""
    from targets.cuda.compile.nvrtc import nvrtc_version

    return nvrtc_version()[0]


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
