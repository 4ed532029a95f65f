"""From a seed to a program."""

from __future__ import annotations

import random

from tests.fuzz.block_kernels import block_program
from tests.fuzz.divergent_kernels import divergent_program
from tests.fuzz.element_kernels import element_program
from tests.fuzz.program import Program

__all__ = ["generate"]


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    kind = random.Random(f"kind {seed}").random()
    if kind < 0.03:
        return divergent_program(seed)
    return element_program(seed) if kind < 0.55 else block_program(seed)
