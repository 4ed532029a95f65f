"""Launches of kernels with linked functions: what falls back to the Python body, and what does not.

The null target compiles and launches as a device does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.linked_code import CodeForm
from targets import null
from targets.cuda.compile import linker, nvrtc
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.null.target import NullTarget
from tests.support.falling_back import forget_choices
from tests.support.linked_code import CUDA, PTX

_WITHOUT_KERNELS = CUDA[: CUDA.index("__global__")]


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[NullTarget]:
    forget_choices(monkeypatch)
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    with null.described_as(null.H100) as found, kd.use("null"):
        yield found
    found.reset()


def _kernel(link: Any, name: str = "weigh") -> Any:
    @kd.func(link=link, signature="float32(float32, float32)", name=name)
    def weigh(a, b):
        return a * b + 0.25

    @kd.kernel
    def weighs(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = weigh(x[i], 3)

    return weighs


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(9, dtype=np.float32), np.full(9, np.nan, np.float32)


def _missing(*_: Any) -> Any:
    raise kd.ToolMissingError("CUDA C++ needs NVRTC: it is not installed")


@pytest.mark.parametrize("by_blocks", [False, True])
def test_linked_kernels_are_launched(by_blocks: bool, target: NullTarget) -> None:
    kernel = _kernel(PTX)
    (kernel[1, 32] if by_blocks else kernel.forall(9))(*_arrays())
    assert len(target.launches) == 1


def test_without_nvrtc_the_python_body_runs(
    target: NullTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    path = tmp_path / "weigh.cu"
    path.write_text(CUDA)
    nvrtc.nvrtc_version.cache_clear()
    monkeypatch.setattr(nvrtc, "_import_nvrtc", _missing)
    monkeypatch.setattr(nvrtc, "supported_architectures", _missing)
    x, out = _arrays()
    with pytest.warns(kd.FallbackWarning, match="needs NVRTC"):
        _kernel(path).forall(9)(x, out)
    np.testing.assert_array_equal(out, x * np.float32(3) + np.float32(0.25))
    assert target.launches == []


def test_without_nvjitlink_the_python_body_runs(
    target: NullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CudaText(_WITHOUT_KERNELS, "<weigh>")
    code = compile_text(text, "sm_90", form=CodeForm.CUBIN, is_relocatable=True).code
    monkeypatch.setattr(linker, "find_linker", lambda: None)
    x, out = _arrays()
    with pytest.warns(kd.FallbackWarning, match="nvJitLink"):
        _kernel(code).forall(9)(x, out)
    np.testing.assert_array_equal(out, x * np.float32(3) + np.float32(0.25))


def test_wrong_code_never_runs_on_the_cpu(target: NullTarget) -> None:
    x, out = _arrays()
    with pytest.raises(kd.DeviceCodeError, match="has no function wiegh"):
        _kernel(PTX, "wiegh").forall(9)(x, out)
    assert np.isnan(out).all()
