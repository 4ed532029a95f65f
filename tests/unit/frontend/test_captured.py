"""Constants that a kernel captures: when two are the same, and which arrays are constant."""

from __future__ import annotations

import ast
import enum
import importlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.captured import constant_problem, is_constant, make_captured, same_value
from kerneldsl.frontend.frozen import FrozenArrays, WatchedArrays
from tests.support.extent import full_beyond
from tests.support.native import is_native, require_native, warm_up


def read_only(values: Any) -> np.ndarray:
    array = np.array(values)
    array.flags.writeable = False
    return array


def nan_of(bits: int) -> float:
    return struct.unpack("d", struct.pack("Q", bits))[0]


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (1.5, 1.5 + 0),
        (-0.0, -0.0),
        (nan_of(0x7FF8000000000000), nan_of(0x7FF8000000000000)),
        ((1, (2.0, "a")), (1, (2.0, "a"))),
        (np.float32(0.1), np.float32(0.1)),
        (10**6, int("1000000")),
        (complex(1, -0.0), complex(1, -0.0)),
    ],
)
def test_equal_constants_count_as_the_old_one(before: Any, now: Any) -> None:
    assert same_value(before, now) is before


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (0.0, -0.0),
        (nan_of(0x7FF8000000000000), nan_of(0xFFF8000000000000)),
        ((1, 2), (1, 2.0)),
        ((np.float32(0.1), 1), (0.1, 1)),
        (complex(0, 0.0), complex(0, -0.0)),
        (Colour.RED, Colour.BLUE),
        (Access.READ, Access.WRITE),
        (True, 1),
        # repr shows eight digits, and leaves out the middle of a long array.
        ((read_only([0.123456789012, 1.0]),), (read_only([0.123456789999, 1.0]),)),
        ((read_only(np.arange(5000)),), (read_only(np.r_[0:2500, 0, 2501:5000]),)),
    ],
)
def test_other_constants_are_seen(before: Any, now: Any) -> None:
    assert same_value(before, now) is now


def test_an_array_is_itself_alone() -> None:
    array = read_only([1, 2])
    held = (array, 3)
    assert same_value(held, (array, 3)) is held
    copied = (read_only([1, 2]), 3)
    assert same_value(held, copied) is copied


def _kind_of(array: Any) -> type:
    return type(make_captured("a", "a", array, lambda: array).arrays)


def test_a_view_of_memory_that_can_be_written_is_watched() -> None:
    whole = np.array([1.0, 2.0])
    view = whole[:]
    view.flags.writeable = False
    assert _kind_of((view, 1)) is WatchedArrays
    del whole
    assert _kind_of(view) is FrozenArrays  # nobody is left who could write it
    shared = np.frombuffer(bytearray(16))
    shared.flags.writeable = False
    assert _kind_of(shared) is WatchedArrays


@pytest.mark.parametrize(
    "array",
    [
        read_only([1, 2]),
        read_only([1, 2])[1:],
        np.broadcast_to(read_only([1, 2]), (3, 2)),
        np.frombuffer(bytes(16)),
    ],
    ids=["whole", "view", "broadcast", "bytes"],
)
def test_what_nobody_can_write_is_constant(array: np.ndarray) -> None:
    assert constant_problem(array) is None
    assert _kind_of(array) is FrozenArrays


def test_the_array_below_a_captured_view_cannot_be_written_any_more() -> None:
    view = np.arange(6).reshape(2, 3)
    view.flags.writeable = False
    make_captured("view", "view", (view, 1), lambda: view)
    with pytest.raises(ValueError, match="read-only"):
        view.base[0] = 7
    sibling = view.T
    assert constant_problem((view, sibling)) is None


# -- captured arrays that are made writable ----------------------------------------------------


def picking(table: Any) -> Any:
    @kd.kernel
    def pick(out):
        i = kd.grid(1)
        out[i] = table[i]

    return pick


def picking_from_tuple(table: Any) -> Any:
    held = (table, 1)

    @kd.kernel
    def pick(out):
        i = kd.grid(1)
        out[i] = held[0][i]

    return pick


def picking_in_function(table: Any) -> Any:
    @kd.func
    def element(i):
        return table[i]

    @kd.kernel
    def pick(out):
        i = kd.grid(1)
        out[i] = element(i)

    return pick


def picking_by_default(table: Any) -> Any:
    @kd.func
    def element(i, values=table):
        return values[i]

    @kd.kernel
    def pick(out):
        i = kd.grid(1)
        out[i] = element(i)

    return pick


WAYS = [picking, picking_from_tuple, picking_in_function, picking_by_default]


@pytest.mark.parametrize("make", full_beyond(WAYS, WAYS[::2]))
@pytest.mark.parametrize("by_native_code", [False, True], ids=["python", "native"])
def test_an_array_made_writable_is_watched_from_then_on(
    make: Callable[[Any], Any], by_native_code: bool
) -> None:
    if by_native_code:
        require_native()
    table, out = read_only([0, 1, 2]), np.zeros(3, int)
    launch = make(table).forall(3)
    with kd.use("cpu"):
        launch(out)
        if by_native_code:
            warm_up(launch, out)
            with is_native(launch):
                launch(out)
        assert out.tolist() == [0, 1, 2]
        table.flags.writeable = True
        for value in (9, 8):
            table[:] = value
            for _ in range(3):
                launch(out)
                assert out.tolist() == [value] * 3
        table.flags.writeable = False
        launch(out)
        assert out.tolist() == [8, 8, 8]


@pytest.mark.parametrize("make", full_beyond(WAYS, WAYS[1::2]))
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_an_array_that_can_be_written_is_a_constant_while_it_is_unchanged(
    make: Callable[[Any], Any], target: str
) -> None:
    table, out = np.array([0, 1, 2]), np.zeros(3, int)
    kernel = make(table)
    launch = kernel.forall(3)
    with kd.use(target):
        for _ in range(40):  # more than it takes to repeat launches without Python
            launch(out)
        compiled = len(kernel.specializations)
        for wanted in ([7, 1, 2], [0, 1, 2], [7, 1, 2]):
            table[:] = wanted
            launch(out)
            assert target == "null" or out.tolist() == wanted
        # Contents that come back find their code again.
        assert len(kernel.specializations) == 2 * compiled
        table[1] = 5
        bound = launch.bind(out)
        table[1] = 6
        bound()
        assert target == "null" or out.tolist() == [7, 6, 2]


def test_changes_of_another_shape_and_dtype_are_seen() -> None:
    @kd.kernel
    def measure(out):
        out[0] = table.shape[0]
        out[1] = table[table.shape[0] - 1]

    table, out = np.array([1.0, 2.0]), np.zeros(2)
    with kd.use("cpu"):
        measure[1, 1](out)
        assert out.tolist() == [2, 2]
        table.resize((3,), refcheck=False)
        measure[1, 1](out)
        assert out.tolist() == [3, 0]
        table[2] = -0.0
        measure[1, 1](out)
        assert np.signbit(out[1])


@pytest.mark.parametrize("by_native_code", [False, True], ids=["python", "native"])
def test_the_array_below_a_view_is_looked_at_too(by_native_code: bool) -> None:
    if by_native_code:
        require_native()
    view = np.arange(6).reshape(2, 3)[0]
    view.flags.writeable = False
    out = np.zeros(3, int)
    launch = picking(view).forall(3)
    with kd.use("cpu"):
        launch(out)
        if by_native_code:
            warm_up(launch, out)
            with is_native(launch):
                launch(out)
        whole = view.base
        whole.flags.writeable = True
        whole[:] = 9
        launch(out)
        assert out.tolist() == [9, 9, 9]
        whole[:] = 7
        launch(out)
        assert out.tolist() == [7, 7, 7]
        whole[:] = 9
        whole.flags.writeable = False
        launch(out)
        assert out.tolist() == [9, 9, 9]


@pytest.mark.parametrize("size", [3, 200_000])
def test_all_code_of_a_kernel_has_the_same_constant(size: int) -> None:
    """Also code for other arguments that is compiled when the array has changed unseen."""
    table = read_only(np.arange(float(size)))
    pick = picking(table)
    with kd.use("cpu"):
        pick.forall(3)(np.zeros(3))
        table.flags.writeable = True
        table[:] = 9
        table.flags.writeable = False
        for dtype in (float, np.float32):
            out = np.zeros(3, dtype)
            pick.forall(3)(out)
            assert out.tolist() == [0, 1, 2]


def test_launches_with_an_array_that_stays_as_it_is_are_native() -> None:
    require_native()
    out = np.zeros(3)
    launch = picking(read_only([0, 1, 2])).forall(3)
    with kd.use("cpu"):
        warm_up(launch, out)
        with is_native(launch):
            launch(out)


class _Unit(enum.Enum):
    METRE = 7
    FOOT = 8


def test_a_member_that_is_no_integer_is_itself_alone() -> None:
    unit = _Unit.METRE

    @kd.kernel
    def measured(out: Any) -> None:
        out[0] = 1 if unit is _Unit.METRE else 2
        out[1] = unit == _Unit["METRE"]
        out[2] = unit != _Unit.FOOT
        out[3] = unit.value

    out = np.full(4, np.nan)
    with kd.use("cpu"):
        measured[1, 1](out)
    assert out.tolist() == [1, 1, 1, 7]
    assert [is_constant(each) for each in (Access.READ, Colour.RED, unit)] == [True, True, False]


@pytest.mark.usefixtures("own_modules")
def test_new_code_of_a_captured_function_is_seen(tmp_path, monkeypatch):
    """IPython's autoreload compiles an edited function alone, and gives its code to the old one."""
    path = tmp_path / "edited_functions.py"
    text = (
        "import kerneldsl as kd\n\n\ndef inner(v):\n    return v + 1\n\n\ndef outer(v):\n"
        "    return 2 * inner(v)\n\n\n@kd.kernel\ndef kernel(x):\n    i = kd.grid(1)\n"
        "    x[i] = outer(x[i])\n"
    )
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(path.stem)

    def result():
        x = np.ones(3)
        with kd.use("cpu"):
            for _ in range(3):  # by Python, then by native code
                x[:] = 1
                module.kernel.forall(3)(x)
        assert len(set(x.tolist())) == 1
        return x[0]

    def edit(name, old, new):
        path.write_text(path.read_text().replace(old, new))
        node = next(
            each for each in ast.parse(path.read_text()).body if getattr(each, "name", "") == name
        )
        scope = {}
        exec(compile(ast.unparse(node), str(path), "exec"), scope)
        getattr(module, name).__code__ = scope[name].__code__

    assert result() == 4
    edit("inner", "v + 1", "v + 10")
    assert result() == 22
    edit("outer", "2 * inner", "3 * inner")
    assert result() == 33
    edit("inner", "v + 10", "v + 1")
    assert result() == 6


def test_functions_with_equal_code_differ_by_what_they_capture():
    def shift(by):
        def shifted(v):
            return v + by

        return shifted

    chosen = shift(1)

    @kd.kernel
    def kernel(x):
        i = kd.grid(1)
        x[i] = chosen(x[i])

    x = np.zeros(3)
    with kd.use("cpu"):
        for by in (1, 2, 3):
            chosen = shift(by)
            for _ in range(3):
                kernel.forall(3)(x)
    assert x.tolist() == [18.0] * 3
