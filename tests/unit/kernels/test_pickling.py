"""Kernels travel: by name from modules, as source from everywhere else."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import syncthreads
from tests.support.fake_target import FakeTarget, installed

SCALE = 3
settings = SimpleNamespace(tile=SimpleNamespace(WIDTH=8), lock=(x for x in ()))


@kd.func
def plus(value, amount=2):
    return value + amount * SCALE


@kd.kernel
def top(x):
    x[kd.grid(1)] = plus(x[0])


def round_trip(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 -- its own bytes


def test_importable_ones_travel_by_name():
    assert round_trip(top) is top
    assert round_trip(plus) is plus
    assert b"SCALE" not in pickle.dumps(top)


def make_local(width, table):
    @kd.func
    def inner(value):
        return value * width + SCALE

    @kd.kernel(fastmath=True, block=32)
    def local(x):
        i = kd.grid(1)
        syncthreads()
        x[i] = inner(plus(x[i])) + table[0] + settings.tile.WIDTH + np.float32(1) + min(i, 2)

    return local


def test_local_ones_travel_as_source():
    table = np.arange(3.0)
    table.flags.writeable = False
    local = make_local(5, table)
    again = round_trip(local)
    assert again is not local
    assert round_trip(local) is again, "the same bytes give the same kernel"
    assert again.__qualname__ == local.__qualname__
    assert again.options == local.options
    with installed(FakeTarget()) as fake, kd.use("fake"):
        local.forall(4)(np.zeros(4))
        again.forall(4)(np.zeros(4))
    before, after = (made.unit for made in fake.compiled)
    assert before.source() == after.source()
    assert {c.path: repr(c.value) for c in before.captured} == {
        c.path: repr(c.value) for c in after.captured
    }
    assert round_trip(again).__qualname__ == local.__qualname__, "and it travels on"


def test_tuples_of_functions_travel_as_source():
    def double(v):
        return 2 * v

    steps = (lambda v: v + 1, (double, 3), plus)

    @kd.kernel
    def local(x):
        i = kd.grid(1)
        x[i] = steps[2](steps[0](x[i]) + steps[1][0](x[i]) * steps[1][1])

    x, again = np.array([[1.0, 2.0]] * 2)
    with kd.use("cpu"):
        local.forall(2)(x)
        round_trip(local).forall(2)(again)
    assert again.tolist() == x.tolist() != [1.0, 2.0]


def test_other_values_are_other_kernels():
    table = np.zeros(1)
    table.flags.writeable = False
    assert round_trip(make_local(5, table)) is not round_trip(make_local(6, table))


def test_device_functions_keep_defaults():
    amount = 7

    @kd.func
    def shifted(value: np.float64, by=amount * 2) -> np.float64:
        return value + by

    assert round_trip(shifted)(1) == 15


def test_a_value_that_cannot_be_pickled():
    handle = (x for x in ())

    @kd.func
    def uses(value):
        return value + len(handle)

    with pytest.raises(kd.UnsupportedConstructError, match="captures handle"):
        pickle.dumps(uses)


def compile_in_child(kernel):
    with installed(FakeTarget()) as fake, kd.use("fake"):
        kernel.forall(4)(np.zeros(4))
        return fake.compiled[-1].unit.source()


@pytest.mark.parametrize("is_local", [False, True])
def test_a_spawned_process_compiles_what_it_is_sent(is_local):
    table = np.zeros(1)
    table.flags.writeable = False
    kernel = make_local(5, table) if is_local else top
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(compile_in_child, (kernel,)) == compile_in_child(kernel)


SCRIPT = """
import multiprocessing
import numpy as np
import kerneldsl as kd
from tests.support.fake_target import FakeTarget, installed

WIDTH = 12

@kd.func
def helper(value):
    return value * WIDTH

@kd.kernel
def fill(x):
    x[kd.grid(1)] = helper(kd.grid(1))

def child(kernel):
    with installed(FakeTarget()) as fake, kd.use("fake"):
        kernel.forall(4)(np.zeros(4))
        unit = fake.compiled[-1].unit
        (width,) = (c.value for c in unit.captured if c.path == "WIDTH")
        return width, kernel.__module__

if __name__ == "__main__":
    WIDTH = 99
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(child, (fill,)))
"""


def test_kernels_of_a_script_reach_a_spawned_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": ":".join(p for p in [".", *sys.path] if p), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(99, '__main__')"


def test_cells_of_a_notebook_travel():
    import linecache

    text = "@kd.kernel\ndef cell(x):\n    x[kd.grid(1)] = LIMIT\n"
    linecache.cache["<cell 3>"] = (len(text), None, text.splitlines(True), "<cell 3>")
    namespace = {"kd": kd, "LIMIT": 4, "__name__": "__main__"}
    exec(compile(text, "<cell 3>", "exec"), namespace)
    again = round_trip(namespace["cell"])
    with installed(FakeTarget()) as fake, kd.use("fake"):
        again.forall(4)(np.zeros(4))
    assert fake.compiled[-1].unit.captured[0].value == 4
    assert "LIMIT" in linecache.getline(again.function.__code__.co_filename, 2)
