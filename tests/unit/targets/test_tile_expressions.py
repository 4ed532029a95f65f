"""Random expressions of tiles against NumPy: on the CPU, and as the CUDA target spreads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.ptx.helpers import specialize
from tests.support.arrays import poisoned
from tests.support.cases import kind_of
from tests.support.device_threads import simulate_device
from tests.support.extent import examples
from tests.support.source import exec_source

_KERNEL = """
import kerneldsl as kd

@kd.kernel
def expression(x, y, out):
    a = kd.tile.load(x, (0, 0), {shape})
    b = kd.tile.load(y, (0, 0), {shape}, other=3)
    kd.tile.store(out, (0, 0), {text})
"""
#: Numbers are small, and those of float64 whole: every order of additions gives the same.
_DTYPES = ("int32", "int64", "float64")


class _Tile:
    """A tile's operators and methods, by NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        def reduced(axis: int | None = None) -> Any:
            found = getattr(np, name)(self.array, axis=axis, keepdims=axis is not None)
            return found if axis is None else _Tile(found)

        return reduced

    @property
    def T(self) -> _Tile:
        return _Tile(self.array.T)

    def sort(self) -> _Tile:
        return _Tile(np.sort(self.array))

    def astype(self, dtype: Any) -> _Tile:
        return _Tile(self.array.astype(np.dtype(dtype.__name__)))

    def cumsum(self, axis: int, exclusive: bool) -> _Tile:
        found = np.cumsum(self.array, axis=axis)
        if exclusive:
            first = [slice(None)] * 2
            first[axis] = slice(1)
            kept = [slice(None)] * 2
            kept[axis] = slice(-1)
            zero = np.zeros_like(found[tuple(first)])
            found = np.concatenate([zero, found[tuple(kept)]], axis=axis)
        return _Tile(found)


def _operator(name: str) -> Any:
    def combined(self: _Tile, other: Any) -> _Tile:
        right = other.array if isinstance(other, _Tile) else other
        return _Tile(getattr(self.array, name)(right))

    return combined


for _name in ("add", "sub", "mul", "lt", "ge", "ne"):
    setattr(_Tile, f"__{_name}__", _operator(f"__{_name}__"))
_Tile.__neg__ = lambda self: _Tile(-self.array)  # type: ignore[attr-defined]
_Tile.__abs__ = lambda self: _Tile(abs(self.array))  # type: ignore[attr-defined]


@st.composite
def _texts(draw: Any, is_square: bool, depth: int) -> str:
    """Return the text of a tile of the shape of `a` and `b`."""
    if depth == 0:
        return draw(st.sampled_from("ab"))
    one, two = (draw(_texts(is_square, depth - 1)) for _ in range(2))
    axis, exclusive = draw(st.integers(-2, 1)), draw(st.booleans())
    word = draw(st.sampled_from(("sum", "max", "min")))
    sign, compare = draw(st.sampled_from("+-*")), draw(st.sampled_from(("<", ">=", "!=")))
    forms = [
        f"({one} {sign} {two})",
        f"({one} {sign} {two}.{word}(axis={axis}))",
        f"({one} - {two}.{word}())",
        f"({one} {compare} {two}).astype(kd.{draw(st.sampled_from(_DTYPES))})",
        f"{one}.cumsum(axis={axis}, exclusive={exclusive})",
        f"{one}.sort()",
        f"(-{one})",
        f"abs({one})",
        *[f"{one}.T"] * is_square,
    ]
    return draw(st.sampled_from(forms))


@st.composite
def _programs(draw: Any) -> tuple[str, tuple[int, int], int]:
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    is_square = draw(st.booleans())
    shape = (rows, rows) if is_square else (rows, columns)
    text = draw(_texts(is_square, draw(st.integers(1, 3))))
    return text, shape, draw(st.sampled_from((1, 7, 32, 40, 64)))


@settings(max_examples=examples(40, 4), deadline=None)
@given(_programs(), st.sampled_from(_DTYPES), st.sampled_from(_DTYPES), st.integers(0, 2**32))
def test_expressions(
    program: tuple[str, tuple[int, int], int], first: str, second: str, seed: int
) -> None:
    text, shape, block = program
    rng = np.random.default_rng(seed)
    x = rng.integers(-8, 9, shape).astype(first)
    y = rng.integers(-8, 9, (shape[0], max(1, shape[1] - 1))).astype(second)  # an edge is filled
    filled = np.full(shape, 3, second)
    filled[:, : y.shape[1]] = y
    names = {"a": _Tile(x.astype(_wide(first))), "b": _Tile(filled.astype(_wide(second)))}
    expected = eval(text, {"kd": kd}, names).array.astype(np.float64)  # noqa: S307 - made above
    kernel = exec_source(_KERNEL.format(text=text, shape=shape))["expression"]
    args = (x, y, poisoned(shape, np.float64))
    with kd.use("cpu"):
        kernel[1, block](*args)
    np.testing.assert_array_equal(args[2], expected)
    specialization = specialize(kernel, tuple(map(kind_of, args)), block=(block, 1, 1))
    spread = (x, y, poisoned(shape, np.float64))
    simulate_device(specialization, (1,), spread)
    np.testing.assert_array_equal(spread[2], expected)


def _wide(dtype: str) -> str:
    """The dtype of what is computed of a dtype's numbers."""
    return "float64" if dtype == "float64" else "int64"
