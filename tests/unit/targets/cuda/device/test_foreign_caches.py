"""Memory that torch and CuPy keep for later, which the error of a full device names."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kerneldsl.contract import Device
from targets.cuda.device.device import CudaDevice


def test_a_device_has_the_functions_of_the_contract_alone() -> None:
    """A function under another name would never be called."""
    functions = (name for name, each in vars(CudaDevice).items() if inspect.isfunction(each))
    assert [name for name in functions if not hasattr(Device, name)] == []


def test_torch_and_cupy_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, cupy = ModuleType("torch"), ModuleType("cupy")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: True,
        memory_allocated=lambda index: 2**20,
        memory_reserved=lambda index: 2**30,
    )

    class Index:
        def __init__(self, index: int) -> None:
            assert index == 0

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    cupy.cuda = SimpleNamespace(Device=Index)  # type: ignore[attr-defined]
    pool = SimpleNamespace(used_bytes=lambda: 0, total_bytes=lambda: 2**25)
    cupy.get_default_memory_pool = lambda: pool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    device = SimpleNamespace(index=0)
    (of_torch, empties), (of_cupy, frees) = CudaDevice.foreign_caches(device)  # type: ignore[arg-type]
    assert of_torch == "torch has reserved 1 GiB, of which 1 MiB are in use"
    assert of_cupy == "CuPy has reserved 32 MiB, of which 0 bytes are in use"
    assert "torch.cuda.empty_cache()" in empties
    assert "free_all_blocks()" in frees
    del pool.total_bytes
    assert len(list(CudaDevice.foreign_caches(device))) == 1  # type: ignore[arg-type]
