"""Errors of the driver, as numba.cuda raises them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from kerneldsl.cuda.cudadrv.driver import CudaAPIError

import kerneldsl as kd
from kerneldsl import cuda
from tests.support.targets import require


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def target(request):
    if request.param != "cpu":
        require(request.param)
    with kd.use(request.param):
        yield request.param


def run(program, target):
    text = f"import kerneldsl as kd\nkd.use({target!r})\n" + textwrap.dedent(program)
    command = [sys.executable, "-W", "ignore", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_driver_that_does_not_start(target):
    program = """
        from kerneldsl import cuda
        from kerneldsl.cuda.cudadrv.driver import CudaAPIError, driver

        def failing(flags):
            raise CudaAPIError(999, "CUDA_ERROR_UNKNOWN")

        driver.cuInit = failing
        try:
            cuda.device_array(1)
        except cuda.CudaSupportError as error:
            print(error.msg)
        print(cuda.cuda_error(), cuda.is_available())
    """
    assert run(program, target).splitlines() == [
        "Error at driver init: CUDA_ERROR_UNKNOWN (999)",
        "CUDA_ERROR_UNKNOWN (999) False",
    ]


def test_more_memory_than_there_is(target):
    with kd.MemoryPool(target, limit=1000), pytest.raises(CudaAPIError, match="do not fit into"):
        cuda.device_array(1001, "u1")


def test_a_process_that_was_forked(target):
    program = """
        import os
        import numpy as np
        from kerneldsl import cuda
        from kerneldsl.cuda.cudadrv.error import CudaDriverError

        cuda.current_context()
        cuda.to_device(np.arange(3))
        if os.fork():
            os.wait()
        else:
            try:
                print(cuda.to_device(np.arange(3)).copy_to_host().tolist(), flush=True)
            except CudaDriverError as error:
                print("CUDA initialized before forking" in str(error), flush=True)
            os._exit(0)
    """
    assert run(program, target).strip() == ("[0, 1, 2]" if target == "cpu" else "True")
