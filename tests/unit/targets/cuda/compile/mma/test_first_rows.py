"""Products of the first rows of an array: of groups of rows that follow each other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.lowered import NO_ADDITIONS
from targets.cuda.compile.mma.warpgroup_writer import Ring
from tests.support.extent import sample
from tests.support.products import compile_product, grouped_product, rows_of_groups
from tests.support.products import specialize_product as specialize
from tests.support.warpgroup_threads import simulate_warpgroups

#: Rows of groups that end before, at and after the rows of a warpgroup and of a tile.
_GROUPS = (130, 1, 0, 64, 65, 128)
_TILES = [((128, 64, 64), 256, 80), ((64, 64, 64), 256, 64), ((64, 64, 64), 128, 64)]


def _signature(result: str, table: str = "uint32") -> str:
    return f"bfloat16[:, ::1], bfloat16[:, :, ::1], {table}[:, ::1], {result}[:, ::1]"


def _check(
    tile: tuple[int, int, int], threads: int, columns: int, result: str, *, is_reversed: bool
) -> None:
    rng = np.random.default_rng(columns)
    table = rows_of_groups(_GROUPS, columns, tile[:2])
    total, depth = sum(_GROUPS), 2 * tile[2]
    a = rng.integers(-2, 3, (total, depth))
    weights = rng.integers(-2, 3, (len(_GROUPS), columns, depth))
    c = np.full((total + 3, columns), 77, getattr(ml_dtypes, result, result))
    specialization = specialize(grouped_product(*tile), _signature(result), threads=threads)
    factors = (each.astype(ml_dtypes.bfloat16) for each in (a, weights))
    simulate_warpgroups(specialization, (2,), (*factors, table, c), is_reversed=is_reversed)
    ends = np.cumsum(_GROUPS)
    expected = [a[end - n : end] @ w.T for end, n, w in zip(ends, _GROUPS, weights, strict=True)]
    np.testing.assert_array_equal(c[:total].astype(float), np.concatenate(expected))
    assert (c[total:] == 77).all()


@pytest.mark.parametrize("result", ["float32", "bfloat16"])
@pytest.mark.parametrize(("tile", "threads", "columns"), sample(_TILES, count=1))
def test_groups_are_exact_and_store_no_row_of_others(tile, threads, columns, result):
    _check(tile, threads, columns, result, is_reversed=result == "float32")


def test_a_warpgroup_with_rows_that_does_not_multiply_shows(monkeypatch):
    first_row = Ring._first_row
    monkeypatch.setattr(
        Ring, "_first_row", lambda ring, row: first_row(ring, ring._builder.add(row, row.type(64)))
    )
    with pytest.raises(AssertionError):
        _check((128, 64, 64), 256, 64, "float32", is_reversed=False)


@kd.kernel
def to_all_rows(a, weights, tiles, c):
    end = tiles[0, 3]
    for m, n in kd.tiles(c.shape, (128, 64)):
        acc = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a[:end], (m, k), (128, 64))
            acc = kd.mma(x, kd.tile.load(weights[0], (n, k), (64, 64)).T, acc)
        kd.tile.store(c, (m, n), acc)


@kd.kernel
def to_other_rows(a, weights, tiles, c):
    end = tiles[0, 3]
    for m, n in kd.tiles(c.shape, (128, 64)):
        acc = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a[:end], (m, k), (128, 64))
            acc = kd.mma(x, kd.tile.load(weights[0], (n, k), (64, 64)).T, acc)
        kd.tile.store(c[:end], (m + 1, n), acc)


@kd.kernel
def added_up(a, weights, tiles, c):
    end = tiles[0, 3]
    for m, n in kd.tiles(c.shape, (128, 16)):
        acc = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a[:end], (m, k), (128, 64))
            acc = kd.mma(x, kd.tile.load(weights[0], (n, k), (16, 64)).T, acc)
        kd.tile.store(c[:end], (m, n), acc)
        kd.tile.store(c, (m, n), acc.sum(axis=0))


@kd.kernel
def of_columns(a, weights, tiles, c):
    end = tiles[0, 3]
    for m, n in kd.tiles(c.shape, (128, 64)):
        acc = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            w = kd.tile.load(weights[0][:end], (n, k), (64, 64))
            acc = kd.mma(kd.tile.load(a, (m, k), (128, 64)), w.T, acc)
        kd.tile.store(c, (m, n), acc)


@pytest.mark.parametrize(
    ("kernel", "table", "reason"),
    [
        (to_all_rows, "uint32", "other rows of the result may be read"),
        (to_other_rows, "uint32", "other rows of the result may be read"),
        (added_up, "uint32", "other rows of the result may be read"),
        (of_columns, "uint32", "not as rows of the result"),
        (grouped_product(128, 64, 64), "int32", "may be negative"),
        (grouped_product(128, 64, 64), "uint64", "may be negative"),
    ],
)
def test_where_other_rows_matter_zeros_are_loaded(kernel, table, reason):
    found = compile_product(kernel, _signature("float32", table))
    assert found.additions == NO_ADDITIONS
    assert reason in next(x.text for x in found.passes if x.name == "multiply-by-warpgroups")
