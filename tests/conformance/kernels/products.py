"""Products of tiles, tile by tile of their result, with small numbers whose sums are exact."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import element_name
from kerneldsl.language.intrinsics.matrix import ACCUMULATORS
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList
from tests.support.products import grouped_product, rows_of_groups
from tests.support.tile_words import product

_LIST = CaseList("products")
CASES = _LIST.cases


@cache
def _multiplying(shape: tuple[int, int, int], transposed: tuple[bool, bool], dtype: str) -> Any:
    rows, columns, depth = shape
    first, second = transposed

    @kd.kernel
    def multiplying(a, b, c):
        k_end = a.shape[0] if first else a.shape[1]
        for m, n in kd.tiles(c.shape, (rows, columns)):
            acc = kd.tile.zeros((rows, columns), dtype)
            for k in kd.pipelined(range(0, k_end, depth)):
                if first:
                    x = kd.tile.load(a, (k, m), (depth, rows)).T
                else:
                    x = kd.tile.load(a, (m, k), (rows, depth))
                if second:
                    columnwise = kd.tile.load(b, (n, k), (columns, depth))
                    acc = kd.mma(x, columnwise.T, acc)
                else:
                    y = kd.tile.load(b, (k, n), (depth, columns))
                    acc = kd.mma(x, y, acc)
            kd.tile.store(c, (m, n), acc)

    return multiplying


def small_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return numbers whose products have exact sums."""
    least, most = (0, 5) if dtype == "uint8" else (-4, 5)
    if dtype.startswith("float8"):
        return rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], shape).astype(dtype)
    return rng.integers(least, most, shape).astype(dtype)


def _add(
    dtype: str,
    extents: tuple[int, int, int],
    shape: tuple[int, int, int] = (16, 24, 32),
    transposed: tuple[bool, bool] = (False, False),
    block: int = 64,
    grid: tuple[int, ...] = (3,),
) -> None:
    rows, columns, depth = extents
    first, second = transposed

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        a = small_integers(rng, (depth, rows) if first else (rows, depth), dtype)
        b = small_integers(rng, (columns, depth) if second else (depth, columns), dtype)
        return a, b, poisoned((rows, columns), ACCUMULATORS[dtype])

    def expected(a: Any, b: Any, c: Any) -> dict[int, Any]:
        a, b = a.T if first else a, b.T if second else b
        return {2: (a.astype(c.dtype) @ b.astype(c.dtype)).astype(c.dtype)}

    name = "x".join(map(str, extents))
    axes = "".join("t" if each else "n" for each in transposed)
    _LIST.add(
        f"exact.{dtype}.{name}.{axes}.{'x'.join(map(str, shape))}.{block}.{len(grid)}",
        _multiplying(shape, transposed, ACCUMULATORS[dtype]),
        make,
        grid=grid,
        block=(block,),
        expected=expected,
    )


_DTYPES = [dtype for dtype in ACCUMULATORS if dtype in HOST_DTYPES]
for _dtype in _DTYPES:
    for _transposed in ((False, False), (False, True), (True, False), (True, True)):
        _add(_dtype, (33, 50, 70), transposed=_transposed)
for _extent in (1, 7, 8, 63, 64, 65, 127, 129):
    for _dtype in _DTYPES:
        _add(_dtype, (_extent, 9, 40), (16, 16, 32), (False, True))
        _add(_dtype, (9, _extent, 40), (16, 16, 32), (False, True))
        _add(_dtype, (9, 17, _extent), (16, 16, 32), (False, True))
for _turns in (0, 1, 2, 3, 4, 5):
    _add("float16", (20, 20, 32 * _turns), (16, 16, 32), (False, True), block=100)
_add("float32", (40, 40, 20), (8, 8, 4), grid=(2, 2, 2), block=7)


@cache
def _ordered(dtype: str) -> Any:
    @kd.kernel
    def ordered(a, b, c, d):
        x = kd.tile.load(a, (0, 0), (16, 32))
        y = kd.tile.load(b, (0, 0), (32, 16))
        first = kd.mma(x, y, precision="reference")
        kd.tile.store(c, (0, 0), kd.mma(x, y, first, precision="reference"))
        square = kd.mma(y.T, x.T, first.T, precision="reference")
        narrow = square.astype(a.dtype)
        square = kd.mma(narrow, narrow.T, square, precision="reference")
        kd.tile.store(d, (0, 0), square)

    return ordered


def _add_ordered(dtype: str) -> None:
    """Products of any numbers have the bits of sums in order."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        a, b = rng.standard_normal((16, 32)), rng.standard_normal((32, 16))
        wide = ACCUMULATORS[dtype]
        return a.astype(dtype), b.astype(dtype), *(poisoned((16, 16), wide) for _ in range(2))

    def expected(a: Any, b: Any, c: Any, d: Any) -> dict[int, Any]:
        first = product(a, b)
        square = product(b.T, a.T, first.T)
        narrow = square.astype(a.dtype)
        return {2: product(a, b, first), 3: product(narrow, narrow.T, square)}

    _LIST.add(f"ordered.{dtype}", _ordered(dtype), make, block=(64,), expected=expected)


for _dtype in _DTYPES:
    if element_name(np.dtype(_dtype))[0] in "fb" and "8" not in _dtype:
        _add_ordered(_dtype)


@kd.kernel
def _special(a, b, c):
    x, y = kd.tile.load(a, (0, 0), (16, 32)), kd.tile.load(b, (0, 0), (32, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, y))


def _add_special(dtype: str) -> None:
    """NaN and infinities reach the elements that they belong to, and no others; -0 adds nothing."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        a = small_integers(rng, (16, 32), "float32")
        b = np.abs(small_integers(rng, (32, 16), "float32")) + 1
        a[1, 3], a[4, 5], a[6, 7], a[8] = np.nan, np.inf, -np.inf, -0.0
        return a.astype(dtype), b.astype(dtype), poisoned((16, 16), ACCUMULATORS[dtype])

    def expected(a: Any, b: Any, c: Any) -> dict[int, Any]:
        found = np.empty((16, 16), c.dtype)
        for row in range(16):
            found[row] = a[row].astype(c.dtype) @ b.astype(c.dtype)
        found[8] = 0
        return {2: found}

    _LIST.add(f"special.{dtype}", _special, make, block=(64,), expected=expected)


for _dtype in ("float16", "bfloat16", "float32", "float64"):
    if _dtype in _DTYPES:
        _add_special(_dtype)


@kd.kernel
def _mixed(a, b, c, d):
    x, y = kd.tile.load(a, (0, 0), (16, 32)), kd.tile.load(b, (0, 0), (16, 32))
    kd.tile.store(c, (0, 0), kd.mma(x, y.T))
    kd.tile.store(d, (0, 0), kd.mma(y, x.T))


def _add_mixed(one: str, two: str) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        a, b = (small_integers(rng, (16, 32), dtype) for dtype in (one, two))
        return a, b, *(poisoned((16, 16), ACCUMULATORS[one]) for _ in range(2))

    def expected(a: Any, b: Any, c: Any, d: Any) -> dict[int, Any]:
        found = a.astype(c.dtype) @ b.astype(c.dtype).T
        return {2: found, 3: np.ascontiguousarray(found.T)}

    _LIST.add(f"mixed.{one}.{two}", _mixed, make, block=(64,), expected=expected)


_add_mixed("int8", "uint8")
if "float8_e5m2" in _DTYPES:
    _add_mixed("float8_e4m3fn", "float8_e5m2")


@kd.func
def _block_product(a, b, m, n):
    acc = kd.tile.zeros((16, 16), kd.float32)
    for k in kd.pipelined(range(0, a.shape[1], 16), stages=3):
        x = kd.tile.load(a, (m, k), (16, 16))
        acc = kd.mma(x, kd.tile.load(b, (n, k), (16, 16)).T, acc)
    return acc


@kd.func
def _whole_product(a, b, c):
    for place in kd.tiles(c.shape, (16, 16)):
        m, n = place
        kd.tile.store(c, place, _block_product(a, b, m, n))


@kd.kernel
def _by_functions(a, b, c):
    _whole_product(a, b, c)


@kd.kernel
def _through_shared(a, b, c):
    held = kd.shared.array((16, 16), kd.float32)
    for m, n in kd.tiles(c.shape, (16, 16)):
        kd.tile.store(held, (0, 0), _block_product(a, b, m, n))
        kd.syncthreads()
        i = kd.threadIdx.x
        while i < 256:
            row, column = m + i // 16, n + i % 16
            if row < c.shape[0] and column < c.shape[1]:
                c[row, column] = held[i // 16, i % 16]
            i += kd.blockDim.x
        kd.syncthreads()


def _factors(rng: np.random.Generator) -> tuple[Any, ...]:
    a, b = (small_integers(rng, shape, "float16") for shape in ((37, 50), (41, 50)))
    return a, b, poisoned((37, 41), "float32")


for _kernel in (_by_functions, _through_shared):
    _LIST.add(
        f"program.{_kernel.__name__.strip('_')}",
        _kernel,
        _factors,
        grid=(3,),
        block=(64,),
        expected=lambda a, b, c: {2: a.astype(c.dtype) @ b.astype(c.dtype).T},
    )


_GROUPS = (130, 0, 1, 65, 64)


def _groups(rng: np.random.Generator) -> tuple[Any, ...]:
    count, columns, depth = sum(_GROUPS), 72, 136
    a = small_integers(rng, (count, depth), "float16")
    weights = small_integers(rng, (len(_GROUPS), columns, depth), "float16")
    table = rng.permutation(rows_of_groups(_GROUPS, columns, (128, 64)))
    return a, weights, table, poisoned((count, columns), "float32")


def _expected_groups(a: Any, weights: Any, table: Any, c: Any) -> dict[int, Any]:
    parts = zip(np.split(a.astype(c.dtype), np.cumsum(_GROUPS)[:-1]), weights, strict=True)
    return {3: np.concatenate([rows @ each.astype(c.dtype).T for rows, each in parts])}


_LIST.add(
    "groups.float16",
    grouped_product(128, 64, 64),
    _groups,
    grid=(2,),
    block=(256,),
    expected=_expected_groups,
)


def _nibble(word, at):
    return kd.float16(kd.uint32(word >> kd.uint32(at)) & kd.uint32(15))


@kd.kernel
def _of_words(words, b, c):
    """A factor is computed from words, which a loop may copy early."""
    for m, n in kd.tiles(c.shape, (64, 16)):
        acc = kd.tile.zeros((64, 16), kd.float32)
        for k in kd.pipelined(range(0, words.shape[1], 16)):
            w = kd.tile.load(words, (m, k), (64, 16))
            x = kd.tile.load(b, (n, k), (16, 16))
            acc = kd.mma(w.map(_nibble, 0), x.T, acc)
            acc = kd.mma(w.map(_nibble, 28), x.T, acc)
        kd.tile.store(c, (m, n), acc)


def _add_words(inner: int, first: int) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        words = rng.integers(0, 2**32, (101, inner + first), np.uint32)[:, first:]
        return words, small_integers(rng, (41, inner), "float16"), poisoned((101, 41), "float32")

    def expected(words: Any, b: Any, c: Any) -> dict[int, Any]:
        codes = (words & 15).astype(c.dtype) + (words >> 28).astype(c.dtype)
        return {2: codes @ b.astype(c.dtype).T}

    _LIST.add(
        f"words.{inner}.from_{first}",
        _of_words,
        make,
        grid=(3,),
        block=(64,),
        expected=expected,
    )


for _inner, _first in ((48, 0), (44, 4), (50, 0), (35, 1), (3, 0)):
    _add_words(_inner, _first)


@kd.kernel
def _in_a_loop(a, b, c):
    """The tiles of each matrix, in a loop over matrices; warpgroups multiply them."""
    for i in range(a.shape[0]):
        for m, n in kd.tiles(c.shape[1:], (128, 128)):
            acc = kd.tile.zeros((128, 128), kd.float32)
            for k in kd.pipelined(range(0, a.shape[2], 64)):
                x = kd.tile.load(a[i], (m, k), (128, 64))
                y = kd.tile.load(b[i], (n, k), (128, 64))
                acc = kd.mma(x, y.T, acc)
            kd.tile.store(c[i], (m, n), acc)


@kd.kernel
def _by_axis(a, b, c):
    """The same, with an axis of matrices."""
    for i, m, n in kd.tiles(c.shape, (1, 128, 128)):
        acc = kd.tile.zeros((128, 128), kd.float32)
        for k in kd.pipelined(range(0, a.shape[2], 64)):
            x = kd.tile.load(a[i], (m, k), (128, 64))
            y = kd.tile.load(b[i], (n, k), (128, 64))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c[i], (m, n), acc)


def _batches(rng: np.random.Generator) -> tuple[Any, ...]:
    a, b = (small_integers(rng, (3, rows, 136), "float16") for rows in (200, 150))
    return a, b, poisoned((3, 200, 150), "float32")


for _kernel in (_in_a_loop, _by_axis):
    _LIST.add(
        f"batched.{_kernel.__name__.strip('_')}",
        _kernel,
        _batches,
        grid=(4,),
        block=(256,),
        expected=lambda a, b, c: {2: a.astype(c.dtype) @ b.astype(c.dtype).mT},
    )
