"""The kernels of the page on matrix products, against their sequential meaning."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.pages import blocks_of
from tests.support.sequential import run_sequentially

_PAGE = Path(__file__).parents[3] / "docs" / "matrix-products.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the page's programs as one module, which has run on the CPU."""
    file = tmp_path_factory.mktemp("page") / "matrix_products.py"
    file.write_text("\n\n".join(block.code for block in blocks_of(_PAGE)))
    spec = importlib.util.spec_from_file_location("matrix_products", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with kd.use("cpu"):
        spec.loader.exec_module(module)
    return module


def _lines(name: str) -> int:
    """Count the lines of a kernel on the page, with its decorator."""
    code = next(b.code for b in blocks_of(_PAGE) if f"def {name}(" in b.code).splitlines()
    start = next(n for n, line in enumerate(code) if line.startswith(f"def {name}("))
    end = next(n for n in range(start, len(code)) if not code[n])
    return end - start + 1


def test_kernels_are_short(page: Any) -> None:
    assert _lines("linear") <= 15
    assert _lines("attention") <= 30


def test_linear(page: Any) -> None:
    constants = {"BM": 64, "BN": 64, "BK": 32}
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((33, 70), (45, 70)))
    bias = rng.standard_normal(45).astype(np.float32)
    found, expected = np.empty((2, 33, 45), np.float32)
    run_sequentially(page.linear, (1,), a, b, bias, expected, **constants)
    with kd.use("cpu"):
        page.linear.member(**constants, block=128).forall(33, 45)(a, b, bias, found)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("window", [20, 10**6])
def test_attention(page: Any, window: int) -> None:
    constants = {"BM": 16, "BN": page.BN, "D": page.D, "group": page.group}
    grid = (3, page.heads)
    given = page.q, page.k, page.v, page.pages
    results = [(np.empty_like(page.out), np.empty_like(page.lse)) for _ in range(2)]
    scale2 = np.float32(math.log2(math.e) / math.sqrt(page.D))
    run_sequentially(page.attention, grid, *given, *results[0], scale2, window, **constants)
    with kd.use("cpu"):
        page.attention.member(**constants)[grid, 64](*given, *results[1], scale2, window)
    for expected, found in zip(*results, strict=True):
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_narrow_weights(page: Any) -> None:
    found, expected = np.empty((2, 20, 40), np.float32)
    words, scales = kd.int4.pack(page.w), np.ones((40, 2), np.float16)
    constants = {"BM": 16, "BN": 16, "BK": 64, "G": 64}
    x = np.random.default_rng(2).integers(-4, 5, (20, 128)).astype(np.float16)
    run_sequentially(page.w4a16, (1,), x, words, scales, expected, **constants)
    with kd.use("cpu"):
        page.w4a16.member(**constants)[2, 64](x, words, scales, found)
    assert np.array_equal(found, expected)
