"""Kernels that are linked with code of every form run on a device, and give NumPy's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.compile.nvrtc import CudaText, compile_text
from tests.support.arrays import assert_same_bits, poisoned
from tests.support.linked_code import CUDA, PTX

_WITHOUT_KERNELS = CUDA[: CUDA.index("__global__")]
_FORMS = ["cu", "ptx", "ptx bytes", "cubin", "ltoir"]
_SIZES = [1, 31, 257, 100_003]


def _link(form: str, folder: Path) -> Any:
    """Return the functions of :mod:`tests.support.linked_code` as a file, or as bytes."""
    if form == "ptx bytes":
        return PTX
    made = {
        "cu": lambda: CUDA.encode(),
        "ptx": lambda: PTX,
        "cubin": lambda: _compiled(CodeForm.CUBIN),
        "ltoir": lambda: _compiled(CodeForm.LTO_IR),
    }[form]()
    path = folder / f"functions.{form}"
    path.write_bytes(made)
    return path


def _compiled(form: CodeForm) -> bytes:
    arch = kd.devices("cuda")[0].arch
    text = CudaText(_WITHOUT_KERNELS, "<functions>")
    return compile_text(text, arch, form=form, is_relocatable=True).code


def _kernels(link: Any) -> dict[str, Any]:
    @kd.func(link=link, signature="float32(float32, float32)")
    def weigh(a, b):
        return a * b + 0.25

    @kd.func(link=link, signature="bool(int64)", pure=True)
    def is_even(n):
        return n % 2 == 0

    @kd.func(link=link, signature="int16(int8, uint16, bool)", pure=True)
    def narrow(a, b, c):
        return a + b + c

    @kd.func(link=link, signature="void(float64[::1], int64, float64)")
    def add_to(p, i, v):
        p[i] += v

    @kd.kernel
    def weighs(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = weigh(x[i], 3) if is_even(i) else -weigh(x[i], x[i])

    @kd.kernel
    def narrows(a, b, c, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = narrow(a[i], b[i], c[i])

    @kd.kernel
    def adds(x, out):
        i = kd.grid(1)
        if i < out.size:
            add_to(out, out.size - 1 - i, x[i])

    return {"weighs": weighs, "narrows": narrows, "adds": adds}


def _weighs(x, out):
    even = np.arange(x.size) % 2 == 0
    one, two = x * np.float32(3) + np.float32(0.25), -(x * x + np.float32(0.25))
    return np.where(even, one, two)


_EXPECTED = {
    "weighs": _weighs,
    "narrows": lambda a, b, c, out: (a.astype(np.int64) + b + c).astype(np.int16),
    "adds": lambda x, out: out + x[::-1],
}


def _arguments(name: str, size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    numbers = rng.integers(-1000, 1000, size)
    if name == "weighs":
        return numbers.astype(np.float32) / 8, poisoned(size, np.float32)
    if name == "adds":
        return numbers / 8, rng.integers(-1000, 1000, size) / 8
    return (
        rng.integers(-128, 128, size).astype(np.int8),
        rng.integers(0, 1 << 16, size).astype(np.uint16),
        rng.integers(0, 2, size).astype(np.bool_),
        poisoned(size, np.int16),
    )


@pytest.mark.parametrize("form", _FORMS)
def test_results_are_those_of_numpy(form, tmp_path, rng):
    kernels = _kernels(_link(form, tmp_path))
    for name, kernel in kernels.items():
        for size in _SIZES:
            arguments = _arguments(name, size, rng)
            expected = _EXPECTED[name](*arguments)
            for launch in (kernel.forall(size), kernel[size // 96 + 1, 96]):
                copies = [array.copy() for array in arguments]
                launch(*copies)
                assert_same_bits(copies[-1], expected, f"{name} of {size}, {form}")
                on_device = [kd.to_device(array) for array in arguments]
                launch(*on_device)
                assert_same_bits(on_device[-1].copy_to_host(), expected, f"{name}, {form}")
                for copy, array in zip(copies[:-1], arguments[:-1], strict=True):
                    assert_same_bits(copy, array, "an input")


@pytest.mark.parametrize("form", _FORMS)
def test_cached_code_gives_the_same(form, tmp_path, monkeypatch, rng):
    monkeypatch.setenv("KERNELDSL_CACHE", "on")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    link = _link(form, tmp_path)
    arguments = _arguments("weighs", 257, rng)
    for hits in (0, 1):
        before = kd.cache.stats()
        copies = [array.copy() for array in arguments]
        _kernels(link)["weighs"].forall(257)(*copies)
        assert_same_bits(copies[-1], _EXPECTED["weighs"](*arguments), form)
        assert kd.cache.stats().hits - before.hits == hits


def test_a_linked_function_may_read_shared_memory():
    @kd.func(link=PTX, signature="void(float64[::1], int64, float64)")
    def add_to(p, i, v):
        p[i] += v

    @kd.kernel
    def sums(x, out):
        total = kd.shared.array(1, kd.float64)
        i = kd.threadIdx.x
        if i == 0:
            total[0] = 0.0
            for j in range(kd.blockDim.x):
                add_to(total, 0, x[kd.blockIdx.x * kd.blockDim.x + j])
            out[kd.blockIdx.x] = total[0]

    x, out = np.arange(512.0), poisoned(4, np.float64)
    sums[4, 128](x, out)
    np.testing.assert_array_equal(out, x.reshape(4, 128).sum(axis=1))
