"""Fresh kernels for measurements: each call reads the module anew."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import tempfile
from typing import Any

from benchmarks.ir_spike import kernels

_numbers = itertools.count()
_SOURCE = pathlib.Path(kernels.__file__).read_text()
_FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="kernels"))


def fresh_module() -> Any:
    """Return a module with the four kernels that nothing has seen before."""
    number = next(_numbers)
    path = _FOLDER / f"kernels_{number}.py"
    path.write_text(f"{_SOURCE}\n# {number}\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
