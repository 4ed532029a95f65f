"""A slow run of a generated program: threads are Python generators, a barrier is a ``yield``.

The program's text is parsed again and rewritten (:mod:`.rewriting`) so that every operation asks
:mod:`.typing` for its result; nothing of kerneldsl takes part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz import typing
from tests.fuzz.rewriting import compile_program
from tests.support.simt import DivergentBarrierError, Launch

__all__ = ["DivergentBarrierError", "run"]


def run(
    text: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    *,
    shared_bytes: int = 0,
    is_reversed: bool = False,
) -> None:
    """Run the program's ``kernel`` on arrays, in place.

    Parameters
    ----------
    text : str
        The program.
    grid, block, shared_bytes, is_reversed
        Of the :class:`~tests.support.simt.Launch`.
    args : tuple
        Arrays, and scalars: NumPy's, and Python's int, float and bool.

    Raises
    ------
    DivergentBarrierError
        Threads of a block wait at different barriers.
    """
    kernel = compile_program(text)["kernel"]
    given = [a if isinstance(a, np.ndarray) else typing.constant(a) for a in args]
    launch = Launch(grid, block, shared_bytes, is_reversed=is_reversed)
    launch.run(lambda thread: kernel(thread, *given))
