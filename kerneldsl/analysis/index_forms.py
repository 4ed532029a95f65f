"""Index expressions as forms: by how much an index grows with the axes of ``grid``, and with loops.

Take ``y, x = kd.grid(2)``. The index of ``a[y, x + 1]`` grows by one element with the last axis, so
neighbouring threads access neighbouring elements. That of ``a[x, y]`` grows by a row. That of
``a[idx[x]]`` depends on loaded data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "LOADED",
    "UNIFORM",
    "IndexForm",
    "Pattern",
    "either",
    "is_crossed",
    "offsets_of",
    "operate",
    "pattern_of",
]

#: Distance of an access from that of the next index along x: one element, a row or another step,
#: none, or one that loaded data determine.
Pattern: TypeAlias = Literal["contiguous", "strided", "uniform", "scattered"]

#: Places of a form's factors: the iterations of a loop, z, y and x, and the axes of ``grid`` that
#: :data:`_TURNED` names.
_LOOP, _X = 0, 3
_THREAD_COUNT = 4
#: Axes of ``grid`` by their place from the first and from the last one. The others are the same
#: axis of a block whichever of the two runs along x.
_TURNED = ((0, 1), (1, 0), (0, 2), (2, 0))
_COUNT = _THREAD_COUNT + len(_TURNED)


class IndexForm(NamedTuple):
    """Abstract value of an integer."""

    #: Growth per iteration of a loop, per index along z, y and x, and per axis of ``grid``;
    #: ``None`` if it is not known.
    factors: tuple[int | None, ...] = (0,) * _COUNT
    #: Constant term; ``None`` if it is not known.
    constant: int | None = None
    #: Whether the value depends on a load.
    is_loaded: bool = False

    @staticmethod
    def axis(place: int) -> IndexForm:
        """Return the index along x (0), y (1) or z (2)."""
        return IndexForm._growing(_X - place)

    @staticmethod
    def grid(axis: int, count: int) -> IndexForm:
        """Return the index along one of `count` axes of ``grid``."""
        place = (axis, count - 1 - axis)
        if place[0] == place[1]:
            return IndexForm.axis(axis)
        return IndexForm._growing(_THREAD_COUNT + _TURNED.index(place))

    @staticmethod
    def _growing(place: int) -> IndexForm:
        factors: list[int | None] = [0] * _COUNT
        factors[place] = 1
        return IndexForm(tuple(factors), 0)

    def oriented(self, *, x_is_last: bool) -> IndexForm:
        """Return the form where the last axis of ``grid`` runs along x, else the first.

        Examples
        --------
        >>> y, x = IndexForm.grid(0, 2), IndexForm.grid(1, 2)
        >>> x.oriented(x_is_last=True) == y.oriented(x_is_last=False) == IndexForm.axis(0)
        True
        """
        turned = self.factors[_THREAD_COUNT:]
        if not any(factor != 0 for factor in turned):
            return self
        factors = list(self.factors[:_THREAD_COUNT])
        for places, factor in zip(_TURNED, turned, strict=True):
            place = _X - places[x_is_last]
            known = factors[place]
            factors[place] = None if known is None or factor is None else known + factor
        return self._replace(factors=(*factors, *(0,) * len(_TURNED)))

    @property
    def is_uniform(self) -> bool:
        """True if it is the same for all threads, in all rounds."""
        return not self.is_loaded and not any(factor != 0 for factor in self.factors)

    @property
    def loop_factor(self) -> int | None:
        """Growth per iteration of a loop."""
        return self.factors[_LOOP]

    @property
    def along_x(self) -> int | None:
        """Growth per index along x, with the first axis of ``grid`` there."""
        return self.oriented(x_is_last=False).factors[_X]

    @property
    def number(self) -> int | None:
        """The integer that it is everywhere, ``None`` if there is none or it is not known."""
        return self.constant if self.is_uniform else None

    def advancing(self, step: int | None) -> IndexForm:
        """Return the same, growing by so much with each round of a loop."""
        return IndexForm((step, *self.factors[1:]), None, self.is_loaded)

    def plus(self, other: IndexForm) -> IndexForm:
        """Return the sum of both."""
        factors = tuple(
            None if a is None or b is None else a + b
            for a, b in zip(self.factors, other.factors, strict=True)
        )
        known = self.constant is not None and other.constant is not None
        constant = (self.constant or 0) + (other.constant or 0) if known else None
        return IndexForm(factors, constant, self.is_loaded or other.is_loaded)

    def times(self, factor: int | None) -> IndexForm:
        """Return the product with a number that may not be known."""
        if factor is None:
            unknown = tuple(0 if each == 0 else None for each in self.factors)
            return IndexForm(unknown, None, self.is_loaded)
        factors = tuple(None if each is None else each * factor for each in self.factors)
        constant = None if self.constant is None else self.constant * factor
        return IndexForm(factors, constant, self.is_loaded)


#: An unknown value that is equal in all threads.
UNIFORM = IndexForm()
#: A value loaded from memory.
LOADED = IndexForm(is_loaded=True)


def operate(function: Callable[..., Any], first: IndexForm, second: IndexForm) -> IndexForm:
    """Return what is known of the result of one of Python's operators.

    Examples
    --------
    >>> x, three = IndexForm.axis(0), IndexForm(constant=3)
    >>> operate(operator.mul, x, three) == x.times(3)
    True
    """
    if first.number is not None and second.number is not None:
        return IndexForm(constant=_computed(function, first.number, second.number))
    if function is operator.add:
        return first.plus(second)
    if function is operator.sub:
        return first.plus(second.times(-1))
    if second.is_uniform:
        if function is operator.mul:
            return first.times(second.constant)
        if function is operator.lshift and second.constant in range(63):
            return first.times(1 << (second.constant or 0))
        if function in (operator.floordiv, operator.rshift):
            return LOADED if first.is_loaded else UNIFORM  # neighbours mostly agree
        if function in (operator.mod, operator.and_):
            return first  # contiguous, piece by piece
    if function is operator.mul and first.is_uniform:
        return second.times(first.constant)
    return UNIFORM if first.is_uniform and second.is_uniform else LOADED


_ARITHMETIC = (
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
    *(operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor),
)


def _computed(function: Callable[..., Any], first: int, second: int) -> int | None:
    """Return the result of an operator for two numbers, ``None`` if it has none of int64."""
    is_shift = function in (operator.lshift, operator.rshift)
    if function not in _ARITHMETIC or (is_shift and second not in range(63)):
        return None
    try:
        found = int(function(first, second))
    except ZeroDivisionError:
        return None
    return found if -(2**63) <= found < 2**63 else None


def either(first: IndexForm, second: IndexForm) -> IndexForm:
    """Return what is known of an integer that is the one for some threads, for others the other.

    Where an array's ends are looked after, few threads have the end itself: ``i - 1 if i > 0 else
    n - 1`` and ``min(i + 1, n - 1)`` go with the index.

    Examples
    --------
    >>> x, end = IndexForm.axis(0), IndexForm(constant=99)
    >>> either(end, x.plus(IndexForm(constant=-1))) == x.plus(IndexForm(constant=-1))
    True
    """
    if first == second:
        return first
    if first.is_loaded or second.is_loaded:
        return LOADED
    if first.is_uniform and second.is_uniform:
        return UNIFORM
    if first.is_uniform or second.is_uniform:
        return second if first.is_uniform else first
    return first._replace(constant=None) if first.factors == second.factors else LOADED


def pattern_of(index: Sequence[IndexForm]) -> tuple[Pattern, int | None]:
    """Return how neighbours along x access a C-contiguous array.

    There is a form for each axis. With the pattern comes the step, in elements from one to the
    next, if that is strided and known.

    Examples
    --------
    >>> x, y = IndexForm.axis(0), IndexForm.axis(1)
    >>> pattern_of([y, x]), pattern_of([x, y]), pattern_of([x.times(3)]), pattern_of([y])
    (('contiguous', None), ('strided', None), ('strided', 3), ('uniform', None))
    """
    if any(form.is_loaded for form in index):
        return "scattered", None
    along = [form.factors[_X] for form in index]
    if all(step == 0 for step in along):
        return "uniform", None
    if any(step != 0 for step in along[:-1]):
        return "strided", None
    step = along[-1]
    if step is not None and abs(step) == 1:
        return "contiguous", None
    return "strided", None if step is None else abs(step)


def is_crossed(index: Sequence[IndexForm]) -> bool:
    """Return whether neighbours along y, and not along x, access neighbouring elements."""
    return index[-1].factors[_X - 1] in (1, -1) and pattern_of(index)[0] == "strided"


def offsets_of(index: Sequence[IndexForm]) -> tuple[int, int, int]:
    """Return how far from a thread's own element an access is along x, y and z; 0 where unknown.

    Examples
    --------
    >>> x, y = IndexForm.axis(0), IndexForm.axis(1)
    >>> offsets_of([y.plus(IndexForm(constant=-1)), x])
    (0, -1, 0)
    """
    found = [0, 0, 0]
    for form in index:
        axes = [axis for axis in range(3) if form.factors[_X - axis] == 1]
        if len(axes) == 1 and form.constant is not None:
            found[axes[0]] = form.constant
    return found[0], found[1], found[2]
