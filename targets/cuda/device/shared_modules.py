"""Modules of a program's own code, loaded once for all kernels of a source or a file.

Its kernels see the same variables then, as C++ has them. A module is unloaded when the last kernel
of the program that names its source is gone, and the device has finished.
"""

from __future__ import annotations

import hashlib
import weakref
from weakref import WeakKeyDictionary

from kerneldsl.utilities.once import OnceTable
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.driver import functions, retired_modules
from targets.cuda.driver.driver import Driver

__all__ = ["load"]

#: By owner: device and digest of the code, to the module there.
_modules: WeakKeyDictionary[object, OnceTable[tuple[int, bytes], functions.LoadedModule]] = (
    WeakKeyDictionary()
)


def load(driver: Driver, index: int, artifact: CudaArtifact) -> functions.LoadedFunction:
    """Look up a kernel in the module of its owner, which is loaded the first time.

    Raises what :func:`targets.cuda.driver.functions.load` raises.
    """
    owner, image = artifact.owner, artifact.image
    data = image.encode() if isinstance(image, str) else image
    kernel = artifact.specialization.unit.name
    modules = _modules.setdefault(owner, OnceTable())

    def load_first() -> functions.LoadedModule:
        made = functions.load_module(driver, index, image, artifact.entry_name)
        first = functions.find_function(driver, made, artifact.entry_name, kernel=kernel)
        weakref.finalize(owner, retired_modules.retire, driver, first).atexit = False
        return made

    key = (index, hashlib.sha256(data).digest())
    module = modules.get_or_make(key, load_first)
    return functions.find_function(driver, module, artifact.entry_name, kernel=kernel)
