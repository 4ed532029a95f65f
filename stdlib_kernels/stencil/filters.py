"""Filters with weights along single axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import allocate, finish, is_on_host, source_and_result, to_host
from stdlib_kernels.checks import Array, Ints, Out, check_array, checked_axis
from stdlib_kernels.copying import copy_array
from stdlib_kernels.functions import library_function, repeated_function
from stdlib_kernels.parameters import integer_of, number_of, wrong_value
from stdlib_kernels.stencil.borders import MAX_SIZE, Border, border_of, per_axis
from stdlib_kernels.stencil.boxes import box_of, weigh
from stdlib_kernels.stencil.lines import AxisWeights, axis_weights, filter_line
from stdlib_kernels.stencil.planes import filter_plane, fits_plane

__all__ = [
    "convolve1d",
    "correlate1d",
    "filter_lines",
    "gaussian_filter",
    "gaussian_weights",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
]

#: The largest number of elements on each side of a Gaussian's centre.
_MAX_RADIUS = 1 << 20


def filter_lines(
    x: Array,
    steps: Sequence[AxisWeights],
    border: Border | list[Border],
    out: Out,
    dtype: np.dtype[Any] | None = None,
) -> Any:
    """Filter along one axis after the other, as in SciPy, with results in the dtype of `out`.

    There is one border, or one for each axis.
    """
    borders = border if isinstance(border, list) else [border] * x.ndim
    source, result = source_and_result(x, out, tuple(x.shape), x.dtype if dtype is None else dtype)
    passes = _passes(steps, source, result, borders)
    for number, taken in enumerate(passes if x.size else []):
        is_last = number == len(passes) - 1
        into = result if is_last else allocate(source, tuple(x.shape), result.dtype)
        (filter_line if len(taken) == 1 else filter_plane)(
            source, into, borders[taken[0].axis], *taken
        )
        source = into
    if not steps and x.size:
        copy_array(source, result)
    return finish(result, like=x, out=out)


def _passes(
    steps: Sequence[AxisWeights], source: Array, result: Array, borders: list[Border]
) -> list[tuple[AxisWeights, ...]]:
    """Return the steps; if one kernel does the last two axes, they are one step."""
    passes: list[tuple[AxisWeights, ...]] = [(step,) for step in steps]
    axes = [step.axis for step in steps[-2:]]
    if (
        axes == [source.ndim - 2, source.ndim - 1]
        and not is_on_host(source)
        and source.dtype == result.dtype
        and fits_plane(result.dtype, *(len(step.weights) for step in steps[-2:]))
        and all(step.divisor == 1 for step in steps[-2:])
        and borders[-2] == borders[-1]
    ):
        return [*passes[:-2], (steps[-2], steps[-1])]
    return passes


def _along(name: str, said: str, *, is_reversed: bool) -> Any:
    """Return the correlation along an axis, or the convolution, which reverses the weights."""

    def along(
        x: Array,
        weights: Any,
        axis: int = -1,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: int = 0,
        *,
        out: Out = None,
    ) -> Any:
        at, found = checked_axis(x, axis, kinds="iuf"), to_host(weights)
        check_array("weights", found, kinds="biuf", ndim=1)
        if not found.size:
            raise wrong_value("weights", found.tolist(), "There must be at least one weight")
        by, found = integer_of("origin", origin), found.astype(np.float64)
        if is_reversed:
            by, found = -by - (len(found) % 2 == 0), found[::-1]
        return filter_lines(x, [axis_weights(found, at, by)], border_of(mode, cval), out)

    along.__name__ = along.__qualname__ = name
    along.__doc__ = f"""{said}.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
    weights : array of shape (n,)
        The weights, which are read on the host.
    axis : int
        The axis of the neighbours.
    mode : str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    origin : int
        Shift of the centre of the weights.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given. Negative sums of unsigned
        integers wrap around, which float64 cannot hold for uint64: convert these to int64 first.

    See Also
    --------
    scipy.ndimage.{name}
    """
    return library_function(along)


_SUM = "Compute the sum of each element's neighbours along an axis, multiplied by weights"
correlate1d = _along("correlate1d", _SUM, is_reversed=False)
_REVERSED = "Correlate along an axis with the weights in reversed order"
convolve1d = _along("convolve1d", _REVERSED, is_reversed=True)


@repeated_function
def gaussian_filter(
    x: Array,
    sigma: float | tuple[float, ...],
    *,
    mode: str | tuple[str, ...] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    out: Out = None,
) -> Any:
    """Smooth with samples of a Gaussian along each axis.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
    sigma : float or tuple of float
        Standard deviation in elements, for all axes or for each. With 0, an axis is not filtered.
    mode : str or tuple of str
        Values beyond the borders of the array:

        - ``"reflect"``: d c b a | a b c d | d c b a
        - ``"mirror"``: d c b | a b c d | c b a
        - ``"nearest"``: a a a | a b c d | d d d
        - ``"wrap"``: b c d | a b c d | a b c
        - ``"constant"``: `cval`

        ``"grid-mirror"``, ``"grid-wrap"`` and ``"grid-constant"`` are allowed, too. A tuple has a
        mode for each axis.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    truncate : float
        The filter ends this many standard deviations from its centre.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    See Also
    --------
    scipy.ndimage.gaussian_filter

    References
    ----------
    R. C. Gonzalez and R. E. Woods, "Digital Image Processing", 4th edition, 2018, section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.stencil import gaussian_filter
    >>> round(float(gaussian_filter(np.array([0.0, 0, 1, 0, 0]), 0.5)[2]), 4)
    0.7866
    """
    check_array("x", x, kinds="iuf", halves=True)
    reach = number_of("truncate", truncate)
    sigmas = per_axis("sigma", sigma, x.ndim, number_of)
    steps = [
        axis_weights(gaussian_weights(one, reach), k) for k, one in enumerate(sigmas) if one != 0
    ]
    return filter_lines(x, steps, _borders_of(mode, cval, x), out)


@repeated_function
def uniform_filter(
    x: Array,
    size: Ints = 3,
    mode: str | tuple[str, ...] = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    out: Out = None,
) -> Any:
    """Compute the mean of the box around each element.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
    size : int or tuple of int
        Extent of the box along all axes, or along each.
    mode : str or tuple of str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them. A tuple has
        a mode for each axis.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    origin : int or tuple of int
        Shift of the centre of the box, for all axes or for each.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    See Also
    --------
    scipy.ndimage.uniform_filter
    """
    check_array("x", x, kinds="iuf", halves=True)
    sizes = per_axis("size", size, x.ndim, integer_of, 1, MAX_SIZE)
    moved = per_axis("origin", origin, x.ndim, integer_of)
    steps = [axis_weights(np.ones(n), k, moved[k], n) for k, n in enumerate(sizes) if n > 1]
    return filter_lines(x, steps, _borders_of(mode, cval, x), out)


def _derivative(name: str, across: tuple[float, ...], said: str) -> Any:
    """Return the filter that derives along an axis, with weights along the others."""

    def derived(
        x: Array,
        axis: int = -1,
        mode: str | tuple[str, ...] = "reflect",
        cval: float = 0.0,
        *,
        out: Out = None,
    ) -> Any:
        borders, along = _borders_of(mode, cval, x), checked_axis(x, axis, kinds="iuf")
        others = [axis_weights(np.array(across), a) for a in range(x.ndim) if a != along]
        return filter_lines(x, [axis_weights(np.array([-1.0, 0, 1]), along), *others], borders, out)

    derived.__name__ = derived.__qualname__ = name
    derived.__doc__ = f"""Compute the derivative along an axis, smoothed along others by {said}.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
    axis : int
        The axis of the derivative.
    mode : str or tuple of str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them. A tuple has
        a mode for each axis.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    See Also
    --------
    scipy.ndimage.{name}
    """
    return repeated_function(derived)


sobel = _derivative("sobel", (1.0, 2.0, 1.0), "1, 2, 1")
prewitt = _derivative("prewitt", (1.0, 1.0, 1.0), "1, 1, 1")


@repeated_function
def laplace(x: Array, mode: str = "reflect", cval: float = 0.0, *, out: Out = None) -> Any:
    """Add up the second differences along each axis.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
        One to three axes.
    mode : str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    See Also
    --------
    scipy.ndimage.laplace
    """
    check_array("x", x, kinds="iuf", halves=True)
    distances = np.abs(np.indices((3,) * x.ndim) - 1).sum(axis=0)
    star = np.where(distances == 1, 1.0, 0.0)
    star[(1,) * x.ndim] = -2.0 * x.ndim
    return weigh(x, box_of(star, x), mode, cval, (0,) * x.ndim, out)


def _borders_of(mode: Any, cval: Any, x: Any) -> list[Border]:
    """Return the border of each axis, from one mode or one for each."""
    check_array("x", x, kinds="iuf", halves=True)
    return list(per_axis("mode", mode, x.ndim, lambda name, each: border_of(each, cval)))


def gaussian_weights(sigma: float, truncate: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the samples of a Gaussian, which add up to 1."""
    are_positive = 0 < sigma < np.inf and 0 < truncate < np.inf
    if not are_positive or truncate * sigma > _MAX_RADIUS:
        raise ArgumentValueError(
            f"sigma is {sigma}, and truncate {truncate}",
            value=(sigma, truncate),
            limit=f"Both must be positive, and their product at most {_MAX_RADIUS} elements",
        )
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())
