"""The kernels of the page on matrix products, by tensor cores of a simulated device."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.region_code import device_texts
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.extent import full_beyond
from tests.support.pages import blocks_of

_PAGE = Path(__file__).parents[6] / "docs" / "matrix-products.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page's programs as one module, which has run on the CPU."""
    file = tmp_path_factory.mktemp("page") / "matrix_products.py"
    file.write_text("\n\n".join(block.code for block in blocks_of(_PAGE)))
    spec = importlib.util.spec_from_file_location("matrix_products", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with kd.use("cpu"):
        spec.loader.exec_module(module)
    return module


def _run(
    kernel: Any, signature: str, grid: tuple[int, ...], args: tuple[Any, ...], **of: Any
) -> str:
    """Run a member of a kernel; return its code."""
    threads = 64 if of["BN"] == 16 else 128
    spec = specialize(kernel.member(**of), signature, block=(threads, 1, 1))
    simulate_device(spec, grid, args)
    return device_texts(spec, "entry", parse_arch("sm_90"))[0]


def test_a_function_of_the_elements(page: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((33, 70), (45, 70)))
    bias, found = rng.standard_normal(45).astype(np.float32), np.empty((33, 45), np.float32)
    expected = np.empty_like(found)
    of = {"BM": 64, "BN": 64, "BK": 32}
    with kd.use("cpu"):
        page.linear.member(**of, block=128).forall(33, 45)(a, b, bias, expected)
    signature = "float16[:,::1], float16[:,::1], float32[::1], float32[:,::1]"
    assert "matrix_product" in _run(page.linear, signature, (2,), (a, b, bias, found), **of)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("window", full_beyond([20, 10**6], [20]))
def test_attention(page: Any, window: int) -> None:
    q, k, v = (each.astype(np.float16) for each in (page.q, page.k, page.v))
    results = [(np.empty(page.out.shape, np.float32), np.empty_like(page.lse)) for _ in range(2)]
    scale2, of = np.float32(math.log2(math.e) / math.sqrt(page.D)), {"BM": 16, "BN": page.BN}
    of |= {"D": page.D, "group": page.group}
    args = (q, k, v, page.pages)
    with kd.use("cpu"):
        page.attention.member(**of)[(3, page.heads), 64](*args, *results[0], scale2, window)
    signature = (
        "float16[:,:,::1], float16[:,:,:,::1], float16[:,:,:,::1], int64[::1], "
        "float32[:,:,::1], float32[:,:,::1], float32, int64"
    )
    given = (*args, *results[1], scale2, window)
    text = _run(page.attention, signature, (3, page.heads), given, **of)
    assert text.count('call void @"kd_by_architecture_matrix_product') == 2
    for expected, found in zip(*results, strict=True):
        assert np.allclose(found, expected, rtol=1e-2, atol=1e-2)


def test_narrow_weights(page: Any) -> None:
    x = np.random.default_rng(2).integers(-4, 5, (20, 128)).astype(np.float16)
    scales, found = np.ones((40, 2), np.float16), np.empty((20, 40), np.float32)
    of = {"BM": 16, "BN": 16, "BK": 64, "G": 64}
    words = kd.int4.pack(page.w.clip(-8, 7))
    signature = f"float16[:,::1], {words.dtype}[:,::1], float16[:,::1], float32[:,::1]"
    assert "matrix_product" in _run(page.w4a16, signature, (2,), (x, words, scales, found), **of)
    np.testing.assert_array_equal(found, x.astype(np.float32) @ page.w.T)


def test_scaled_blocks(page: Any) -> None:
    found, of = np.empty_like(page.c), {"BM": 16, "BN": 128}
    args = (page.a, page.sa, page.b, page.sb, found)
    kind, scales = "float8_e4m3fn[:,::1]", "float32[:,::1]"
    signature = f"{kind}, {scales}, {kind}, {scales}, {scales}"
    assert "matrix_product" in _run(page.scaled_blocks, signature, (1,), args, **of)
    np.testing.assert_array_equal(found, page.c)
