"""The generator: what its methods draw, and where that goes."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels import parameters
from stdlib_kernels.arrays import finish
from stdlib_kernels.checks import Array, Out, check_array, check_out
from stdlib_kernels.documentation import documented
from stdlib_kernels.functions import library_function
from stdlib_kernels.random.choosing import chosen
from stdlib_kernels.random.draws import Counter, draw_of, drawn, integer_draw

__all__ = ["Generator", "default_rng"]

#: ``None`` for one number, or the shape of an array.
Size: TypeAlias = int | tuple[int, ...] | None


@documented
class Generator(Counter):
    """A source of random numbers: Philox4x32-10 of a key and a counter.

    A number is a function of the key and of its place, counted from the counter at the call. So a
    state gives the same numbers again, however they are computed, and the same bits on every
    target; but ``normal`` and ``exponential`` of float64, which take their logarithms and sines
    from the target, within 8 ulp. Threads may share a generator.

    {parameters: seed and device}
    {see: numpy.random.Generator : has methods of the same names, and other numbers.}

    References
    ----------
    J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1,
    2, 3", SC11 (2011).

    {examples: random import Generator}
    >>> rng = Generator(2024)
    >>> saved = rng.state
    >>> first = rng.random(5).copy_to_host()
    >>> rng.state = saved
    >>> bool((rng.random(5).copy_to_host() == first).all())
    True
    """

    def __repr__(self) -> str:
        return f"Generator(key={self.state.key:#x}, counter={self.state.counter})"

    @library_function
    def random(self, size: Size = None, dtype: Any = None, out: Out = None) -> Any:
        """Draw uniform numbers in [0, 1).

        {parameters: drawn parameters}
            Each a multiple of 2**-53 for float64, of 2**-24 for float32, of 2**-11 for float16 and
            of 2**-8 for bfloat16, all equally likely.
        {drawn}
        """
        return self._of_floats("unit", size, dtype, out, 0.0, 0.0)

    @library_function
    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        size: Size = None,
        *,
        dtype: Any = None,
        out: Out = None,
    ) -> Any:
        """Draw uniform numbers between two.

        {parameters}
        low, high : float
            The numbers; the second is none of those that are drawn, unless a result is rounded
            to it.
        {drawn parameters}
            ``low + (high - low) * u``, of `u` as `random` draws it of as many bits.
        {drawn}
        """
        distance = parameters.number_of("high", high) - parameters.number_of("low", low)
        return self._of_floats("uniform", size, dtype, out, low, distance, low=low, high=high)

    @library_function
    def normal(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: Size = None,
        *,
        dtype: Any = None,
        out: Out = None,
    ) -> Any:
        """Draw normal numbers.

        {parameters}
        loc : float
            Their mean.
        scale : float
            Their standard deviation, which is not negative.
        {drawn parameters}
            By Box and Muller's transform; up to 6.66 standard deviations from the mean for float32.
        {drawn}
        """
        return self._of_floats("normal", size, dtype, out, loc, scale, loc=loc, scale=scale)

    @library_function
    def exponential(
        self, scale: float = 1.0, size: Size = None, *, dtype: Any = None, out: Out = None
    ) -> Any:
        """Draw exponential numbers.

        {parameters}
        scale : float
            Their mean, which is not negative.
        {drawn parameters}
            By inversion; up to 22.2 means for float32.
        {drawn}
        """
        return self._of_floats("exponential", size, dtype, out, 0.0, scale, scale=scale)

    @library_function
    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
        *,
        out: Out = None,
    ) -> Any:
        """Draw integers of an interval, each as likely as any other.

        Numbers that would favour some are rejected, and drawn of a counter of their own.

        {parameters}
        low, high : int
            The interval, without `high`; from 0 to `low`, without it, where `high` is left out.
        {size}
        dtype : dtype
            Of integers, which holds the interval.
        endpoint : bool
            Whether `high` is in the interval.
        {drawn out}
            Of 2**32 values one for each of the four words of a counter, so that
            ``integers(2**32, dtype=np.uint32)`` are the words themselves.
        {drawn}

        References
        ----------
        D. Lemire, "Fast random integer generation in an interval", ACM Transactions on Modeling and
        Computer Simulation 29 (2019), section 4.

        {examples: random import default_rng}
        >>> dice = default_rng(1).integers(1, 6, size=1000, endpoint=True).copy_to_host()
        >>> int(dice.min()), int(dice.max())
        (1, 6)
        """
        kind = parameters.dtype_of(dtype, np.int64, kinds="iu")
        first = 0 if high is None else parameters.integer_of("low", low)
        is_open = not read_flag("endpoint", endpoint)
        last = parameters.integer_of(*(("low", low) if high is None else ("high", high))) - is_open
        info = np.iinfo(kind)
        if not info.min <= first <= last <= info.max:
            raise ArgumentValueError(
                f"integers: low is {first}, and high {last + is_open}",
                value=(low, high),
                limit=f"There is an integer between; {kind} has {info.min} to {info.max}",
                remedy="Give a larger high, say endpoint=True, or a wider dtype",
            )
        draw, numbers = integer_draw(first, last - first + 1)
        return drawn(self, draw, size, kind, out, *numbers)

    @library_function
    def choice(
        self,
        a: int | Array,
        size: Size = None,
        replace: bool = True,
        p: Array | None = None,
        axis: int = 0,
    ) -> Any:
        """Draw elements of an array, each anew.

        {parameters}
        a : int or array
            What is drawn of, along `axis`; of an int the numbers below it.
        {size}
        replace : bool
            Whether an element may be drawn again.
        p : array of shape (n,), optional
            How likely each element is, of float32 or float64 and of `a`'s kind. They are not
            negative; what they sum to counts as 1. All are equally likely by default.
        {along}
        {returns: array, or NumPy scalar}
            Of `a`'s kind, dtype and shape, but that `size` takes the place of `axis`; int64 where
            `a` is an int, of `p`'s kind or, without one, a device array on the generator's
            device.
        {drawn raises}
        {examples: random import default_rng}
        >>> default_rng(1).choice(np.array([2, 3, 5]), 4, p=np.array([0.0, 1.0, 0.0])).tolist()
        [3, 3, 3, 3]
        """
        if p is not None and not read_flag("replace", replace):
            raise ArgumentValueError(
                "choice: p is given, and replace is False",
                value=replace,
                limit="Elements of different weights are drawn with replacement",
                remedy="Leave one of the two away",
            )
        return chosen(self, a, parameters.shape_of("size", size), p, axis, replace=replace)

    @library_function
    def permutation(self, x: int | Array, axis: int = 0) -> Any:
        """Put the elements of an array along an axis in random order, by sorting random keys.

        {parameters}
        x : int or array
            Of an int the numbers below it.
        {along}
        {returns: array}
            Of `x`'s kind, dtype and shape; of an int an int64 device array.
        {drawn raises}
        {examples: random import default_rng}
        >>> sorted(default_rng(1).permutation(np.array([2, 3, 5])).tolist())
        [2, 3, 5]
        """
        return chosen(self, x, None, None, axis, replace=False)

    @library_function
    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put the elements of an array along an axis in random order, in the array itself.

        {parameters}
        x : array
            What is put in order; it is changed.
        {along}
        {drawn raises}
        """
        check_array("x", x, halves=True)
        check_out(x, like=x, shape=tuple(x.shape), dtype=x.dtype)
        finish(self.permutation(x, axis), like=x, out=x)

    def _of_floats(
        self, name: str, size: Size, dtype: Any, out: Out, a: float, b: float, **given: float
    ) -> Any:
        """Draw floats of a distribution with two parameters; `given` are the caller's."""
        if out is not None:
            check_array("out", out, kinds="f", halves=True)
        found = parameters.dtype_of(dtype, np.float64 if out is None else out.dtype, kinds="f")
        for each, value in given.items():
            parameters.finite_of(each, value, found, 0 if each == "scale" else -math.inf)
        number = parameters.computing_dtype(found)
        draw = draw_of(name, found, is_wide=number == np.float64)
        numbers = number.type(a), parameters.finite_of("the distance from low to high", b, number)
        return drawn(self, draw, size, found, out, *numbers)


@documented
def default_rng(seed: int | Generator | None = None, *, device: Any = None) -> Generator:
    """Make a generator of a seed, or return the generator that is given.

    {parameters: seed and device:  or Generator}
    {returns: Generator}
    {see: numpy.random.default_rng}
    """
    return seed if isinstance(seed, Generator) else Generator(seed, device=device)
