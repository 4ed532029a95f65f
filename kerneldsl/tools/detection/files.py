"""Looks for libraries, tools and packages without loading any of them.

A graphics library can crash or hang when it is loaded on a machine without a display, so only files
are read. ``ctypes.util.find_library`` is not used on Linux: it starts a compiler
where the loader's cache has no answer.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kerneldsl.utilities.untrusted import read_plain_file

__all__ = [
    "find_library",
    "library_version",
    "read_text",
    "system_name",
    "tool_output",
]

_TIMEOUT_SECONDS = 5
#: More than any file of the system that is read here has.
_MAX_TEXT_BYTES = 2**20
#: Folders of libraries that the loader's cache may not know: the driver's under WSL 2, on NixOS and
#: in containers, and the system's own.
_FOLDERS = (
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
)
_CACHED = re.compile(r"^\s*(\S+) \(([^)]*)\) => (\S+)$", re.MULTILINE)
_VERSION_AT_END = re.compile(r"\.so\.(\d+(?:\.\d+)+)$|\.(\d+(?:\.\d+)+)\.dylib$")


def system_name() -> str:
    """Return ``sys.platform``, as a value that a type checker does not take for this machine's."""
    return sys.platform


def find_library(linux: str, *, macos: str | None = None, windows: str | None = None) -> str | None:
    """Return where a library is, or ``None``.

    `linux` is a file name such as ``"libvulkan.so.1"``; the others are names as
    ``ctypes.util.find_library`` takes them, and without one the library is not there.
    """
    if system_name() in ("darwin", "win32"):
        name = macos if system_name() == "darwin" else windows
        return ctypes.util.find_library(name) if name else None
    return next(_candidates(linux), None)


def _candidates(name: str) -> Iterator[str]:
    """Return the files of a name, in the order in which the loader would find them."""
    chosen = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    for folder in chosen:
        if os.path.isfile(path := os.path.join(folder, name)):
            yield path
    if (cached := _loader_cache().get(name)) is not None:
        yield cached
    for folder in _FOLDERS:
        if os.path.isfile(path := os.path.join(folder, name)):
            yield path


@cache
def _loader_cache() -> dict[str, str]:
    """Return file names and their paths, as the system's loader has them."""
    tool = shutil.which("ldconfig", path=os.pathsep.join(("/sbin", "/usr/sbin", os.defpath)))
    listing = tool_output(tool, "-p") if tool else None
    found: dict[str, str] = {}
    entries = _CACHED.findall(listing or "")
    # A library of 64 bits is listed with its architecture, such as (libc6,x86-64). One of 32 bits
    # is listed without, and is useless here.
    for name, _, path in sorted(entries, key=lambda entry: "," not in entry[1]):
        found.setdefault(name, path)
    return found


def library_version(path: str) -> str | None:
    """Return the version in the name of the file that a library's name links to.

    Such as ``"/usr/lib/libvulkan.so.1"``, which is a link to ``libvulkan.so.1.3.275``.
    """
    match = _VERSION_AT_END.search(os.path.realpath(path))
    return (match[1] or match[2]) if match else None


def read_text(path: str | Path) -> str | None:
    """Return what is in a file of the system, or ``None`` if it cannot be read."""
    try:
        contents, _ = read_plain_file(path, _MAX_TEXT_BYTES)
    except (OSError, ValueError):  # ValueError: a path with a null character
        return None
    return contents.decode(errors="replace")


def tool_output(tool: str, *arguments: str) -> str | None:
    """Return what a tool prints, or ``None`` if it is not there, fails or takes too long."""
    path = shutil.which(tool)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
