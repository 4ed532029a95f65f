"""Arguments of other libraries, played by stand-ins with the same faces."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.arguments import arguments
from tests.support.dlpack import FourBits
from tests.support.fake_target import FakeTarget, installed


@kd.kernel
def copy(x, y):
    i = kd.grid(1)
    if i < x.size:
        y[i] = x[i]


class Tensor:
    """The part of torch.Tensor that is read."""

    def __init__(self, array, kind="cpu", index=None, dtype=None, requires_grad=False, lazy=""):
        self.array = array
        self.device = types.SimpleNamespace(type=kind, index=index)
        self.dtype = dtype or f"torch.{array.dtype}"
        self.requires_grad = requires_grad
        self.is_lazy = lazy
        self.shape = array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def is_neg(self):
        return self.is_lazy == "neg"

    def is_conj(self):
        return self.is_lazy == "conj"

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.Tensor = Tensor
    module.cuda = types.SimpleNamespace(
        current_stream=lambda index: types.SimpleNamespace(cuda_stream=700 + index)
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    yield module
    arguments.READERS.pop(Tensor, None)


@pytest.fixture
def cuda():
    with installed(FakeTarget("cuda")) as target:
        yield target


def test_tensors_on_the_host_are_numpy_arrays(torch):
    with installed(FakeTarget("host", is_host=True)) as host, kd.use("host"):
        x = np.arange(8.0)[::2]
        copy.forall(4)(Tensor(x), np.zeros(4))
    values = host.launches[-1][2]
    assert (values["x.data"], values["x.shape[0]"], values["x.strides[0]"]) == (
        x.ctypes.data,
        4,
        16,
    )


def test_tensors_on_a_gpu_bring_device_and_stream(torch, cuda):
    x = np.arange(8.0)
    copy.forall(8)(Tensor(x, "cuda", 1), Tensor(np.zeros(8), "cuda", 1))
    device, config, values = cuda.launches[-1]
    assert (device.index, config.stream, values["x.data"]) == (1, 701, x.ctypes.data)
    copy.forall(8, stream=5)(Tensor(x, "cuda", 1), Tensor(np.zeros(8), "cuda", 1))
    assert cuda.launches[-1][1].stream.handle == 5
    assert [(later.handle, sooner) for later, sooner in cuda.waits] == [(5, 701)]


def test_tensors_and_numpy_together_are_staged_in_the_stream(torch, cuda):
    y = np.zeros(4)
    copy.forall(4)(Tensor(np.arange(4.0), "cuda", 0), y)
    assert cuda.launches[-1][1].stream == 700
    assert len(cuda.buffers) == 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dtype": "torch.float8_e4m3fnuz"}, kd.ArgumentTypeError, "float8_e4m3fnuz"),
        ({"requires_grad": True}, kd.ArgumentValueError, "detach"),
        ({"lazy": "neg"}, kd.ArgumentValueError, "resolve_neg"),
        ({"lazy": "conj", "dtype": "torch.complex64"}, kd.ArgumentValueError, "resolve_conj"),
        ({"kind": "mps", "index": 0}, kd.ArgumentTypeError, "the tensor is on"),
    ],
)
def test_tensors_that_cannot_be_taken(torch, options, error, words):
    with pytest.raises(error, match=words):
        copy.forall(4)(Tensor(np.zeros(4), **options), np.zeros(4))


class CupyArray:
    """The part of cupy.ndarray that is read; its interface must not be asked for."""

    def __init__(self, array, index=0, offset=0):
        self.array = array
        self.dtype, self.shape, self.strides = array.dtype, array.shape, array.strides
        self.data = types.SimpleNamespace(ptr=array.ctypes.data + offset, device_id=index)

    @property
    def __cuda_array_interface__(self):
        raise AssertionError


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")
    module.ndarray = CupyArray
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=900))
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield module
    arguments.READERS.pop(CupyArray, None)


def test_arrays_of_cupy_bring_device_and_stream(cupy, cuda):
    x, y = np.arange(8.0)[::2], np.zeros(4, np.float32)
    for _ in range(2):
        copy.forall(4)(CupyArray(x, 1), CupyArray(y, 1))
        device, config, values = cuda.launches[-1]
        assert (device.index, config.stream) == (1, 900)
        assert (values["x.data"], values["x.strides[0]"]) == (x.ctypes.data, 16)
        assert (values["y.data"], values["y.shape[0]"]) == (y.ctypes.data, 4)
    with pytest.raises(kd.DeviceMismatchError):
        copy.forall(4)(CupyArray(x, 1), CupyArray(y, 0))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (CupyArray(np.zeros(4), offset=4), "aligned to 8 bytes"),
        (CupyArray(np.zeros(4, np.longdouble)), "float128"),
    ],
)
def test_arrays_of_cupy_that_cannot_be_taken(cupy, cuda, array, words):
    with pytest.raises(kd.ArgumentTypeError, match=words):
        copy.forall(4)(array, np.zeros(4))


class Interface:
    """Speaks the CUDA Array Interface."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None if array.flags.c_contiguous else array.strides,
            "version": 3,
            "stream": None,
            **changes,
        }


def test_the_array_interface_is_read(cuda):
    x = np.zeros((4, 6), np.float32)[:, ::2]
    copy.forall(1)(Interface(x), Interface(np.zeros(4), stream=2))
    _, config, values = cuda.launches[-1]
    assert (values["x.data"], values["x.strides[0]"], values["x.strides[1]"]) == (
        x.ctypes.data,
        24,
        8,
    )
    assert config.stream == 2


def test_an_array_that_is_taken_over_waits_for_its_producer(cuda):
    """Array Interface, version 3: the consumer waits for the stream that is named."""
    theirs = np.arange(6.0)
    kd.as_array(Interface(theirs, stream=None))
    assert not cuda.waits
    kd.as_array(Interface(theirs, stream=77))
    with kd.Stream("cuda:0") as stream:
        kd.as_array(Interface(theirs, stream=78))
    assert cuda.waits == [(None, 77), (stream._stream, 78)]


def test_the_array_interface_says_what_is_read_only(cuda):
    x = np.zeros(4)
    locked = Interface(x, data=(x.ctypes.data, True))
    copy.forall(4)(locked, Interface(x))
    with pytest.raises(kd.ReadOnlyArrayError, match="'y'"):
        copy.forall(4)(Interface(x), locked)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"typestr": "<f16"}, "float128"),
        ({"mask": object()}, "mask"),
        ({"data": (1, False)}, "aligned"),
    ],
)
def test_array_interfaces_that_cannot_be_taken(cuda, changes, words):
    with pytest.raises(kd.ArgumentTypeError, match=words) as caught:
        copy.forall(4)(Interface(np.zeros(4), **changes), np.zeros(4))
    assert "'x' (argument 1 of 2)" in str(caught.value)


def test_without_cuda_the_reason_is_given(cuda):
    cuda.found = ()
    with pytest.raises(kd.TargetUnavailableError, match="without devices"):
        copy.forall(4)(Interface(np.zeros(4)), np.zeros(4))


class OnlyDLPack:
    """An array library that uses DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack_on_the_host_and_on_a_gpu(cuda):
    with installed(FakeTarget("cpu", is_host=True, devices=1)) as cpu, kd.use("cpu"):
        x, locked = np.arange(4.0), np.arange(4.0)
        locked.flags.writeable = False
        copy.forall(4)(OnlyDLPack(locked), OnlyDLPack(x))
        assert cpu.launches[-1][2]["y.data"] == x.ctypes.data
        with pytest.raises(kd.ReadOnlyArrayError):
            copy.forall(4)(OnlyDLPack(x), OnlyDLPack(locked))
        with pytest.raises(kd.ArgumentTypeError, match=r"'x'.*4 bits"):
            copy.forall(4)(FourBits(), x)
    device = kd.zeros(4, device="cuda:1")
    copy.forall(4)(OnlyDLPack(device), OnlyDLPack(device))
    assert cuda.launches[-1][0].index == 1
    assert cuda.launches[-1][1].stream == 1
