"""What follows a product works on its fragments; other operations read them in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.region_code import device_texts
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.extent import full_beyond

_ROWS, _COLUMNS, _DEPTH = 32, 16, 16
_BLOCK = (64, 1, 1)
_SIGNATURE = "float16[:,::1], float16[:,::1], float32[:,::1]"


def _factors(rng: np.random.Generator, depth: int = _DEPTH) -> tuple[Any, Any]:
    a, b = rng.integers(-3, 4, (_ROWS, depth)), rng.integers(-3, 4, (_COLUMNS, depth))
    return a.astype(np.float16), b.astype(np.float16)


def scaled(v: Any, i: Any, j: Any, c: Any) -> Any:
    return v * 2 + c[i, j]


def stored_by_function(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, y.T), scaled, c)


def added_to_a_loaded_tile(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    r = kd.tile.load(c, (0, 0), (32, 16))
    s = kd.mma(x, y.T, r)
    kd.tile.store(c, (0, 0), s * 2 - kd.mma(x, y.T).astype(kd.float32) + r)


def folded(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    s = kd.mma(x, y.T)
    high = s.max(axis=1)
    kd.tile.store(c, (0, 0), (s - high) * s.sum(axis=1) + high)


def folded_in_other_ways(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    s = kd.mma(x, y.T)
    columns, total, rows = s.sum(axis=0), s.sum(), s.sum(axis=1)
    kd.tile.store(c, (0, 0), s + columns + total - rows.max() + (s * 2).max())


def exchanged(a, b, c):
    x = kd.tile.load(a, (0, 0), (16, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    s = kd.mma(x, y.T)
    kd.tile.store(c, (0, 0), s.T + s.sort())
    kd.tile.store(c, (16, 0), s.cumsum(axis=1).astype(kd.float32) + s.take(s.argmax(axis=1)))


def of_a_computed_factor(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    p = kd.mma(x, y.T).astype(kd.float16)
    q = kd.mma((p + x).astype(kd.float16), (y + y).astype(kd.float16))
    kd.tile.store(c, (0, 0), q)


def of_itself(a, b, c):
    x = kd.tile.load(c, (0, 0), (16, 16))
    for _ in range(2):
        x = kd.mma(x, kd.tile.load(c, (16, 0), (16, 16)), precision="tf32")
    kd.tile.store(c, (0, 0), x)


def chosen(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    s = kd.tile.zeros((32, 16), kd.float32)
    for n in range(3):
        if n == 1:
            s = kd.mma(x, y.T, s)
        else:
            s = s + kd.float32(n)
    kd.tile.store(c, (0, 0), s)


def of_rows(a, b, c):
    x = kd.tile.load(a, (0, 0), (32, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    total = kd.tile.zeros((32, 1), kd.float32)
    top = kd.tile.full((32, 1), -1e30, kd.float32)
    acc = kd.tile.zeros((32, 16), kd.float32)
    for n in range(2):
        s = kd.mma(x, y.T)
        high = max(top, s.max(axis=1) + kd.float32(n))
        total = total * kd.float32(2) + s.sum(axis=1)
        acc = kd.mma(s.astype(kd.float16), y, acc * kd.float32(2))
        top = high
    kd.tile.store(c, (0, 0), acc + total * kd.tile.load(c, (0, 0), (32, 1)))
    kd.tile.store(c, (0, 3), top)


def of_loaded_tiles(a, b, c):
    acc = kd.tile.zeros((32, 16), kd.float32)
    w, scale = kd.tile.load(a, (0, 0), (32, 16)), kd.tile.load(c, (0, 0), (32, 1))
    for _ in range(2):
        following = kd.tile.load(a, (0, 0), (32, 16))
        y = kd.tile.load(b, (0, 0), (16, 16))
        acc += kd.mma((w + w).astype(kd.float16), y.T) * scale
        scale = kd.tile.load(c, (0, 1), (32, 1))
        w = following
    kd.tile.store(c, (0, 0), acc + kd.tile.load(c, (0, 2), (32, 1)) * scale)


def of_a_column_and_its_row(a, b, c):
    x = kd.tile.load(a, (0, 0), (16, 16))
    y = kd.tile.load(b, (0, 0), (16, 16))
    scale, other = kd.tile.load(c, (0, 0), (16, 1)), kd.tile.load(c, (0, 1), (16, 1))
    kd.tile.store(c, (0, 0), kd.mma(x, y.T) * scale + scale.T + other.T)


def _product(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32).T


def _folded(s: Any) -> Any:
    return (s - s.max(1, keepdims=True)) * s.sum(1, keepdims=True) + s.max(1, keepdims=True)


def _in_other_ways(s: Any) -> Any:
    rows = s.sum(1, keepdims=True)
    return s + s.sum(0, keepdims=True) + s.sum() - rows.max() + (s * 2).max()


def _exchanged(s: Any) -> Any:
    t = s[:16]
    largest = np.take_along_axis(t, t.argmax(1)[:, None], 1)
    return np.concatenate([t.T + np.sort(t, 1), t.cumsum(1) + largest])


def _of_rows(s: Any, b: Any, c: Any) -> Any:
    total = s.sum(1, keepdims=True) * 3
    acc = s @ b.astype(np.float32) * 3
    found = acc + total * c[:, :1]
    found[:, 3:4] = s.max(1, keepdims=True) + 1
    return found


def _of_columns(s: Any, c: Any) -> Any:
    turned = c[:16, :1].T + c[:16, 1:2].T
    return np.concatenate([s[:16] * c[:16, :1] + turned, c[16:]])


_KERNELS: dict[Callable[..., Any], Callable[..., Any]] = {
    stored_by_function: lambda s, a, b, c: s * 2 + c,
    added_to_a_loaded_tile: lambda s, a, b, c: (s + c) * 2 - s + c,
    folded: lambda s, a, b, c: _folded(s),
    folded_in_other_ways: lambda s, a, b, c: _in_other_ways(s),
    exchanged: lambda s, a, b, c: _exchanged(s),
    of_a_computed_factor: lambda s, a, b, c: (s + a) @ (2 * b.astype(np.float32)),
    of_itself: lambda s, a, b, c: np.concatenate([c[:16] @ c[16:] @ c[16:], c[16:]]),
    chosen: lambda s, a, b, c: s + 2,
    of_rows: lambda s, a, b, c: _of_rows(s, b, c),
    of_loaded_tiles: lambda s, a, b, c: 2 * s * (c[:, :1] + c[:, 1:2]) + c[:, 2:3] * c[:, 1:2],
    of_a_column_and_its_row: lambda s, a, b, c: _of_columns(s, c),
}


@pytest.mark.parametrize("threads", full_beyond([32, 64], [64]))
@pytest.mark.parametrize("kernel", _KERNELS, ids=lambda each: each.__name__)
def test_operations_on_a_product_are_those_on_its_elements(kernel: Any, threads: int) -> None:
    rng = np.random.default_rng(46)
    a, b = _factors(rng)
    c = rng.integers(-3, 4, (_ROWS, _COLUMNS)).astype(np.float32)
    expected = _KERNELS[kernel](_product(a, b), a, b, c)
    spec = specialize(kernel, _SIGNATURE, block=(threads, 1, 1))
    simulate_device(spec, (1,), (a, b, c))
    np.testing.assert_array_equal(c, expected)


@cache
def _text(kernel: Any) -> str:
    spec = specialize(kernel, _SIGNATURE, block=_BLOCK)
    return device_texts(spec, "entry", parse_arch("sm_90"))[0]


def test_folds_along_rows_need_no_memory_of_the_tile() -> None:
    def bytes_of(kernel: Any) -> int:
        sizes = [
            line
            for line in _text(kernel).split("\n")
            if "addrspace(3)" in line and "global" in line
        ]
        return len(sizes)

    assert bytes_of(folded) == bytes_of(stored_by_function) == bytes_of(of_loaded_tiles) == 1


@cache
def _pipelined(stages: int | None, is_gathered: bool) -> Any:
    def pipelined(a, b, c):
        acc = kd.tile.zeros((32, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 16), stages=stages):
            x = kd.tile.load(a, (0, k), (32, 16))
            y = kd.tile.load(b, (0, k), (16, 16))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (0, 0), acc)

    def gathered(a, b, places, c):
        acc = kd.tile.zeros((32, 16), kd.float32)
        for n in kd.pipelined(range(places.size), stages=stages):
            k = places[n]
            if k < 0:
                break
            x = kd.tile.load(a, (0, k), (32, 16))
            y = kd.tile.load(b, (0, k), (16, 16))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (0, 0), acc)

    if is_gathered:
        signature = "float16[:,::1], float16[:,::1], int64[::1], float32[:,::1]"
        return specialize(gathered, signature, block=_BLOCK)
    return specialize(pipelined, _SIGNATURE, block=_BLOCK)


@pytest.mark.parametrize("stages", full_beyond([2, 3, 4, None], [3, None]))
@pytest.mark.parametrize("edge", [0, 5])
def test_each_number_of_iterations_is_right(stages: int | None, edge: int) -> None:
    spec, rng = _pipelined(stages, False), np.random.default_rng(46)
    stages = stages or 4
    for turns in (0, 1, stages - 1, stages, stages + 1):
        a, b = _factors(rng, 16 * turns + edge)
        c = np.full((_ROWS, _COLUMNS), 99, np.float32)
        simulate_device(spec, (1,), (a, b, c), is_reversed=turns % 2 == 0)
        np.testing.assert_array_equal(c, _product(a, b))


def test_a_place_may_be_read_early() -> None:
    rng = np.random.default_rng(46)
    a, b = _factors(rng, 96)
    for chosen in ([2, 0, 5, 1], [3, 3], [4, -1, 2], []):
        c = np.full((_ROWS, _COLUMNS), 99, np.float32)
        places = np.array(chosen, np.int64) * 16
        simulate_device(_pipelined(3, True), (1,), (a, b, places, c))
        used = chosen[: chosen.index(-1)] if -1 in chosen else chosen
        parts = [_product(a[:, 16 * n : 16 * n + 16], b[:, 16 * n : 16 * n + 16]) for n in used]
        np.testing.assert_array_equal(c, sum(parts, np.zeros_like(c)))


def left_early(a, b, c):
    for m in range(0, a.shape[0], 16):
        acc = kd.tile.zeros((16, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 16), stages=3):
            if k > m:
                break
            x = kd.tile.load(a, (m, k), (16, 16), other=2)
            y = kd.tile.load(b, (0, k), (16, 16))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (m, 0), acc)


def test_a_loop_that_is_left_early_may_begin_again() -> None:
    rng = np.random.default_rng(46)
    a, b = _factors(rng, 90)
    c = np.full((_ROWS, _COLUMNS), 99, np.float32)
    simulate_device(specialize(left_early, _SIGNATURE, block=(32, 1, 1)), (1,), (a, b, c))
    expected = [_product(a[:16, :16], b[:, :16]), _product(a[16:, :32], b[:, :32])]
    np.testing.assert_array_equal(c, np.concatenate(expected))


def test_elements_beyond_the_array_are_other() -> None:
    def beyond(a, b, c):
        acc = kd.tile.zeros((32, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 16)):
            x = kd.tile.load(a, (0, k), (32, 16), other=2)
            y = kd.tile.load(b, (0, k), (16, 16), other=3)
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (0, 0), acc)

    a, b = _factors(np.random.default_rng(46), 40)
    a, b = a[:30], b[:13]
    c = np.full((_ROWS, _COLUMNS), 99, np.float32)
    simulate_device(specialize(beyond, _SIGNATURE, block=_BLOCK), (1,), (a, b, c))
    left = np.pad(a, ((0, 2), (0, 8)), constant_values=2)
    right = np.pad(b, ((0, 3), (0, 8)), constant_values=3)
    np.testing.assert_array_equal(c, _product(left, right))


@pytest.mark.parametrize(
    ("width", "threads"), [(64, 32), (128, 32), (128, 64), (256, 32), (48, 64)]
)
def test_rows_of_any_length_are_copied(width: int, threads: int) -> None:
    def product(a, b, c):
        x = kd.tile.load(a, (0, 0), (32, width))
        y = kd.tile.load(b, (0, 0), (16, width))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T))

    a, b = _factors(np.random.default_rng(46), width)
    c = np.full((_ROWS, _COLUMNS), 99, np.float32)
    simulate_device(specialize(product, _SIGNATURE, block=(threads, 1, 1)), (1,), (a, b, c))
    np.testing.assert_array_equal(c, _product(a, b))
