"""Calls with arrays of torch or CuPy in CUDA memory, which tests play on a described device."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import kerneldsl as kd
import stdlib_kernels as sk
from kerneldsl.memory import array_interface
from kerneldsl.memory.pools import device_memory
from kerneldsl.placement import devices as placement
from kerneldsl.placement import registry
from kerneldsl.repeating import foreign_calls


class Foreign:
    """An array over memory of the described device, as two libraries show it."""

    made: list[Foreign]
    is_cuda, is_cpu, requires_grad = True, False, False

    def __init__(self, shape, dtype, order="C"):
        host = np.empty(shape, dtype, order=order)
        device = kd.get_target("null").devices()[0]
        self.buffer = device_memory(device).default.allocate(max(1, host.nbytes))
        self.host, self.shape, self.strides = host, host.shape, host.strides
        self.device = types.SimpleNamespace(type="cuda", index=0)
        self.pointer = self.buffer.pointer
        type(self).made.append(self)

    def __init_subclass__(cls):
        cls.made = []


class Tensor(Foreign):
    __module__ = "torch"
    layout = "strided"

    @property
    def dtype(self):
        return f"torch.{self.host.dtype}"

    def data_ptr(self):
        return self.pointer

    def stride(self):
        return tuple(step // self.host.itemsize for step in self.host.strides)

    def is_neg(self):
        return False

    def as_strided(self, shape, steps, at):
        return "a view", shape, tuple(steps), at


class Place:
    """Memory of CuPy: an address, to which bytes are added."""

    device_id = 0

    def __init__(self, pointer):
        self.ptr = pointer

    def __add__(self, nbytes):
        return nbytes


class CupyArray(Foreign):
    __module__ = "cupy"

    def __new__(cls, shape, dtype, data=None, strides=None, **named):
        if data is not None:  # as the library makes a view
            return "a view", shape, tuple(step // 4 for step in strides), data // 4
        return super().__new__(cls)

    @property
    def dtype(self):
        return self.host.dtype

    @property
    def data(self):
        return Place(self.pointer)


@pytest.fixture(params=["torch", "cupy"])
def library(request, monkeypatch):
    """A module in the place of a library; its CUDA device is the described one."""
    monkeypatch.setitem(registry._targets, "cuda", kd.get_target("null"))
    monkeypatch.setattr(placement, "_used", {})
    found = types.ModuleType(request.param)
    stream = types.SimpleNamespace(cuda_stream=0, ptr=0)
    found.cuda = types.SimpleNamespace(
        current_stream=lambda index: stream,
        get_current_stream=lambda: stream,
        runtime=types.SimpleNamespace(getDevice=lambda: 0),
    )
    found.kind = found.Tensor = found.ndarray = CupyArray if request.param == "cupy" else Tensor
    found.strided, found.float32, found.device = "strided", np.float32, lambda *place: place
    found.empty_strided = lambda shape, steps, *, dtype, device: Tensor(shape, dtype)
    found.from_dlpack = lambda array: ("by DLPack", array)
    monkeypatch.setitem(sys.modules, request.param, found)
    found.kind.made.clear()
    yield found
    for forms in (array_interface._forms, foreign_calls._pool, foreign_calls._maker):
        getattr(forms, "cache_clear", getattr(forms, "clear", None))()


def test_a_result_is_an_array_that_the_library_made(library):
    x, y = library.kind((3, 40), np.float32), library.kind((3, 40), np.float32)
    for _ in range(4):
        library.kind.made.clear()
        got = sk.where(x, x, y)
        assert got is library.kind.made[-1]
        assert got.shape == (3, 40)
        assert len(library.kind.made) == 1


def test_a_result_in_part_of_such_an_array(library):
    device = kd.get_target("null").devices()[0]
    with foreign_calls.working_with([library.kind((3,), np.float32)]):
        made = kd.empty((4, 6), np.float32, device=device)
        assert foreign_calls.foreign_array(made) is library.kind.made[-1]
        part = foreign_calls.foreign_array(made[1:, ::2])
    assert part == ("a view", (3, 3), (6, 2), 6)


def test_out_is_returned_itself(library):
    x, out = library.kind((40,), np.float32), library.kind((40,), np.float32)
    ours = kd.empty(40, np.float32, device="null")
    for _ in range(3):
        assert sk.clip(x, 0, 1, out=out) is out
        assert sk.clip(x, 0, 1, out=ours) is ours


def test_an_array_like_one_before_is_ready_for_native_launches(library):
    x = library.kind((5, 7), np.float32)
    assert kd.as_array(x).pointer == x.pointer
    sk.softmax(x)
    again = kd.as_array(library.kind((5, 7), np.float32))
    assert again.code >= 0
    assert again._block is not None
    assert (again.shape, again.strides, again.dtype) == ((5, 7), (28, 4), np.float32)


def test_blocks_of_pools_and_streams_are_kept(library):
    x = library.kind((40,), np.float32)
    null = kd.get_target("null").devices()[0]
    for block in (kd.MemoryPool(null), kd.Stream(null)):
        library.kind.made.clear()
        with block:
            told, array = sk.clip(x, 0, 1)
        assert told == "by DLPack"
        assert type(array) is kd.DeviceArray
        assert not library.kind.made


def test_in_a_side_stream_of_the_library(library):
    x = library.kind((40,), np.float32)
    stream = types.SimpleNamespace(cuda_stream=77, ptr=77, device=types.SimpleNamespace(index=0))
    library.cuda.current_stream = lambda index: stream
    library.cuda.get_current_stream = lambda: stream
    for _ in range(3):
        assert sk.clip(x, 0, 1) is library.kind.made[-1]
        launched = kd.get_target("null").launches[-1]
        assert launched.config.stream.handle == 77
    assert kd.current_stream("null") is kd.default_stream("null")


def test_memory_that_the_library_has_not(library, monkeypatch):
    x = library.kind((40,), np.float32)

    def fail(*args, **named):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(library, "empty_strided", fail)
    monkeypatch.setattr(CupyArray, "__init__", fail)
    told, _ = sk.clip(x, 0, 1)
    assert told == "by DLPack"
