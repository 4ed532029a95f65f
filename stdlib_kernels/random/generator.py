"""The generator of random numbers, and its distributions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels import parameters
from stdlib_kernels.arrays import finish
from stdlib_kernels.checks import Array, Out, check_array, check_writable
from stdlib_kernels.functions import library_function
from stdlib_kernels.random.choosing import chosen
from stdlib_kernels.random.draws import Counter, draw_of, drawn, integer_draw

__all__ = ["Generator", "default_rng"]

#: ``None`` for one number, or the shape of an array.
Size: TypeAlias = int | tuple[int, ...] | None


class Generator(Counter):
    """A generator of random numbers: Philox4x32-10 with a key and a counter.

    A number is a function of the key, the counter at the call, and its index in the result. So the
    same state gives the same numbers, with the same bits on every target. The exceptions are
    ``normal`` and ``exponential`` of float64: they use logarithms and sines of the target, and
    agree within 8 ulp. Threads may share a generator.

    Parameters
    ----------
    seed : int, optional
        The key, with 64 bits. Other seeds give independent numbers. The default is a random seed.
    device : device, optional
        Device of the results; by default the current one at each call.

    See Also
    --------
    numpy.random.Generator : methods with the same names, and other numbers.

    References
    ----------
    J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1,
    2, 3", SC11 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.random import Generator
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

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        dtype : dtype, optional
            Dtype of the numbers: float64 (by default), float32, float16 or bfloat16. The last two
            are computed as float32 and rounded.
        out : array, optional
            Array for the numbers, with their shape and dtype, of any kind and layout.

        Returns
        -------
        device array, or NumPy scalar
            Multiples of 2**-53 for float64, 2**-24 for float32, 2**-11 for float16 and 2**-8 for
            bfloat16, with equal probabilities.
            A device array on the generator's device, or without a `size` a NumPy scalar.
            `out` if it is given.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution, or `out` does not fit.
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
        """Draw uniform numbers in an interval.

        Parameters
        ----------
        low, high : float
            The interval, without `high`; a result may be rounded to `high`.
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        dtype : dtype, optional
            Dtype of the numbers: float64 (by default), float32, float16 or bfloat16. The last two
            are computed as float32 and rounded.
        out : array, optional
            Array for the numbers, with their shape and dtype, of any kind and layout.

        Returns
        -------
        device array, or NumPy scalar
            ``low + (high - low) * u``, with `u` from `random` with the same number of bits.
            A device array on the generator's device, or without a `size` a NumPy scalar.
            `out` if it is given.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution, or `out` does not fit.
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

        Parameters
        ----------
        loc : float
            The mean.
        scale : float
            The standard deviation, at least 0.
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        dtype : dtype, optional
            Dtype of the numbers: float64 (by default), float32, float16 or bfloat16. The last two
            are computed as float32 and rounded.
        out : array, optional
            Array for the numbers, with their shape and dtype, of any kind and layout.

        Returns
        -------
        device array, or NumPy scalar
            Computed by the Box–Muller transform; up to 6.66 standard deviations from the mean for
            float32.
            A device array on the generator's device, or without a `size` a NumPy scalar.
            `out` if it is given.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution, or `out` does not fit.
        """
        return self._of_floats("normal", size, dtype, out, loc, scale, loc=loc, scale=scale)

    @library_function
    def exponential(
        self, scale: float = 1.0, size: Size = None, *, dtype: Any = None, out: Out = None
    ) -> Any:
        """Draw exponential numbers.

        Parameters
        ----------
        scale : float
            The mean, at least 0.
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        dtype : dtype, optional
            Dtype of the numbers: float64 (by default), float32, float16 or bfloat16. The last two
            are computed as float32 and rounded.
        out : array, optional
            Array for the numbers, with their shape and dtype, of any kind and layout.

        Returns
        -------
        device array, or NumPy scalar
            Computed by inversion; up to 22.2 means for float32.
            A device array on the generator's device, or without a `size` a NumPy scalar.
            `out` if it is given.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution, or `out` does not fit.
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
        """Draw integers in an interval with equal probabilities.

        Numbers that would make some integers more probable are rejected, and drawn again from a
        separate counter.

        Parameters
        ----------
        low, high : int
            The interval, without `high`. Without a second argument, from 0 to `low`, without `low`.
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        dtype : dtype
            A dtype of integers that contains the interval.
        endpoint : bool
            Whether the interval includes `high`.
        out : array, optional
            Array for the numbers, with their shape and dtype, of any kind and layout.

        Returns
        -------
        device array, or NumPy scalar
            For an interval of 2**32 values, the words of the generator:
            ``integers(2**32, dtype=np.uint32)``.
            A device array on the generator's device, or without a `size` a NumPy scalar.
            `out` if it is given.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution, or `out` does not fit.

        References
        ----------
        D. Lemire, "Fast random integer generation in an interval", ACM Transactions on Modeling and
        Computer Simulation 29 (2019), section 4.

        Examples
        --------
        >>> import numpy as np
        >>> from stdlib_kernels.random import default_rng
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
                limit=f"There must be an integer between; {kind} has {info.min} to {info.max}",
                remedy="Pass a larger high, or endpoint=True"
                if last < first
                else "Pass numbers within these limits, or a wider dtype",
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
        """Draw elements of an array.

        Parameters
        ----------
        a : int or array
            The elements, along `axis`; an int stands for the numbers from 0 to `a` - 1.
        size : int or tuple of int, optional
            The shape of the result; by default one number, or the shape of `out`.
        replace : bool
            Whether an element may be drawn several times.
        p : array of shape (n,), optional
            Weights of the elements, at least 0: float32 or float64, and the same kind as `a`. They
            are divided by their sum. By default all are equal.
        axis : int
            The axis along which the function works.

        Returns
        -------
        array, or NumPy scalar
            Same kind and dtype as `a`, and its shape with `size` instead of `axis`. If `a` is an
            int, int64 of the kind of `p`, or without `p` a device array on the generator's device.
            A list is a NumPy array.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution.

        Examples
        --------
        >>> import numpy as np
        >>> from stdlib_kernels.random import default_rng
        >>> default_rng(1).choice(np.array([2, 3, 5]), 4, p=np.array([0.0, 1.0, 0.0])).tolist()
        [3, 3, 3, 3]
        """
        if p is not None and not read_flag("replace", replace):
            raise ArgumentValueError(
                "choice: p is given, and replace is False",
                value=replace,
                limit="Elements of different weights are drawn with replacement",
                remedy="Omit one of the two",
            )
        return chosen(self, a, parameters.shape_of("size", size), p, axis, replace=replace)

    @library_function
    def permutation(self, x: int | Array, axis: int = 0) -> Any:
        """Return the elements of an array along an axis in random order.

        Parameters
        ----------
        x : int or array
            The elements; an int stands for the numbers from 0 to `x` - 1.
        axis : int
            The axis along which the function works.

        Returns
        -------
        array
            Same kind, dtype and shape as `x`; for an int, an int64 device array.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution.

        Examples
        --------
        >>> import numpy as np
        >>> from stdlib_kernels.random import default_rng
        >>> sorted(default_rng(1).permutation(np.array([2, 3, 5])).tolist())
        [2, 3, 5]
        """
        return chosen(self, x, None, None, axis, replace=False)

    @library_function
    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put the elements of an array along an axis in random order, in place.

        Parameters
        ----------
        x : array
            The array, which is changed. Of a list, `permutation` returns an array.
        axis : int
            The axis along which the function works.

        Raises
        ------
        kerneldsl.errors.ArgumentError
            If a parameter is invalid for the distribution.
        """
        check_array("x", x, halves=True)
        check_writable("x", x)
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


def default_rng(seed: int | Generator | None = None, *, device: Any = None) -> Generator:
    """Make a generator from a seed, or return the given generator.

    Parameters
    ----------
    seed : int or Generator, optional
        The key, with 64 bits. Other seeds give independent numbers. The default is a random seed.
    device : device, optional
        Device of the results; by default the current one at each call.

    Returns
    -------
    Generator

    See Also
    --------
    numpy.random.default_rng
    """
    return seed if isinstance(seed, Generator) else Generator(seed, device=device)
