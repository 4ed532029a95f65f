"""DLPack in and out, with NumPy as the partner."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.element_types import NUMPY_NAMES
from kerneldsl.memory import dlpack
from tests.support.dlpack import FourBits
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def cpu():
    with installed(FakeTarget("cpu", is_host=True, devices=1)) as target:
        yield target


@pytest.mark.parametrize("dtype", NUMPY_NAMES)
def test_in_and_out_share_memory(dtype):
    source = np.zeros((3, 4), dtype)[:, ::2]
    array = kd.from_dlpack(source)
    assert (array.shape, array.strides, array.dtype) == (source.shape, source.strides, dtype)
    assert array.pointer == source.ctypes.data
    back = np.from_dlpack(array)
    source[1, 1] = 1
    assert back[1, 1] == 1
    assert back.ctypes.data == source.ctypes.data


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_capsules_of_both_generations(max_version):
    array = kd.from_dlpack(np.arange(6.0))
    capsule = array.__dlpack__(max_version=max_version)
    name = "dltensor_versioned" if max_version else "dltensor"
    assert f'"{name}"' in repr(capsule)
    again = dlpack._take(capsule, array)
    assert again.as_numpy(again).tolist() == list(range(6))
    with pytest.raises(kd.ArgumentTypeError, match="not yet consumed"):
        dlpack._take(capsule, array)


def test_the_exporter_lives_as_long_as_the_importer():
    source = np.arange(4.0)
    gone = weakref.ref(source)
    array = kd.from_dlpack(source)
    view = np.from_dlpack(array)
    del source, array
    gc.collect()
    assert gone() is not None
    assert view.sum() == 6
    del view
    gc.collect()
    assert gone() is None


def test_an_unconsumed_capsule_lets_go():
    before = len(dlpack._exported)
    for version in (None, (1, 0)):
        capsule = kd.from_dlpack(np.arange(4.0)).__dlpack__(max_version=version)
        assert len(dlpack._exported) == before + 1
        del capsule
        gc.collect()
        assert len(dlpack._exported) == before


def test_read_only_is_seen():
    locked = np.arange(4.0)
    locked.flags.writeable = False
    array = kd.from_dlpack(locked)
    assert array.is_read_only
    with pytest.raises(kd.ReadOnlyArrayError):
        array.fill(1)
    with pytest.raises(BufferError, match=r"1\.0"):
        array.__dlpack__()
    assert not np.from_dlpack(array).flags.writeable


def test_what_cannot_be_met_is_a_buffer_error():
    array = kd.from_dlpack(np.arange(4.0))
    with pytest.raises(BufferError):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(2, 0))
    with installed(FakeTarget()), pytest.raises(BufferError, match="no name"):
        kd.zeros(3, device="fake").__dlpack_device__()


@pytest.mark.parametrize("bad", [3, "text", object()])
def test_objects_without_dlpack(bad):
    with pytest.raises(kd.ArgumentTypeError, match="DLPack"):
        kd.from_dlpack(bad)


def test_dtypes_that_kernels_do_not_take():
    with pytest.raises(kd.ArgumentTypeError, match="4 bits"):
        kd.from_dlpack(FourBits())


class OldProducer:
    """Speaks DLPack as before 1.0: no max_version."""

    def __init__(self, array):
        self.array = array
        self.streams = []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)


def test_old_producers_are_asked_again():
    assert kd.from_dlpack(OldProducer(np.arange(3.0))).copy_to_host().tolist() == [0, 1, 2]


def test_streams_are_honoured_on_cuda():
    with installed(FakeTarget("cuda")) as cuda:
        array = kd.zeros(3, device="cuda:1")
        assert array.__dlpack_device__() == (2, 1)
        array.__dlpack__(stream=77)
        assert cuda.waits == [(77, None)]
        array.__dlpack__(stream=-1)
        array.__dlpack__(stream=1)
        array.__dlpack__()
        assert len(cuda.waits) == 1
        producer = OldProducer(array)
        taken = kd.from_dlpack(producer)
        assert taken.device.index == 1
        assert producer.streams == [1]
        host = array.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
        assert dlpack._take(host, array).device.is_host


def test_rank_zero_and_empty():
    assert kd.from_dlpack(np.array(2.5)).item() == 2.5
    assert kd.from_dlpack(np.zeros((0, 3))).copy_to_host().shape == (0, 3)
    assert np.from_dlpack(kd.zeros((0, 3), device="cpu")).shape == (0, 3)


def test_the_current_stream_is_what_consumers_wait_for():
    with installed(FakeTarget("cuda")) as cuda:
        array = kd.zeros(8, device="cuda")
        with kd.Stream("cuda:0") as stream:
            assert array.__cuda_array_interface__["stream"] == stream.handle
            array.__dlpack__(stream=77)
            array.__dlpack__(stream=1)
            array.__dlpack__(stream=-1)
        array.__dlpack__(stream=1)
        assert array.__cuda_array_interface__["stream"] == 1
        assert [(later, sooner.handle) for later, sooner in cuda.waits] == [
            (77, stream.handle),
            (None, stream.handle),
        ]


def test_what_is_taken_over_is_ready_for_the_current_stream():
    with installed(FakeTarget("cuda")):
        producer = OldProducer(kd.zeros(3, device="cuda:1"))
        with kd.Stream("cuda:1") as stream:
            kd.from_dlpack(producer)
            kd.as_array(producer)
            handle = stream.handle
        with kd.Stream("cuda:0"):  # of another device: not where the array will be used
            kd.from_dlpack(producer)
        assert producer.streams == [handle, handle, 1]
