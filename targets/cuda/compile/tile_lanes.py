"""Let the lanes of a warp exchange what they have of tiles.

References
----------
CUDA C++ Programming Guide, section "Warp Shuffle Functions".
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.language.element_types import ELEMENT_TYPES

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["WARP_SIZE", "WIDTHS", "Lanes"]

WARP_SIZE = 32
#: Distances at which the lanes of a warp meet, one after the other.
WIDTHS = (1, 2, 4, 8, 16)
_ALL_LANES = 0xFFFFFFFF


class Lanes:
    """The lanes of a thread's warp, in variables that :attr:`before` sets.

    Parameters
    ----------
    spreader : TileSpreader
        Writes intrinsics.
    whole : bool
        Whether threads of whole warps alone take part.
    """

    def __init__(self, spreader: TileSpreader, *, whole: bool = False) -> None:
        self._spreader = spreader
        threads = spreader.plan.threads
        self._lane, self._warp = spreader.names.make("lane"), spreader.names.make("warp")
        self._mask = self._count = ""
        #: Lanes of the last warp, where it is not a whole one.
        self.rest = 0 if whole else threads % WARP_SIZE
        thread, size = load(spreader.thread), ast.Constant(WARP_SIZE)
        #: The statements that set the variables.
        self.before: list[ast.stmt] = [
            assign(self._lane, ast.BinOp(thread, ast.Mod(), size)),
            assign(self._warp, ast.BinOp(load(spreader.thread), ast.FloorDiv(), size)),
        ]
        if self.rest and threads > WARP_SIZE:
            self._mask, self._count = spreader.names.make("mask"), spreader.names.make("lanes")
            last = ast.Constant(threads // WARP_SIZE)
            for name, part, all_ in (
                (self._mask, (1 << self.rest) - 1, _ALL_LANES),
                (self._count, self.rest, WARP_SIZE),
            ):
                is_last = ast.Compare(self.warp, [ast.Eq()], [last])
                chosen = ast.IfExp(is_last, ast.Constant(part), ast.Constant(all_))
                self.before.append(assign(name, chosen))

    @property
    def lane(self) -> ast.expr:
        """Index of the thread in its warp."""
        return load(self._lane)

    @property
    def warp(self) -> ast.expr:
        """Index of its warp in the block."""
        return load(self._warp)

    @property
    def mask(self) -> ast.expr:
        """A bit for each lane that there is."""
        if self._mask:
            return load(self._mask)
        return ast.Constant((1 << self.rest) - 1 if self.rest else _ALL_LANES)

    @property
    def count(self) -> ast.expr:
        """Number of its lanes."""
        return load(self._count) if self._count else ast.Constant(self.rest or WARP_SIZE)

    def exchanged(self, word: str, value: str, lane: ast.expr, dtype: str) -> ast.expr:
        """Return another lane's value, of any dtype that values are combined in."""
        row = ELEMENT_TYPES[dtype]
        whole: ast.expr = load(value)
        if row.is_complex:
            parts = [
                self._spreader.use(word, self.mask, ast.Attribute(whole, part, ast.Load()), lane)
                for part in ("real", "imag")
            ]
            return call(f"kd_as_{dtype}", call("kd_complex", *parts))
        if row.is_narrow:
            whole = call("kd_as_float32", whole)
        return call(f"kd_as_{dtype}", self._spreader.use(word, self.mask, whole, lane))
