"""Random kernels of products have the meaning of one thread that runs from top to bottom."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.fuzz.product_programs import write_program
from tests.support.sequential import run_sequentially

_QUICK, _ALL = 4, 150


def _kernel(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=(pytest.mark.full,) if seed >= _QUICK else ())
        for seed in range(_ALL)
    ],
)
def test_program(seed: int, tmp_path: Path) -> None:
    file, facts = write_program(seed, tmp_path)
    kernel, rng = _kernel(file), np.random.default_rng(seed)
    dtype, wide = np.dtype(getattr(kd, facts["dtype"])), np.dtype(facts["wide"])
    m, n, k = facts["m"], facts["n"], facts["k"]
    a, b = (rng.integers(-2, 3, (extent, k)).astype(dtype) for extent in (m, n))
    d = rng.integers(-9, 9, (m, n)).astype(wide)
    found, expected = np.full((2, m, n), 77, wide)
    run_sequentially(kernel, (1,), a, b, expected, d)
    with kd.use("cpu"):
        kernel[facts["grid"], 64](a, b, found, d)
    assert np.array_equal(found, expected), file.read_text()
