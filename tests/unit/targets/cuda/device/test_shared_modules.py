"""Kernels of one source share a loaded module, which goes when the source goes."""

from __future__ import annotations

import gc

import pytest

from kerneldsl.contract import Specialization
from kerneldsl.contract.device_code import CodeModule
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.own_code import traits_of_code, unit_of_code
from targets.cuda.compile.ptx_compiler import PtxCompiler
from targets.cuda.device import device as cuda_device
from targets.cuda.device.executable import CudaExecutable
from targets.cuda.driver import retired_modules
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings

SOURCE = """
__device__ int count;
extern "C" __global__ void add(int *x) { count += x[0]; }
extern "C" __global__ void get(int *x) { x[0] = count; }
"""


@pytest.fixture
def api() -> FakeBindings:
    return FakeBindings()


def _function(x):
    pass


def _load(driver: Driver, module: CodeModule, entry: str) -> CudaExecutable:
    kinds, code = parse_signature("int32[::1]"), module.declare(entry)
    unit = unit_of_code(code, _function, None)
    specialization = Specialization(
        unit, traits_of_code(kinds, None), kinds, code=code, arch="sm_80"
    )
    artifact = PtxCompiler("cuda").compile(specialization)
    (described, *_) = driver.devices()
    object.__setattr__(described, "arch", "sm_80")
    device = cuda_device.CudaDevice.from_description(described)
    return CudaExecutable(driver, artifact, device)  # type: ignore[arg-type]


def _count(api: FakeBindings, name: str) -> int:
    return sum(call[0] == name for call in api.calls)


def test_kernels_of_a_source_are_in_one_module(api: FakeBindings) -> None:
    driver = Driver(api)
    module = CodeModule(CodeForm.CUDA, "<count>", SOURCE.encode())
    module.declare("add")
    module.declare("get")
    both = [_load(driver, module, "add"), _load(driver, module, "get")]
    assert _count(api, "cuModuleLoadDataEx") == 1
    names = [call[2] for call in api.calls if call[0] == "cuModuleGetFunction"]
    assert set(names) == {b"add", b"get"}
    other = CodeModule(CodeForm.CUDA, "<count>", SOURCE.encode())
    third = _load(driver, other, "add")
    assert _count(api, "cuModuleLoadDataEx") == 2
    del both, third
    gc.collect()
    assert not retired_modules._retired
    del module
    gc.collect()
    assert len(retired_modules._retired) == 1
    retired_modules.unload_finished()
    gc.collect()
    assert _count(api, "cuModuleUnload") == 1
    del other
    gc.collect()
    retired_modules.unload_finished()
    assert _count(api, "cuModuleUnload") == 2
