"""The installed bindings have everything that the CUDA target asks of them."""

from __future__ import annotations

import importlib
import inspect
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.bindings.uses import Used, imports_of, sources, uses_of

_CUDA = Path(__file__).parents[2] / "targets" / "cuda"
#: Major version of ``cuda.bindings`` that this environment is meant to have; ``make bindings``
#: sets it, so that an environment with the wrong one cannot pass.
EXPECTED_VARIABLE = "KERNELDSL_TEST_BINDINGS"


def _driver():
    return pytest.importorskip("cuda.bindings.driver", reason="cuda.bindings is not installed")


def test_these_are_the_bindings_that_were_asked_for() -> None:
    expected = os.environ.get(EXPECTED_VARIABLE)
    if expected is None:
        pytest.skip(f"{EXPECTED_VARIABLE} is not set")
    assert version("cuda-bindings").partition(".")[0] == expected
    assert int(_driver().CUDA_VERSION) // 1000 == int(expected)


def test_every_name_is_there() -> None:
    driver = _driver()
    missing = []
    for source, name in sources(_CUDA):
        for use in uses_of(source, name):
            holder = driver
            for part in use.path:
                if not hasattr(holder, part):
                    missing.append(f"{use.place}: {'.'.join(use.path)}")
                    break
                holder = getattr(holder, part)
    assert missing == []


def test_every_call_has_the_right_number_of_arguments() -> None:
    driver = _driver()
    wrong = []
    seen = 0
    for source, name in sources(_CUDA):
        for use in uses_of(source, name):
            function = getattr(driver, use.path[0], None)
            if use.argument_count is None or not use.path[0].startswith("cu"):
                continue
            if not callable(function) or inspect.isclass(function):
                continue
            seen += 1
            parameters = inspect.signature(function).parameters
            if len(parameters) != use.argument_count:
                wrong.append(f"{use.place}: {use.path[0]} takes {list(parameters)}")
    assert wrong == []
    assert seen > 20  # else the search found nothing to check


def test_every_import_from_cuda_can_be_had() -> None:
    _driver()
    missing = []
    for source, name in sources(_CUDA):
        for wanted in imports_of(source, name):
            module = importlib.import_module(wanted.module)
            if wanted.name is None or hasattr(module, wanted.name):
                continue
            try:
                importlib.import_module(f"{wanted.module}.{wanted.name}")
            except ImportError as error:
                missing.append(f"{wanted.place}: {wanted.module}.{wanted.name} ({error})")
    assert missing == []


def test_a_machine_without_a_driver_is_told_which_library_is_missing() -> None:
    from targets.cuda.target import CudaTarget

    driver = _driver()
    try:
        driver.cuInit(0)
    except RuntimeError:
        pass
    else:
        pytest.skip("a CUDA driver is installed here")
    target = CudaTarget()
    assert "libcuda.so.1" in (target.unavailable_reason() or "")
    assert target.devices() == ()


_SOURCE = """
import cuda.bindings
from cuda.core import Device, Stream
def work(driver, api, more):
    with driver.current(0):
        status, pointer = driver.api.cuMemAlloc(16)
        driver.call(api.cuMemFree, pointer, doing="free")
        driver.call(driver.api.cuStreamWaitEvent, *more, doing="wait")
        table = [api.CUjit_option.CU_JIT_WALL_TIME, api.CUresult]
    if hasattr(api, "cuNewerThing"):
        api.cuNewerThing(1)
    return self._call(self.api.cuMemGetInfo)
"""


def test_uses_are_found_in_the_source() -> None:
    assert {(u.path, u.argument_count) for u in uses_of(_SOURCE, "file.py")} == {
        (("cuMemAlloc",), 1),
        (("cuMemFree",), 1),
        (("cuStreamWaitEvent",), None),
        (("CUjit_option", "CU_JIT_WALL_TIME"), None),
        (("CUresult",), None),
        (("cuMemGetInfo",), 0),
    }
    assert Used(("cuMemAlloc",), 1, "file.py:6") in set(uses_of(_SOURCE, "file.py"))
    assert {(i.module, i.name) for i in imports_of(_SOURCE, "file.py")} == {
        ("cuda.bindings", None),
        ("cuda.core", "Device"),
        ("cuda.core", "Stream"),
    }
