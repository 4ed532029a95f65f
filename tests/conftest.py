"""Fixtures that every suite shares."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.seeds import fresh_rng


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fresh seed, which pytest shows when the test fails."""
    return fresh_rng()
