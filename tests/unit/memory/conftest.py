"""What every test of memory begins with."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def no_garbage() -> None:
    """Memory that earlier tests have left in cycles goes before, and not in the middle."""
    gc.collect()
