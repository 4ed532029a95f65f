"""NVIDIA's own occupancy calculator, compiled from its header where header and compiler are found.

``cuda_occupancy.h`` comes with a CUDA toolkit and with the wheel nvidia-cuda-runtime. It is
compiled where it lies, by ``oracle.c`` of this folder; nothing of it is stored here.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["INPUTS", "OUTPUTS", "Header", "find_header"]

#: Columns of a configuration; a negative number means "not set".
INPUTS = (
    "major",
    "minor",
    "max_threads_per_block",
    "max_threads_per_multiprocessor",
    "max_registers_per_block",
    "max_registers_per_multiprocessor",
    "warp_size",
    "max_shared_memory_per_block",
    "max_shared_memory_per_multiprocessor",
    "multiprocessor_count",
    "max_shared_memory_per_block_optin",
    "reserved_shared_memory_per_block",
    "kernel_max_threads_per_block",
    "registers",
    "static_shared_bytes",
    "max_dynamic_shared_bytes",
    "barriers",
    "virtual_resources",
    "block_threads",
    "dynamic_shared_bytes",
    "carveout_percent",
    "dynamic_bytes_per_thread",
    "wanted_blocks",
)

#: Columns of an answer; -1 is "no limit", or "not answered" after a status that is not 0.
OUTPUTS = (
    "status",
    "active_blocks",
    "warps",
    "registers",
    "shared_memory",
    "blocks",
    "barriers",
    "virtual_resources",
    "registers_per_block",
    "shared_bytes_per_block",
    "limiting_factors",
    "potential_status",
    "potential_block_threads",
    "potential_grid_blocks",
    "available_status",
    "available_bytes",
)

#: The first header that answers as the model does. Before 13.1 the bytes that the driver reserves
#: were not taken off the available ones; before 13.3 compute capability 10.3 had twice the
#: barriers; before 13.4 compute capability 10.7 was not known.
_OLDEST_VERSION = 13040

_HERE = Path(__file__).parent


class Header:
    """The calculator of one header.

    Parameters
    ----------
    path : Path
        The header.
    version : int
        CUDA's version as the toolkit writes it: 13050 for 13.5.
    folder : Path
        Where the shared library is put.
    """

    def __init__(self, path: Path, version: int, folder: Path) -> None:
        self.path = path
        self.version = version
        library = folder / "oracle.so"
        flags = ("-O2", "-std=gnu11", "-shared", "-fPIC", f"-I{path.parent}")
        subprocess.run(
            [_compiler(), *flags, "-o", str(library), str(_HERE / "oracle.c")],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self._ask_all = ctypes.CDLL(str(library)).ask_all
        self._ask_all.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        self._ask_all.restype = None

    def ask(self, configurations: np.ndarray) -> np.ndarray:
        """Answer configurations of shape (n, len(INPUTS)) with rows of shape (n, len(OUTPUTS))."""
        rows = np.ascontiguousarray(configurations, np.int64)
        assert rows.ndim == 2
        assert rows.shape[1] == len(INPUTS)
        answers = np.full((len(rows), len(OUTPUTS)), -(1 << 60), np.int64)
        self._ask_all(len(rows), rows.ctypes.data, answers.ctypes.data)
        return answers


def find_header(folder: Path) -> Header | str:
    """Compile the newest header that is found, or say why there is none.

    Parameters
    ----------
    folder : Path
        An existing folder for the shared library.

    Returns
    -------
    Header or str
        A string is the reason for skipping.
    """
    if sys.platform == "win32":
        return "the occupancy header is compiled on POSIX systems only"
    if not _compiler():
        return "no C compiler was found (cc, gcc, clang or $CC)"
    found = {path: _version(path) for path in _candidates()}
    if not found:
        return "cuda_occupancy.h was not found (pip install nvidia-cuda-runtime)"
    path, version = max(found.items(), key=lambda item: item[1])
    if version < _OLDEST_VERSION:
        return f"{path} is of CUDA {version // 1000}.{version % 1000 // 10}, older than 13.4"
    return Header(path, version, folder)


@cache
def _compiler() -> str:
    configured = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "").split()
    names = [*configured[:1], "cc", "gcc", "clang"]
    return next((found for name in names if (found := shutil.which(name))), "")


def _candidates() -> Iterator[Path]:
    packages = {*site.getsitepackages(), site.getusersitepackages(), *sys.path}
    for package in packages:
        yield from Path(package).glob("nvidia/**/include/cuda_occupancy.h")
    toolkits = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    for toolkit in filter(None, toolkits):
        path = Path(toolkit, "include", "cuda_occupancy.h")
        if path.is_file():
            yield path


def _version(path: Path) -> int:
    """CUDA's version, which the header's neighbour tells; 0 where it does not."""
    neighbour = path.with_name("cuda_runtime_api.h")
    if not neighbour.is_file():
        return 0
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", neighbour.read_text(errors="replace"))
    return int(match[1]) if match else 0
