"""Tensors by the C functions of their class, played by a stand-in for torch."""

from __future__ import annotations

import ctypes
import math
import sys
import types

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.launch.arguments import arguments
from kerneldsl.launch.native.exchange import exchange_of
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, is_native, require_native, warm_up

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_size_t),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Tensor:
    """The part of torch.Tensor that is read, with the table of C functions."""

    fails = False
    stream = 0

    def __init__(self, array, kind="cpu", index=None, byte_offset=0):
        self.array = array
        self.device = types.SimpleNamespace(type=kind, index=index)
        self.dtype = f"torch.{array.dtype}"
        self.requires_grad = False
        self.lazy = ""
        self.shape = array.shape
        self.byte_offset = byte_offset

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        if self.array.size == 0:  # where NumPy says 0
            return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(self.array.ndim))
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def is_neg(self):
        return self.lazy == "neg"

    def is_conj(self):
        return self.lazy == "conj"


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def describe(tensor, out):
    array = tensor.array
    tensor.kept = (ctypes.c_int64 * 8)(*array.shape), (ctypes.c_int64 * 8)(*tensor.stride())
    into = out[0]
    into.data = array.ctypes.data - tensor.byte_offset
    into.byte_offset = tensor.byte_offset
    into.device_type = {"cpu": 1, "cuda": 2}[tensor.device.type]
    into.device_id = tensor.device.index or 0
    into.ndim, into.lanes = array.ndim, 1
    into.code, into.bits = _CODES[array.dtype.kind], 8 * array.itemsize
    into.shape, into.strides = map(ctypes.addressof, tensor.kept)
    return -1 if Tensor.fails else 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_size_t))
def current_work_stream(device_type, device_id, out):
    assert device_type == 2
    out[0] = Tensor.stream and Tensor.stream + device_id
    return 0


_unused = ctypes.cast(describe, ctypes.c_void_p).value
_tables = {
    version: (ctypes.c_uint64 * 7)(
        *(version | 3 << 32, 0, _unused, _unused, _unused),
        ctypes.cast(describe, ctypes.c_void_p).value,
        ctypes.cast(current_work_stream, ctypes.c_void_p).value,
    )
    for version in (1, 2)
}


def make_capsule(name=b"dlpack_exchange_api", version=1):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(_tables[version]), name, None)


@pytest.fixture
def torch(monkeypatch):
    require_native()
    module = types.ModuleType("torch")
    module.Tensor = Tensor
    module.cuda = types.SimpleNamespace(
        current_stream=lambda index: types.SimpleNamespace(
            cuda_stream=Tensor.stream and Tensor.stream + index
        )
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(Tensor, "fails", False)
    monkeypatch.setattr(Tensor, "stream", 0)
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", make_capsule(), raising=False)
    yield module
    arguments.READERS.pop(Tensor, None)


@pytest.fixture
def cuda(torch):
    with installed(NativeFakeTarget("cuda")) as target:
        yield target


@kd.kernel
def takes(x, y):
    pass


@pytest.fixture
def launch():
    takes._remember_launches()
    return takes[1, 1]


def on_gpu(array, index=0, **options):
    return Tensor(array, "cuda", index, **options)


def test_a_tensor_arrives_as_by_python(cuda, launch):
    x, y = np.arange(6.0), np.arange(12, dtype=np.int16)[::2]
    args = on_gpu(x), on_gpu(y)
    warm_up(launch, *args)
    by_python = cuda.launches[0][2]
    with is_native(launch):
        launch(*args)
    assert cuda.launches[-1][2] == by_python
    assert by_python["x.data"] == x.ctypes.data
    assert by_python["y.strides[0]"] == 4


def test_an_offset_in_bytes_is_added(cuda, launch):
    x = np.arange(6.0)
    warm_up(launch, on_gpu(x), 1)
    with is_native(launch):
        launch(on_gpu(x, byte_offset=64), 1)
    assert cuda.launches[-1][2]["x.data"] == x.ctypes.data


def misaligned():
    return np.zeros(41, np.uint8)[1:].view(np.float64)


def test_a_misaligned_tensor_is_refused(cuda, launch):
    x = np.arange(5.0)
    with pytest.raises(kd.ArgumentTypeError, match="is not aligned to 8 bytes"):
        launch(on_gpu(misaligned()), 1)
    warm_up(launch, on_gpu(x), 1)
    with is_native(launch):
        launch(on_gpu(x), 1)
    with pytest.raises(kd.ArgumentTypeError, match="is not aligned to 8 bytes"):
        launch(on_gpu(misaligned()), 1)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4)),
        np.zeros((3, 4)).T,
        np.zeros((6, 8))[::2, ::2],
        np.zeros(()),
        np.zeros((0, 3)),
        np.zeros((2, 3, 4), np.complex64).transpose(1, 0, 2),
        np.zeros(5, bool),
    ],
    ids=["C", "F", "A", "scalar", "empty", "3-D", "bool"],
)
def test_every_layout(cuda, launch, array):
    warm_up(launch, on_gpu(array), 1)
    with is_native(launch):
        launch(on_gpu(array), 1)
    assert cuda.launches[0][2] == cuda.launches[-1][2]


@pytest.mark.parametrize(
    "other",
    [np.zeros((4, 3)).T, np.zeros((6, 8))[::2, ::2], np.zeros(3), np.zeros((3, 4), np.float32)],
    ids=["F", "A", "1-D", "float32"],
)
def test_another_kind_takes_the_slow_path(cuda, launch, other):
    first = on_gpu(np.zeros((3, 4)))
    warm_up(launch, first, 1)
    with is_native(launch, expected=False):
        launch(on_gpu(other), 1)
    warm_up(launch, on_gpu(other), 1)
    with is_native(launch):
        launch(on_gpu(other), 1)
        launch(first, 1)


def test_what_a_description_leaves_out_is_asked(cuda, launch):
    for array, change, words in (
        (np.zeros(3), {"requires_grad": True}, "detach"),
        (np.zeros(3), {"lazy": "neg"}, "resolve_neg"),
        (np.zeros(3, np.complex128), {"lazy": "conj"}, "resolve_conj"),
    ):
        tensor = on_gpu(array)
        warm_up(launch, tensor, 1)
        vars(tensor).update(change)
        with pytest.raises(kd.ArgumentValueError, match=words):
            launch(tensor, 1)


def test_what_the_library_cannot_describe_takes_the_slow_path(cuda, launch, monkeypatch):
    tensor = on_gpu(np.zeros(3))
    warm_up(launch, tensor, 1)
    monkeypatch.setattr(Tensor, "fails", True)
    with is_native(launch, expected=False):
        launch(tensor, 1)


def test_the_librarys_stream_and_device_are_python_s_business(cuda, launch, monkeypatch):
    tensor = on_gpu(np.zeros(3))
    warm_up(launch, tensor, 1)
    with is_native(launch, expected=False):
        launch(on_gpu(np.zeros(3), 1), 1)
    assert cuda.launches[-1][0].index == 1
    monkeypatch.setattr(Tensor, "stream", 700)
    with is_native(launch, expected=False):
        launch(tensor, 1)
    assert cuda.launches[-1][1].stream == 700


def test_tensors_together_with_arrays_of_ours(cuda, launch):
    tensor = on_gpu(np.zeros(3))
    with kd.use("cuda"):
        ours = kd.zeros(4)
    warm_up(launch, tensor, ours)
    with is_native(launch):
        launch(tensor, ours)
    assert cuda.launches[-1][2]["y.data"] == ours.pointer


def test_tensors_on_the_host(torch, launch):
    tensor = Tensor(np.arange(4.0))
    with installed(NativeFakeTarget("host", is_host=True)) as host, kd.use("host"):
        warm_up(launch, tensor, 2)
        with is_native(launch):
            launch(tensor, 2)
        assert host.launches[-1][2] == host.launches[0][2]


@pytest.mark.parametrize("capsule", [None, 5, "unknown name", "version 2"])
def test_without_the_table_python_reads(cuda, launch, monkeypatch, capsule):
    if capsule == "unknown name":
        capsule = make_capsule(b"something")
    elif capsule == "version 2":
        capsule = make_capsule(version=2)
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule)
    tensor = on_gpu(np.zeros(3))
    warm_up(launch, tensor, 1)
    with is_native(launch, expected=False):
        launch(tensor, 1)


def test_other_classes_are_read_by_python(torch):
    class Parameter(Tensor):
        pass

    assert exchange_of(Tensor, ArrayKind("float32", 1, "C")) is not None
    assert exchange_of(Parameter, ArrayKind("float32", 1, "C")) is None
    assert exchange_of(np.ndarray, ArrayKind("float32", 1, "C")) is None
