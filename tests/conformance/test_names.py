"""A program may give the names of builtins and libraries to things of its own.

Each kernel is compared with the same text run as plain Python, and the memory around its arrays
must stay as it is: an index that was wrongly proven not to be negative, or a bound that was
computed by the program's own ``min``, shows there.
"""

from __future__ import annotations

import linecache
import types
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond, sample

_HEAD = """
import operator, types
import numpy as np
"""
#: Names that an analysis or a compiler knows something about.
_NAMES = """
abs bool float int len print slice math np prange sqrt int32 uint32
""".split()  # noqa: SIM905 - a list of words is easier to read

#: How a name gets another meaning (before the kernel), the kernel's further parameter, its body.
#: Each ends with an index that counts from the end.
_ROLES = {
    "device function": (
        "@kd.func\ndef NAME(a):\n    return -a - 1",
        "",
        "out[NAME(i)] = x[NAME(i)] + x[i]",
    ),
    "njit function": (
        "@njit\ndef NAME(a):\n    return -a - 1",
        "",
        "j = NAME(i)\n        out[j] = x[j] + x[i]",
    ),
    "another function": (
        "NAME = operator.invert",
        "",
        "j = NAME(i) - NAME(0) - 1\n        out[j] = x[NAME(i)] + x[i]",
    ),
    "another module": (
        "NAME = types.ModuleType('own')\nNAME.uint32 = NAME.int32 = NAME.abs = operator.invert",
        "",
        "out[NAME.uint32(i)] = x[NAME.int32(i)] + x[NAME.abs(i)]",
    ),
    "constant": ("NAME = -1", "", "out[NAME - i] = x[NAME - i] + x[i]"),
    "parameter": ("", ", NAME", "out[NAME - i] = x[NAME - i] + x[i]"),
    "local variable": ("", "", "NAME = -i - 1\n        out[NAME] = x[NAME] + x[i]"),
}
_FORALL = """
@kd.kernel
def run(x, outPARAMETER):
    i = kd.grid(1)
    if i < out.size:
        BODY
"""
_BLOCK = """
@kd.kernel(block=8)
def run(x, outPARAMETER):
    i = kd.grid(1)
    shared = kd.shared.array(8, kd.float32)
    if i < out.size:
        shared[kd.threadIdx.x] = x[i]
    kd.syncthreads()
    if i < out.size:
        BODY
"""
_PLAIN = """
def run(i, x, outPARAMETER):
    if i < out.size:
        BODY
"""
_MARGIN = 64


def _execute(text: str, **names: Any) -> dict[str, Any]:
    filename = f"<names {hash(text)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names["__name__"] = "names"
    exec(compile(text, filename, "exec"), names)
    return names


def _within(size: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An array in the middle of a larger one."""
    memory = np.full(size + 2 * _MARGIN, 77, np.float32)
    view = memory[_MARGIN : _MARGIN + size]
    view[:] = values
    return memory, view


def _check(name: str, role: str, template: str, target: str, *sizes: tuple[int, int]) -> None:
    """Compare launches of one kernel, each over an extent with arrays of a size."""
    from numba import njit

    definition, parameter, body = _ROLES[role]
    texts = []
    for form in (template, _PLAIN):
        function = form.replace("PARAMETER", parameter).replace("BODY", body)
        texts.append(f"{_HEAD}{definition}\n{function}".replace("NAME", name))
    kernel = _execute(texts[0], kd=kd, njit=njit)["run"]
    plain = _execute(texts[1], kd=types.SimpleNamespace(func=lambda f: f), njit=lambda f: f)["run"]
    further = (-1,) if parameter else ()
    for extent, size in sizes:
        values = np.arange(size, dtype=np.float32) ** 2
        expected = np.full(size, 5, np.float32)
        for i in range(extent):
            plain(i, values, expected, *further)
        (around_x, x), (around_out, out) = _within(size, values), _within(size, 5)
        kernel.forall(extent)(x, out, *further)
        if target == "null":  # it has been compiled
            continue
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x, values)
        for memory in (around_x, around_out):
            assert (memory[:_MARGIN] == 77).all()
            assert (memory[-_MARGIN:] == 77).all()


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize("name", full_beyond(_NAMES, ("abs",)))
def test_a_name_of_another_meaning(name: str, role: str, computing: str) -> None:
    _check(name, role, _FORALL, computing, (16, 16))


@pytest.mark.parametrize("template", [_FORALL, _BLOCK], ids=["elements", "blocks"])
@pytest.mark.parametrize("role", full_beyond(_ROLES, sample([*_ROLES], 2)))
@pytest.mark.parametrize("name", full_beyond(["max", "min", "range"], ["min"]))
def test_names_that_generated_loops_use(name: str, role: str, template: str, on: str) -> None:
    """The bounds of the extent and of the array are the true ones, whatever the names mean."""
    _check(name, role, template, on, (16, 16), (16, 8), (8, 16))


@pytest.mark.parametrize(
    "name", full_beyond(["abs", "int", "len", "max", "min", "print"], ["len", "max"])
)
def test_a_function_under_a_builtins_name_is_called_once(name: str, computing: str) -> None:
    """No value of it is computed anew after a barrier, as those of builtins may be."""
    kernel = _execute(
        f"""
@kd.func
def {name}(count):
    return kd.atomic.add(count, 0, 1)

@kd.kernel(block=8)
def run(count, out):
    shared = kd.shared.array(8, kd.int64)
    ticket = {name}(count)
    shared[kd.threadIdx.x] = ticket
    kd.syncthreads()
    out[kd.grid(1)] = ticket + shared[kd.threadIdx.x]
""",
        kd=kd,
    )["run"]
    count, out = np.zeros(1, np.int64), np.zeros(32, np.int64)
    kernel.forall(32)(count, out)
    assert count[0] == 32
    assert sorted(out) == [2 * ticket for ticket in range(32)]


def test_the_range_of_an_inlined_function(computing: str) -> None:
    """A loop with a barrier, in a function whose caller gives ``range`` another meaning."""
    names = _execute(
        """
@kd.func
def total(shared, rounds):
    found = 0.0
    for k in range(rounds[0]):
        shared[kd.threadIdx.x] = shared[kd.threadIdx.x] + 1.0
        kd.syncthreads()
        found += shared[(kd.threadIdx.x + 1) % 8]
        kd.syncthreads()
    return found

@kd.kernel(block=8)
def run(rounds, out, range):
    shared = kd.shared.array(8, kd.float64)
    shared[kd.threadIdx.x] = range
    kd.syncthreads()
    out[kd.grid(1)] = total(shared, rounds)
""",
        kd=kd,
    )
    rounds, out = np.full(1, 3, np.int64), np.zeros(16)
    names["run"].forall(16)(rounds, out, 10)
    np.testing.assert_array_equal(out, 11.0 + 12.0 + 13.0)
