"""Compile kernels by the region IR."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kerneldsl as kd
from benchmarks.ir_spike.paths import by_path


@pytest.fixture(autouse=True)
def regions() -> Iterator[None]:
    with by_path("regions"), kd.use("cpu"):
        yield
