"""Calls of functions of elements: broadcasting, dtypes, axes, and the kernel.

A kernel has a fixed number of parameters, so its text is written for the operands. It depends on
the operands that are arrays, their axes of extent 1, and the conversions.
"""

from __future__ import annotations

import linecache
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.repeating.recorded import may_overlap
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.arrays import allocate, finish, is_contiguous, on_device
from stdlib_kernels.checks import Array, check_array, check_out, check_same_kind
from stdlib_kernels.parameters import (
    NARROW,
    NUMERIC,
    common_dtype,
    dtype_of,
    is_number,
    real_dtype,
    wrong_value,
)

__all__ = ["Number", "broadcast_shape", "checked_operands", "map_call", "result_dtypes", "widened"]

#: Numbers in a call with arrays.
Number: TypeAlias = int | float | complex | np.number[Any] | np.bool_

#: Axes of a launch.
_MAX_RANK = 3
_INDICES = ("i", "j", "k")


def checked_operands(named: Iterable[tuple[str, Any]]) -> Array:
    """Refuse what is no array or number, and return the first array."""
    like: Array | None = None
    first = ""
    for name, value in named:
        if is_number(value):
            continue
        check_array(name, value, halves=True)
        if like is None:
            like, first = value, name
        check_same_kind(name, value, first, like)
    if like is None:
        raise ArgumentTypeError(
            f"there is no array among {', '.join(name for name, _ in named) or 'no arguments'}",
            limit="At least one argument is an array",
            remedy="Make one with np.asarray(…)",
        )
    return like


def broadcast_shape(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape to which arrays are broadcast."""
    shapes = [tuple(each.shape) for each in values if _is_array(each)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise ArgumentValueError(
            f"arrays of shapes {', '.join(map(str, shapes))} cannot be broadcast together",
            value=shapes,
            limit="Extents along an axis, counted from the last one, are equal or 1",
            remedy="Insert axes, as in x[:, None]",
        ) from error


def result_dtypes(function: Any, values: Sequence[Any], chosen: Any) -> tuple[np.dtype[Any], ...]:
    """Return the dtype of each result of a function.

    In a kernel int32 + int32 is int64, and float32 * 0.5 is float64. As in NumPy, a result is no
    wider than NumPy's dtype for the operands, if both are integers, or both are floats.
    `chosen` is the caller's dtype, or one for each result.
    """
    operands = tuple(
        _Operand((False,) if _is_array(v) else None, widened(v) is not None) for v in values
    )
    given = _probed(function, operands, ", ".join(map(_kind, values)))
    names = [each for each in re.split(r"[(), ]+", given) if each]
    found = [np.dtype(getattr(kd, n, n)) for n in names if n in NUMERIC or n in NARROW]
    is_told = len(found) == len(names) > 0
    if not is_told and (chosen is None or given == "none"):
        raise ArgumentTypeError(
            f"the function returns {given}",
            limit="It must return a number, or a tuple of numbers",
            remedy="Pass dtype=…, if the types do not show it",
        )
    if chosen is not None:
        wanted = chosen if isinstance(chosen, tuple) else (chosen,)
        defaults = found if len(found) == len(wanted) else (None,) * len(wanted)
        dtypes = tuple(map(dtype_of, wanted, defaults))
        if is_told and len(dtypes) != len(found):
            limit = f"The function has {len(found)} results: {given}"
            raise wrong_value("dtype", chosen, limit, "Give one dtype for each")
        return dtypes
    common = common_dtype(*values)
    return tuple(_narrowed(each, common) for each in found)


def _narrowed(found: np.dtype[Any], common: np.dtype[Any]) -> np.dtype[Any]:
    """Return NumPy's dtype for the operands where a result is of its kind and wider, or signed."""
    if common.kind == "c" and found.kind == "f":
        common = real_dtype(common)
    is_float = common.kind == "f" or common.name in NARROW
    alike = found.kind == common.kind or (is_float and found.kind == "f")
    alike = alike or (found.kind in "iu" and common.kind in "iu")
    is_wider = found.itemsize > common.itemsize
    # uint64 with an int is int64 in a kernel, with the same bits.
    is_signed = common == np.uint64 and found == np.int64
    return common if alike and (is_wider or is_signed) else found


@lru_cache(256)
def _probed(function: Any, operands: tuple[_Operand, ...], signature: str) -> str:
    """Return the types of a function's results, as a kernel's text has them."""
    constants = {f"to{n}": np.float32 for n, each in enumerate(operands) if each.is_converted}
    text = _probing_kernel(operands).member(f=function, **constants).typed_source(signature)
    return next(iter(re.findall(r"^ +#   r: (.*)$", text, re.MULTILINE)), "nothing")


def map_call(
    function: Callable[..., Any],
    values: Sequence[Any],
    dtypes: Sequence[np.dtype[Any]],
    outs: Sequence[Array | None],
    like: Array,
    *,
    convert: Sequence[Any] | None = None,
    exact: bool = False,
) -> list[Any]:
    """Call a function for each element, and return the results as `finish` does.

    `convert` has for each operand what it is converted to, or ``None``; by default floats of 16
    bits become float32. `exact` says that results have the dtypes already.
    """
    shape = broadcast_shape(values)
    for out, dtype in zip(outs, dtypes, strict=True):
        check_out(out, like=like, shape=shape, dtype=dtype)
    to = list(map(widened, values) if convert is None else convert)
    taken = [on_device(each) if _is_array(each) else each for each in values]
    arrays = [each for each in taken if _is_array(each)]
    results = [
        out if out is not None and _is_usable(out, arrays, shape) else allocate(arrays[0], shape, d)
        for out, d in zip(outs, dtypes, strict=True)
    ]
    casts = [None if exact else each.type for each in dtypes]
    if results[0].size:
        _launch(function, taken, to, results, casts)
    return [finish(r, like=like, out=o) for r, o in zip(results, outs, strict=True)]


def _launch(
    function: Any, values: list[Any], to: list[Any], results: list[Array], casts: list[Any]
) -> None:
    shape = tuple(results[0].shape)
    arrays = [each for each in (*values, *results) if _is_array(each)]
    if all(tuple(each.shape) == shape and is_contiguous(each) for each in arrays):
        values = [each.reshape((-1,)) if _is_array(each) else each for each in values]
        results = [each.reshape((-1,)) for each in results]
    elif len(shape) > _MAX_RANK:
        axis = shape.index(min(shape))
        before: tuple[Any, ...] = (slice(None),) * axis
        values = [_of_rank(each, len(shape)) for each in values]
        for i in range(shape[axis]):
            slices = [
                e[(*before, min(i, e.shape[axis] - 1))] if _is_array(e) else e for e in values
            ]
            _launch(function, slices, to, [each[(*before, i)] for each in results], casts)
        return
    rank = max(1, results[0].ndim)
    extent = tuple(results[0].shape) or (1,)
    values = [_of_rank(each, rank) for each in values]
    results = [each.reshape((1,)) if each.ndim == 0 else each for each in results]
    operands = tuple(
        _Operand(
            tuple(n != m for n, m in zip(v.shape, extent, strict=True)) if _is_array(v) else None,
            t is not None,
        )
        for v, t in zip(values, to, strict=True)
    )
    constants = {f"to{n}": t for n, t in enumerate(to) if t is not None}
    constants |= {f"as{n}": t for n, t in enumerate(casts) if t is not None}
    kernel = _mapping_kernel(operands, tuple(t is not None for t in casts), rank)
    launch_over(kernel, extent, *values, *results, f=function, **constants)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | kd.DeviceArray)


def widened(value: Any) -> Any:
    """Return what an operand is converted to: float32 for floats of 16 bits, else ``None``."""
    return np.float32 if hasattr(value, "dtype") and value.dtype.name in NARROW else None


def _kind(value: Any) -> str:
    """Return an operand as a signature has it."""
    if _is_array(value):
        return f"{value.dtype.name}[::1]"
    if isinstance(value, np.generic):
        return value.dtype.name
    return {bool: "bool", int: "int64", float: "float64"}.get(type(value), "complex128")


def _is_usable(out: Array, arrays: list[Array], shape: tuple[int, ...]) -> bool:
    """Return whether kernels can write to `out` at once.

    An input that is `out` itself, and not broadcast, is read before its element is written.
    """
    if isinstance(out, np.ndarray) != isinstance(arrays[0], np.ndarray):
        return False
    others = [each for each in arrays if each is not out or tuple(each.shape) != shape]
    return not any(may_overlap(out, each) for each in others)


def _of_rank(value: Any, rank: int) -> Any:
    missing = rank - value.ndim if _is_array(value) else 0
    return value[(None,) * missing] if missing else value


class _Operand(NamedTuple):
    """Describe the properties of an argument that a kernel depends on."""

    #: Whether an array has one element for all, for each axis; ``None`` for a number.
    repeats: tuple[bool, ...] | None
    #: Whether the operand is converted to a constant dtype of the kernel before the function.
    is_converted: bool

    def text(self, number: int) -> str:
        """Return the operand's value as Python text."""
        name = f"a{number}"
        if self.repeats is not None:
            places = ("0" if r else _INDICES[at] for at, r in enumerate(self.repeats))
            name += f"[{', '.join(places)}]"
        return f"to{number}({name})" if self.is_converted else name


@cache
def _mapping_kernel(operands: tuple[_Operand, ...], outs: tuple[bool, ...], rank: int) -> Any:
    """Write ``(*operands, *outs, f, …)``, which stores ``f(*operands)`` in arrays of one shape.

    `outs` says for each result whether it is converted. The constants are `f`, and by the numbers
    of what is converted ``to0``, ``to1``, … and ``as0``, ``as1``, …
    """
    indices = ", ".join(_INDICES[:rank])
    results = [f"r{n}" for n in range(len(outs))]
    lines = [f"    {indices} = kd.grid({rank})", f"    {', '.join(results)} = {_call(operands)}"]
    for n, is_converted in enumerate(outs):
        value = f"as{n}(r{n})" if is_converted else f"r{n}"
        lines.append(f"    o{n}[{indices}] = {value}")
    constants = [f"as{n}" for n, is_converted in enumerate(outs) if is_converted]
    return _made("mapped", operands, [f"o{n}" for n in range(len(outs))], constants, lines)


@cache
def _probing_kernel(operands: tuple[_Operand, ...]) -> Any:
    """Write ``(*operands, f, …)``, which shows by its types what the function gives."""
    rank = max([1, *(len(o.repeats) for o in operands if o.repeats is not None)])
    lines = [f"    {', '.join(_INDICES[:rank])} = kd.grid({rank})", f"    r = {_call(operands)}"]
    return _made("probed", operands, [], [], lines)


def _call(operands: tuple[_Operand, ...]) -> str:
    return f"f({', '.join(each.text(n) for n, each in enumerate(operands))})"


def _made(
    name: str,
    operands: tuple[_Operand, ...],
    outs: list[str],
    constants: list[str],
    body: list[str],
) -> Any:
    """Compile the text of a function, which stays readable where Python looks for source."""
    given = [*(f"a{n}" for n in range(len(operands))), *outs, "*", "f", *constants]
    given += [f"to{n}" for n, each in enumerate(operands) if each.is_converted]
    text = "\n".join([f"def {name}({', '.join(given)}):", *body, ""])
    file = f"<{__name__}: {', '.join(given)}: {zlib.crc32(text.encode())}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"kd": kd, "__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return kd.kernel(wraparound=False)(space[name])
