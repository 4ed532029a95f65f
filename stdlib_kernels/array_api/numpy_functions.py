"""NumPy's functions for device arrays: those of the library, and an error for all others.

References
----------
NumPy, NEP 13, "A mechanism for overriding ufuncs", and NEP 18, "A dispatch mechanism for NumPy's
high level array functions".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels import array_api as xp
from stdlib_kernels import compact, elementwise, histogram, linalg, movement, reduce, scan, sort
from stdlib_kernels.array_api.computing import mixed
from stdlib_kernels.array_api.making import RULES

__all__ = ["call_function", "call_ufunc"]


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call the library's function for a NumPy ufunc; ``DeviceArray.__array_ufunc__``."""
    function = _UFUNCS.get(ufunc)
    name = f"numpy.{ufunc.__name__}"
    if function is None or method != "__call__":
        raise _unavailable(name if method == "__call__" else f"{name}.{method}")
    outs = named.pop("out", (None,))
    # NumPy converts a scalar in a call with an array to an array of rank 0.
    inputs = tuple(e[()] if isinstance(e, np.ndarray) and not e.ndim else e for e in inputs)
    for each in (*inputs, *outs):
        if isinstance(each, np.ndarray):
            raise mixed(*[e for e in (*inputs, *outs) if e is not None][:2])
    if named:
        raise _unavailable(name, named)
    return function(*inputs) if outs[0] is None else function(*inputs, out=outs[0])


def call_function(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call the library's function for a NumPy function; ``DeviceArray.__array_function__``."""
    row = _FUNCTIONS.get(function)
    name = f"{function.__module__}.{function.__name__}"
    if row is None:
        raise _unavailable(name)
    ours, count = row
    known = _parameters(function)
    if known is None:
        given, rest = args, dict(named)
    else:
        rest = {**dict(zip(known, args, strict=False)), **named}
        leading = [each for each in known[:count] if each in rest]
        given = tuple(rest.pop(each) for each in leading)
    rest = {key: value for key, value in rest.items() if value is not np._NoValue}
    unknown = {key: value for key, value in rest.items() if key not in _parameters(ours, True)}
    if unknown:
        raise _unavailable(name, unknown)
    return ours(*given, **rest)


@cache
def _parameters(function: Any, by_name: bool = False) -> Any:
    """Return the names of a function's parameters in order, if its signature is known."""
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    if any(each.kind is each.VAR_POSITIONAL for each in found) and not by_name:
        return None
    return [each.name for each in found if not (by_name and each.kind is each.POSITIONAL_ONLY)]


def _unavailable(name: str, named: dict[str, Any] | None = None) -> ArgumentTypeError:
    text = ", ".join(f"{key}={safe_repr(value)}" for key, value in (named or {}).items())
    return ArgumentTypeError(
        f"{name}({text or '…'}) is not available for device arrays",
        value=name,
        limit="NumPy's functions of device arrays are those of stdlib_kernels, which never copies "
        "to the host by itself",
        remedy=f"Compute on the host: {name}(array.copy_to_host(){', ' + text if text else ''})",
    )


_UFUNCS: dict[Any, Callable[..., Any]] = {
    rule.ufunc: getattr(xp, name) for name, rule in RULES.items() if not rule.is_component
}
_UFUNCS |= {np.matmul: xp.matmul, np.vecdot: xp.vecdot}


def _ravel(x: Any) -> Any:
    return xp.reshape(x, (-1,))


def _transpose(x: Any, axes: Any = None) -> Any:
    return x.transpose() if axes is None else x.transpose(tuple(axes))


def _swapaxes(x: Any, axis1: Any, axis2: Any) -> Any:
    return xp.moveaxis(x, (axis1, axis2), (axis2, axis1))


def _squeeze(x: Any, axis: Any = None) -> Any:
    return xp.squeeze(
        x, tuple(n for n, m in enumerate(x.shape) if m == 1) if axis is None else axis
    )


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, out: Any = None) -> Any:
    return elementwise.clip(x, a_min, a_max, out=out)


def _outer(x: Any, y: Any) -> Any:
    return xp.linalg.outer(_ravel(x), _ravel(y))


#: The library's function, and how many of NumPy's parameters it accepts by position. It accepts the
#: others by name; the names are equal.
_FUNCTIONS: dict[Any, tuple[Callable[..., Any], int]] = {
    **{
        getattr(np, name): (getattr(reduce, name), 1)
        for name in ("sum", "prod", "mean", "var", "std", "min", "max", "any", "all")
    },
    **{np.amin: (reduce.min, 1), np.amax: (reduce.max, 1)},
    **{
        getattr(np, name): (getattr(reduce, name), 1)
        for name in ("argmin", "argmax", "count_nonzero")
    },
    np.cumsum: (scan.cumsum, 1),
    np.cumprod: (scan.cumprod, 1),
    np.histogram: (histogram.histogram, 1),
    np.histogram2d: (histogram.histogram2d, 2),
    np.bincount: (histogram.bincount, 1),
    np.compress: (compact.compress, 2),
    np.nonzero: (compact.nonzero, 1),
    np.flatnonzero: (compact.flatnonzero, 1),
    np.unique: (compact.unique, 1),
    np.sort: (sort.sort, 1),
    np.argsort: (sort.argsort, 1),
    np.searchsorted: (xp.searchsorted, 2),
    np.take: (movement.take, 2),
    np.take_along_axis: (movement.take_along_axis, 2),
    np.flip: (movement.flip, 1),
    np.roll: (movement.roll, 2),
    np.tile: (movement.tile, 2),
    np.repeat: (xp.repeat, 2),
    np.pad: (movement.pad, 2),
    np.concatenate: (movement.concatenate, 1),
    np.stack: (movement.stack, 1),
    np.where: (elementwise.where, 3),
    np.clip: (_clip, 1),
    np.dot: (linalg.dot, 2),
    np.transpose: (_transpose, 1),
    np.permute_dims: (_transpose, 1),
    np.swapaxes: (_swapaxes, 3),
    np.matrix_transpose: (xp.matrix_transpose, 1),
    np.ravel: (_ravel, 1),
    np.reshape: (xp.reshape, 2),
    np.squeeze: (_squeeze, 1),
    np.expand_dims: (xp.expand_dims, 2),
    np.moveaxis: (xp.moveaxis, 3),
    np.broadcast_to: (xp.broadcast_to, 2),
    np.broadcast_arrays: (xp.broadcast_arrays, 0),
    np.diff: (xp.diff, 1),
    np.tril: (lambda x, k=0: xp.tril(x, k=k), 2),
    np.triu: (lambda x, k=0: xp.triu(x, k=k), 2),
    np.meshgrid: (xp.meshgrid, 0),
    np.tensordot: (xp.tensordot, 2),
    np.outer: (_outer, 2),
    np.linalg.matrix_norm: (xp.linalg.matrix_norm, 1),
    np.linalg.vector_norm: (xp.linalg.vector_norm, 1),
    **{
        getattr(np.linalg, name): (getattr(xp.linalg, name), 2)
        for name in ("cross", "matmul", "outer", "tensordot", "vecdot")
    },
    **{
        getattr(np.linalg, name): (getattr(xp.linalg, name), 1)
        for name in ("diagonal", "matrix_transpose", "trace")
    },
    np.zeros_like: (xp.zeros_like, 1),
    np.ones_like: (xp.ones_like, 1),
    np.empty_like: (xp.empty_like, 1),
    np.full_like: (xp.full_like, 2),
    np.astype: (xp.astype, 2),
    np.copy: (lambda x, order="K": x.copy(order), 2),
    np.real: (xp.real, 1),
    np.imag: (xp.imag, 1),
    np.round: (xp.round, 1),
    np.shape: (lambda x: x.shape, 1),
    np.ndim: (lambda x: x.ndim, 1),
    np.size: (lambda x: x.size, 1),
    np.result_type: (xp.result_type, 0),
    np.can_cast: (xp.can_cast, 2),
    **{
        getattr(np, name): (getattr(xp, name), 1)
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack")
        if hasattr(np, name)
    },
}
