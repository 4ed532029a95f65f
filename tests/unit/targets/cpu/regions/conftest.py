"""Compile kernels by the region IR."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kerneldsl as kd


@pytest.fixture(autouse=True)
def regions() -> Iterator[None]:
    with kd.use("cpu"):
        yield
