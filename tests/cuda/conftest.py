"""Every test here needs a CUDA device, and runs with it as the place of kernels."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.targets import REQUIRE_GPU, require, required_gpus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/cuda/"):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True, scope="session")
def _cuda() -> None:
    """Of the session, so that it comes before what a module prepares on the device."""
    require("cuda")


@pytest.fixture(autouse=True)
def on_cuda(_cuda: None) -> Iterator[None]:
    with kd.use("cuda:0"):
        yield
        kd.synchronize("cuda:0")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if required_gpus():
            pytest.fail(f"{REQUIRE_GPU} is set, but {name} is not installed: {error}")
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def torch() -> Any:
    return _library("torch")


@pytest.fixture
def cupy() -> Any:
    return _library("cupy")


@pytest.fixture
def cuda_core() -> Any:
    return _library("cuda.core")


@pytest.fixture
def vector(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(1001).astype(np.float32)
