"""Fresh random inputs whose seed can be given again."""

from __future__ import annotations

import os
import secrets

import numpy as np

__all__ = ["SEED_VARIABLE", "fresh_rng", "fresh_seed"]

#: Environment variable that fixes the seed of every generator.
SEED_VARIABLE = "KERNELDSL_TEST_SEED"


def fresh_seed() -> int:
    """Return the seed that the environment gives, or a new one."""
    given = os.environ.get(SEED_VARIABLE)
    return int(given) if given else secrets.randbits(32)


def fresh_rng() -> np.random.Generator:
    """Return a generator, and print the line that would give it again."""
    seed = fresh_seed()
    print(f"{SEED_VARIABLE}={seed}")
    return np.random.default_rng(seed)
