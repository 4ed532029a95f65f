"""Memory that other processes open: handles here, and two processes on a GPU."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.compat.numba_cuda.ipc import IpcHandle
from kerneldsl.errors import TargetUnavailableError
from tests.support.targets import require


@pytest.fixture
def shared(monkeypatch):
    """Memory that the CPU opens by handles, as a GPU would, and what it has closed."""
    elements, closed = np.arange(12, dtype=np.int32), []
    with kd.use("cpu"):
        kind = type(cuda.current_context().device._device)
        opened = {b"h" * 64: elements.ctypes.data}
        monkeypatch.setattr(kind, "open_memory", lambda self, handle: opened[handle])
        monkeypatch.setattr(kind, "close_memory", lambda self, start: closed.append(start))
        yield SimpleNamespace(elements=elements, closed=closed)


def test_a_handle_opens_memory_once(shared):
    handle = pickle.loads(pickle.dumps(IpcHandle("memory", b"h" * 64, 32, None, 8)))  # noqa: S301
    assert (handle.base, handle.handle.reserved, handle.size) == (None, b"h" * 64, 32)
    array = handle.open_array(cuda.current_context(), 8, np.dtype(np.int32))
    with pytest.raises(ValueError, match="already opened"):
        handle.open(cuda.current_context())
    array[3] = -5
    assert shared.elements[5] == -5
    np.testing.assert_array_equal(array.copy_to_host(), shared.elements[2:10])
    handle.close()
    assert shared.closed == [shared.elements.ctypes.data]
    with pytest.raises(ValueError, match="not opened"):
        handle.close()


def test_a_copy_for_a_device_that_cannot_reach_it(shared):
    handle = IpcHandle(None, b"h" * 64, 40, None, 8)
    pointer = handle.open_staged(cuda.current_context())
    shared.elements[:] = -1
    found = np.zeros(10, np.int32)
    cuda.driver.device_to_host(found, pointer, 40)
    np.testing.assert_array_equal(found, np.arange(2, 12))
    handle.close()


def test_an_array_by_the_handle_of_the_driver(shared):
    with cuda.open_ipc_array(b"h" * 64, (2, 3), np.int32, offset=16) as array:
        assert array.copy_to_host().tolist() == [[4, 5, 6], [7, 8, 9]]
        assert not shared.closed
    assert shared.closed == [shared.elements.ctypes.data]


def test_the_process_of_the_memory_does_not_open_it(shared):
    with pytest.raises(ValueError, match="original process"):
        IpcHandle("memory", b"h" * 64, 32).open(cuda.current_context())
    with pytest.raises(TargetUnavailableError, match="no memory that CUDA shares"):
        cuda.to_device(shared.elements).get_ipc_handle()


def test_a_process_that_has_made_no_array_finds_its_context():
    code = (
        "from kerneldsl.compat.numba_cuda.memory import context_now\n"
        "assert context_now().device.id == 0\n"
    )
    environment = {**os.environ, "KERNELDSL_TARGET": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)


def _increment(handle, raw, offset, results):
    with handle as array:
        results.put(array.copy_to_host())
        array.copy_to_device(array.copy_to_host() + 100)
    with cuda.open_ipc_array(raw, 5, np.int64, offset=offset) as array:
        results.put(array.copy_to_host())


def test_two_processes():
    require("cuda")
    with kd.use("cuda"):
        cuda.to_device(np.zeros(77, np.int64))  # memory that is used again
        array = cuda.to_device(np.arange(1000, dtype=np.int64))
        part = array[3:8]
        handle = part.get_ipc_handle()
        inner = handle._ipc_handle
        start = multiprocessing.get_context("spawn")
        results = start.Queue()
        given = handle, inner.handle.reserved, inner.offset, results
        child = start.Process(target=_increment, args=given)
        child.start()
        try:
            np.testing.assert_array_equal(results.get(timeout=60), np.arange(3, 8))
            np.testing.assert_array_equal(results.get(timeout=60), np.arange(103, 108))
        finally:
            child.join(60)
        wanted = np.arange(1000)
        wanted[3:8] += 100
        np.testing.assert_array_equal(array.copy_to_host(), wanted)
