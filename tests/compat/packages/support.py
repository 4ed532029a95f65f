"""What the programs of this folder share."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from types import ModuleType

import numpy as np


def generator() -> np.random.Generator:
    """Return a generator of a fresh seed, which is printed; KERNELDSL_TEST_SEED repeats it."""
    seed = int(os.environ.get("KERNELDSL_TEST_SEED") or secrets.randbits(32))
    print(f"KERNELDSL_TEST_SEED={seed}")
    return np.random.default_rng(seed)


def skip_init(*packages: str) -> None:
    """Have modules of the packages imported without the ``__init__`` of the packages.

    Those import what the modules with the kernels do not need.
    """
    for name in packages:
        folder = name.replace(".", "/")
        module = ModuleType(name)
        module.__path__ = [
            str(Path(each, folder)) for each in sys.path if Path(each, folder).is_dir()
        ]
        sys.modules[name] = module


def stand_in(name: str, **names: object) -> None:
    """Make a module of only these names, for one of which the kernels need no more."""
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(names)
