"""Refusals of products of tiles and of the loops around them, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd


def _message(kernel: Callable[..., Any]) -> str:
    a = np.zeros((64, 64), np.float32)
    with kd.use("cpu"), pytest.raises(kd.KernelError) as caught:
        kd.kernel(kernel)[2, 64](a, a.copy())
    return str(caught.value)


def _rows(a, c):  # type: ignore[no-untyped-def]
    kd.tile.store(
        c, (0, 0), kd.mma(kd.tile.load(a, (0, 0), (12, 16)), kd.tile.load(a, (0, 0), (16, 16)))
    )


def _depth(a, c):  # type: ignore[no-untyped-def]
    kd.tile.store(
        c, (0, 0), kd.mma(kd.tile.load(a, (0, 0), (16, 6)), kd.tile.load(a, (0, 0), (6, 16)))
    )


def _shapes(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 8))
    kd.tile.store(c, (0, 0), kd.mma(x, x))


def _acc_shape(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, x, kd.tile.zeros((16, 8), kd.float32)))


def _acc_dtype(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, x, kd.tile.zeros((16, 16), kd.float64)))


def _number(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(a, x))


def _dtypes(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, x.astype(kd.float16)))


def _int32(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16)).astype(kd.int32)
    kd.tile.store(c, (0, 0), kd.mma(x, x))


def _tf32(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16)).astype(kd.float16)
    kd.tile.store(c, (0, 0), kd.mma(x, x, precision="tf32"))


def _divergent(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    if kd.threadIdx.x < 3:
        kd.tile.store(c, (0, 0), kd.mma(x, x))


def _carried(a, c):  # type: ignore[no-untyped-def]
    acc = kd.tile.zeros((16, 16), kd.float32)
    for m, n in kd.tiles(c.shape, (16, 16)):
        acc = acc + kd.tile.load(a, (m, n), (16, 16))
        kd.tile.store(c, (m, n), acc)


def _counted(a, c):  # type: ignore[no-untyped-def]
    total = 0
    for _ in kd.tiles(c.shape, (16, 16)):
        total += 1
    c[0, 0] = total


def _after(a, c):  # type: ignore[no-untyped-def]
    for m, n in kd.tiles(c.shape, (16, 16)):
        kd.tile.store(c, (m, n), kd.tile.load(a, (m, n), (16, 16)))
    c[0, 0] = m


def _read_between(a, c):  # type: ignore[no-untyped-def]
    for batch in range(2):
        for m, n in kd.tiles(c.shape, (16, 16)):
            if batch > 0:
                x = kd.tile.load(a, (m, n), (16, 16))
            kd.tile.store(c, (m, n), x)


def _left(a, c):  # type: ignore[no-untyped-def]
    for m, _ in kd.tiles(c.shape, (16, 16)):
        if m > 16:
            break


def _returned(a, c):  # type: ignore[no-untyped-def]
    for m, _ in kd.tiles(c.shape, (16, 16)):
        if m > 16:
            return


def _axes(a, c):  # type: ignore[no-untyped-def]
    for m in kd.tiles(c.shape, 8):
        c[0, 0] = m


def _float(a, c):  # type: ignore[no-untyped-def]
    for m in kd.tiles(1.5, 8):
        c[0, 0] = m


def _assigned(a, c):  # type: ignore[no-untyped-def]
    turns = kd.pipelined(range(3))
    c[0, 0] = turns


def _enumerated(a, c):  # type: ignore[no-untyped-def]
    for i, _ in enumerate(kd.pipelined(range(3))):
        c[0, 0] = i


def _no_range(a, c):  # type: ignore[no-untyped-def]
    for i in kd.pipelined((1, 2)):
        c[0, 0] = i


def _no_stages(a, c):  # type: ignore[no-untyped-def]
    for i in kd.pipelined(range(3), stages=0):
        c[0, 0] = i


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (_rows, ("the extent along m is 12", "multiples of 8 for float32", "Use 16")),
        (_depth, ("the extent along k is 6", "multiples of 4 for float32", "Use 8")),
        (_shapes, ("shapes (16, 8) and (16, 8) do not fit", "kd.mma(x, y.T)")),
        (_acc_shape, ("acc has the shape (16, 8)", "kd.tile.zeros((16, 16), …)")),
        (_acc_dtype, ("acc is a tile of float64", "kd.tile.zeros((16, 16), kd.float32)")),
        (_number, ("a is not a tile",)),
        (_dtypes, ("tiles of float32 and float16", "t.astype(kd.float16)")),
        (_int32, ("tiles of int32 and int32", "int8, uint8")),
        (_tf32, ("float16 has precision 'tf32'", "Leave precision out")),
        (_divergent, ("not reached by every thread",)),
        (_carried, ("acc keeps its value", "in any order", "Assign it in each iteration")),
        (_counted, ("total keeps its value", "kd.atomic")),
        (_after, ("m keeps its value", "after the loop")),
        (_read_between, ("x keeps its value", "Assign it in each iteration")),
        (_left, ("has break", "continue")),
        (_returned, ("has return", "continue")),
        (_axes, ("the extent has 2 axes, and the shape 1",)),
        (_float, ("the extent is float64", "Give integers")),
        (_assigned, ("outside the head of a loop", "for … in kd.pipelined(range(0, n, 32)):")),
        (_enumerated, ("outside the head of a loop",)),
        (_no_range, ("(1, 2), which is not a range", "kd.pipelined(range(…))")),
        (_no_stages, ("stages is 0", "positive integer or None")),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_refusals(kernel: Callable[..., Any], words: tuple[str, ...]) -> None:
    message = _message(kernel)
    missing = [each for each in words if each not in message]
    assert not missing, message


def test_tiles_of_one_axis_and_continue() -> None:
    @kd.kernel
    def doubled(a):  # type: ignore[no-untyped-def]
        for m in kd.tiles(a.size, 8):
            if m == 16:
                continue
            kd.tile.store(a, m, kd.tile.load(a, m, 8) * 2)

    a = np.arange(45)
    with kd.use("cpu"):
        doubled[3, 32](a)
    expected = np.arange(45) * 2
    expected[16:24] //= 2
    assert np.array_equal(a, expected)


@pytest.mark.parametrize("extent", [(0, 5), (5, 0), (-3, 8)])
def test_empty_extents(extent: tuple[int, int]) -> None:
    @kd.kernel
    def marked(a, rows, columns):  # type: ignore[no-untyped-def]
        for m, n in kd.tiles((rows, columns), (8, 8)):
            kd.tile.store(a, (m, n), kd.tile.full((8, 8), 1))

    a = np.zeros((16, 16))
    with kd.use("cpu"):
        marked[2, 32](a, *extent)
    assert not a.any()
