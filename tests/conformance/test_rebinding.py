"""A name outside a kernel that comes to mean something else: the next launch computes with that.

Each case is a script: a kernel, then a rebinding, after the native launcher has taken over.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond, sample
from tests.support.native import is_native, require_native, warm_up

_HEAD = """
import builtins, math, types
import numpy as np
import kerneldsl as kd
"""

#: What the first element is before and after; `run` is a kernel over an array of ones.
_CASES = {
    "a dtype through a class": (
        """
class Config:
    DTYPE = np.float64

@kd.kernel
def run(out):
    third = kd.local.array(1, Config.DTYPE)
    third[0] = 1.0 / 3.0
    out[kd.grid(1)] = third[0]
""",
        1.0 / 3.0,
        "Config.DTYPE = np.float32",
        float(np.float32(1.0 / 3.0)),
    ),
    "a dtype through a namespace, called": (
        """
config = types.SimpleNamespace(dtype=np.float64)

@kd.kernel
def run(out):
    out[kd.grid(1)] = config.dtype(1) / config.dtype(3)
""",
        1.0 / 3.0,
        "config.dtype = np.float32",
        float(np.float32(1) / np.float32(3)),
    ),
    "a constant of a plain function": (
        """
SCALE = 2.0

def scaled(value):
    return value * SCALE

@kd.kernel
def run(out):
    out[kd.grid(1)] = scaled(3.0)
""",
        6.0,
        "SCALE = 5.0",
        15.0,
    ),
    "a plain function": (
        """
def scaled(value):
    return value * 2.0

@kd.kernel
def run(out):
    inner = lambda value: scaled(value)
    out[kd.grid(1)] = inner(3.0)
""",
        6.0,
        "scaled = lambda value: value + 0.5",
        3.5,
    ),
    "another name of an intrinsic": (
        """
combine = kd.atomic.add

@kd.kernel
def run(out):
    combine(out, kd.grid(1), 5.0)
""",
        6.0,
        "combine = kd.atomic.max",
        5.0,
    ),
    "an intrinsic of a namespace": (
        """
chosen = types.SimpleNamespace(combine=kd.atomic.add)

@kd.kernel
def run(out):
    chosen.combine(out, kd.grid(1), 5.0)
""",
        6.0,
        "chosen.combine = kd.atomic.max",
        5.0,
    ),
    "an intrinsic that is read": (
        """
places = types.SimpleNamespace(width=kd.blockDim)

@kd.kernel
def run(out):
    out[kd.grid(1)] = min(places.width.x, 1)
""",
        1.0,
        "places.width = kd.threadIdx",
        0.0,
    ),
    "another name of a module": (
        """
library = math

@kd.kernel
def run(out):
    out[kd.grid(1)] = library.fabs(-4.0)
""",
        4.0,
        "library = types.SimpleNamespace(fabs=math.floor)",
        -4.0,
    ),
    "a function of a namespace": (
        """
chosen = types.SimpleNamespace(function=math.floor)

@kd.kernel
def run(out):
    out[kd.grid(1)] = chosen.function(1.5)
""",
        1.0,
        "chosen.function = math.ceil",
        2.0,
    ),
    "a global that hides a builtin": (
        """
@kd.kernel
def run(out):
    out[kd.grid(1)] = max(1.0, 2.0)
""",
        2.0,
        "max = min",
        1.0,
    ),
    "a global that no longer hides a builtin": (
        """
max = min

@kd.kernel
def run(out):
    out[kd.grid(1)] = max(1.0, 2.0)
""",
        1.0,
        "del max",
        2.0,
    ),
    "an integer of a class of its own": (
        """
class Width(int):
    def __repr__(self):
        return "a width"

width = Width(3)

@kd.kernel
def run(out):
    out[kd.grid(1)] = width
""",
        3.0,
        "width = Width(4)",
        4.0,
    ),
}


@pytest.mark.parametrize("name", full_beyond(_CASES, sample([*_CASES], 3)))
def test_a_rebound_name(name: str, computing_target: str) -> None:
    require_native()
    text, before, rebinding, after = _CASES[name]
    names = _define(_HEAD + text, f"<rebinding, {name}>")
    out = kd.full(7, 1.0, np.float64, device=computing_target)
    with kd.use(computing_target):
        launch = names["run"].forall(out.size)
        warm_up(launch, out)
        with is_native(launch):
            assert _first(launch, out) == before
        _define(rebinding, f"<rebound, {name}>", names)
        assert _first(launch, out) == after


def _define(text: str, filename: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names = {"__name__": "rebinding"} if names is None else names
    exec(compile(text, filename, "exec"), names)
    return names


def _first(launch: Any, out: Any) -> float:
    out.fill(1.0)
    launch(out)
    return float(out.copy_to_host()[0])
