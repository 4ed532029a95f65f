"""Rows of element kernels run along the axis whose elements lie side by side."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from targets.cpu.regions.read import read_kernel
from targets.cpu.regions.rows import row_axis
from tests.ptx.helpers import specialize
from tests.support.extent import examples
from tests.support.source import exec_source

_NAMES = "ijk"


def _source(rank: int, order: tuple[int, ...], shift: int) -> str:
    """Source of a kernel that indexes an array by the coordinates of ``grid`` in some order."""
    names = ", ".join(_NAMES[:rank])
    place = ", ".join(_NAMES[axis] for axis in order)
    number = " + ".join(f"{10**axis} * {_NAMES[axis]}" for axis in range(rank))
    moved = place.replace(_NAMES[order[-1]], f"{_NAMES[order[-1]]} + {shift}")
    return (
        "import kerneldsl as kd\n\n@kd.kernel\ndef kernel(a, out, numbers):\n"
        f"    {names} = kd.grid({rank})\n"
        f"    if {_NAMES[order[-1]]} + {shift} < a.shape[{rank - 1}]:\n"
        f"        out[{place}] = a[{moved}] * 2\n"
        f"        numbers[{place}] = {number}\n"
    )


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_any_order_of_axes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 3))
    order = tuple(data.draw(st.permutations(range(rank))))
    extent = tuple(data.draw(st.integers(1, 70)) for _ in range(rank))
    shift = data.draw(st.integers(0, 3))
    layout = data.draw(st.sampled_from("CF"))
    kernel = exec_source(_source(rank, order, shift))["kernel"]
    shape = tuple(extent[axis] for axis in order)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = np.asarray(rng.random(shape, dtype=np.float32), order=layout)
    out = np.full(shape, np.nan, np.float32, order=layout)
    places = np.full(shape, -1, order=layout)
    kernel.forall(*extent)(a, out, places)
    expected = np.full(shape, np.nan, np.float32)
    within = (..., slice(0, max(shape[-1] - shift, 0)))
    expected[within] = a[..., shift:] * 2
    np.testing.assert_array_equal(out, expected)
    indices = np.indices(shape)
    numbers = sum(10**axis * indices[order.index(axis)] for axis in range(rank))
    np.testing.assert_array_equal(places[within], numbers[within])
    assert (places[..., max(shape[-1] - shift, 0) :] == -1).all()


def turned(a, out):
    x, y = kd.grid(2)
    out[y, x] = a[y, x] + 1


def straight(a, out):
    y, x = kd.grid(2)
    out[y, x] = a[y, x] + 1


@pytest.mark.parametrize(
    ("kernel", "signature", "axis"),
    [
        (turned, "f4[:, ::1], f4[:, ::1]", "first"),
        (straight, "f4[:, ::1], f4[:, ::1]", "last"),
        (turned, "f4[::1, :], f4[::1, :]", "last"),
        (straight, "f4[::1, :], f4[::1, :]", "first"),
    ],
)
def test_rows_lie_in_memory(kernel, signature, axis) -> None:
    spec = specialize(kernel, signature, LaunchMode(2))
    with global_compiler_lock:
        work = read_kernel(spec)[0].work
    assert row_axis(spec, work) == axis
    assert row_axis(specialize(kernel, signature), work) == "last"
    assert row_axis(specialize(kernel, signature, LaunchMode(2), debug=True), work) == "last"


_PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def turned(a, out):
    x, y = kd.grid(2)
    out[y, x] = a[y, x] + 100 * y + x

a = np.arange(35.0).reshape(7, 5)
out = np.full_like(a, np.nan)
turned.forall(5, 7)(a, out)
assert (out == a + 100 * np.arange(7)[:, None] + np.arange(5)).all()
print(kd.cache.stats().hits)
"""


def test_stored_code_keeps_its_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("KERNELDSL_CACHE")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    said = [
        subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert int(said[0]) == 0
    assert int(said[1]) > 0
