"""From a seed to a program."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from tests.fuzz.block_kernels import block_program, choose_levels
from tests.fuzz.divergent_kernels import divergent_program
from tests.fuzz.element_kernels import element_program
from tests.fuzz.memory_kernels import memory_program, overlap_program
from tests.fuzz.program import Program
from tests.fuzz.warp_kernels import warp_program

__all__ = ["generate"]

#: A program of more lines is drawn again: it takes several times as long to compile, and finds less
#: in that time than several small ones. Shared arrays and their parts take some lines.
_LINES = 40
_MEMORY_LINES = 64
_DRAWS = 5


def generate(seed: int) -> Program:
    """Return the program of a seed.

    About a fifth are of independent elements, under a half of blocks, and three of ten of parts of
    memory and of arguments that overlap. Other versions of this module give a seed other programs.
    """
    kind = random.Random(f"kind {seed}").random()
    if kind < 0.03:
        return divergent_program(seed)
    make = element_program if kind < 0.25 else partial(block_program, levels=choose_levels(seed))
    if kind < 0.06:
        make = warp_program
    elif kind > 0.7:
        make = memory_program if kind < 0.92 else overlap_program
    lines = _MEMORY_LINES if make is memory_program else _LINES
    drawn = [make(seed)]
    while drawn[-1].text.count("\n") > lines and len(drawn) < _DRAWS:
        drawn.append(replace(make(seed + (len(drawn) << 40)), seed=seed))
    return min(drawn, key=lambda program: program.text.count("\n"))
