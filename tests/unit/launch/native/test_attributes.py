"""Arrays by the attributes of their class, played by a stand-in for CuPy."""

from __future__ import annotations

import gc
import sys
import types

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.arguments import arguments
from kerneldsl.launch.native.steps import attribute_names_of
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, is_native, require_native, warm_up


class Memory:
    """The part of cupy.cuda.MemoryPointer that is read."""

    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id


class Array:
    """The part of cupy.ndarray that is read."""

    def __init__(self, array, index=0, offset=0):
        self.array = array
        self.dtype, self.shape, self.strides = array.dtype, array.shape, array.strides
        self.data = Memory(array.ctypes.data + offset, index)


class Stream:
    ptr = 0


@pytest.fixture
def cupy(monkeypatch):
    require_native()
    module = types.ModuleType("cupy")
    module.ndarray = Array
    module.cuda = types.SimpleNamespace(get_current_stream=Stream)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(Stream, "ptr", 0)
    yield module
    arguments.READERS.pop(Array, None)


@pytest.fixture
def cuda(cupy):
    with installed(NativeFakeTarget("cuda")) as target:
        yield target


@kd.kernel
def takes(x, y):
    pass


@pytest.fixture
def launch():
    takes._remember_launches()
    return takes[1, 1]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4)),
        np.zeros((3, 4), np.complex64).T,
        np.zeros((6, 8), np.int16)[::2, ::-2],
        np.zeros(()),
        np.zeros((2,) * 8),
        np.zeros(5, bool),
    ],
    ids=["C", "F", "A", "scalar", "8-D", "bool"],
)
def test_an_array_arrives_as_by_python(cuda, launch, array):
    args = Array(array), 5
    warm_up(launch, *args)
    with is_native(launch):
        launch(*args)
    assert cuda.launches[-1][2] == cuda.launches[0][2]
    assert cuda.launches[-1][2]["x.data"] == array.ctypes.data


@pytest.mark.parametrize(
    "other",
    [
        Array(np.zeros((4, 3)).T),
        Array(np.zeros((6, 8))[::2, ::2]),
        Array(np.zeros(3)),
        Array(np.zeros((3, 4), np.float32)),
        Array(np.zeros((3, 4)), 1),
    ],
    ids=["F", "A", "1-D", "float32", "device"],
)
def test_another_kind_takes_the_slow_path(cuda, launch, other):
    first = Array(np.zeros((3, 4)))
    warm_up(launch, first, 1)
    with is_native(launch, expected=False):
        launch(other, 1)
    assert cuda.launches[-1][0].index == other.data.device_id


def test_what_is_odd_takes_the_slow_path(cuda, launch):
    class Number(int):
        pass

    plain = Array(np.zeros(3))
    warm_up(launch, plain, 1)
    for name, value in (("shape", [3]), ("strides", (Number(8),)), ("shape", (np.int64(3),))):
        odd = Array(plain.array)
        setattr(odd, name, value)
        with is_native(launch, expected=False):
            launch(odd, 1)
    odd = Array(plain.array)
    odd.data.ptr = Number(odd.data.ptr)
    with is_native(launch, expected=False):
        launch(odd, 1)
    del odd.data
    with pytest.raises(AttributeError):
        launch(odd, 1)
    with pytest.raises(kd.ArgumentTypeError, match="aligned"):
        launch(Array(plain.array, offset=4), 1)


def test_the_librarys_stream_is_python_s_business(cuda, launch, monkeypatch):
    array = Array(np.zeros(3))
    warm_up(launch, array, 1)
    monkeypatch.setattr(Stream, "ptr", 700)
    with is_native(launch, expected=False):
        launch(array, 1)
    assert cuda.launches[-1][1].stream == 700
    monkeypatch.setattr(Stream, "ptr", "not a number")
    with pytest.raises(TypeError):
        launch(array, "text")


def test_references_are_given_back(cuda, launch):
    array = Array(np.zeros((3, 4)))
    warm_up(launch, array, 1)
    held = (array, array.data, array.shape, array.strides, array.dtype)
    gc.collect()  # arrays of other tests, in cycles, may have the same dtype
    before = [sys.getrefcount(each) for each in held]
    with is_native(launch):
        for _ in range(1000):
            launch(array, 1)
    after = [sys.getrefcount(each) for each in held]
    assert after == before


def test_other_classes_are_read_by_python(cupy):
    assert attribute_names_of(Array) is not None
    assert attribute_names_of(np.ndarray) is None
    del sys.modules["cupy"]
    assert attribute_names_of(Array) is None
