"""Requests and sectors of tiles, against the instructions of PTX and counts by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

pytest.importorskip("sympy", reason="the sym extra is not installed")

ROWS = "float32[:, ::1], float32[:, ::1]"


@kd.kernel
def rows(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, 4096) * 2)


@kd.kernel
def shifted(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 1, kd.tile.load(x[row], 1, 1024))


@kd.kernel
def squares(x, out):
    row, column = kd.blockIdx.y * 32, kd.blockIdx.x * 32
    tile = kd.tile.load(x, (row, column), (32, 32))
    kd.tile.store(out, (row, column), tile)


@kd.kernel
def narrow(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, 96))


@kd.kernel
def looked_up(x, places, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], places[row], 1024))


def explained(kernel: Any, signature: str, width: int, grid: Any = 8, **sizes: Any) -> Any:
    shape = (64, width)
    return kernel.explain(
        signature,
        block=128,
        grid=grid,
        sizes={"x": shape, "out": shape, **sizes},
        arch="sm_90",
        occupancy=False,
    )


def of(found: Any, operation: str) -> Any:
    (access,) = (each for each in found.accesses if each.operation == operation and each.is_tile)
    return access


def instructions(kernel: Any, signature: str, operation: str) -> list[str]:
    """Return the widths of instructions that access global memory."""
    ptx = kernel.ptx(signature, block=128, arch="sm_90")
    return re.findall(rf"\b{operation}\.global\.((?:v\d\.)?b\d+)", ptx)


@pytest.mark.parametrize("operation", ["load", "store"])
@pytest.mark.parametrize(
    ("dtype", "lanes", "efficiency"),  # lanes as PTX has them, of one size where they are several
    # Of float64 a thread has 32 bytes, a sector, and takes them by two accesses.
    [("float32", "v4.b32", 1.0), ("float64", "v2.b64", 0.5), ("int16", "v4.b16 v2.b32", 1.0)],
)
def test_neighbours_are_one_access(
    dtype: str, lanes: str, efficiency: float, operation: str
) -> None:
    signature = ROWS.replace("float32", dtype)
    nbytes = 8 * 4096 * np.dtype(dtype).itemsize
    found = explained(rows, signature, 4096)
    access = of(found, operation)
    widths = instructions(rows, signature, {"load": "ld", "store": "st"}[operation])
    assert access.requests == 8 * 4 * sum(each in lanes.split() for each in widths)
    assert access.needed_bytes == nbytes
    assert access.sectors == nbytes / 32 / efficiency
    assert access.efficiency == efficiency
    assert found.dram_read_bytes == found.dram_written_bytes == nbytes


def test_tiles_at_other_places_are_taken_one_by_one() -> None:
    found = explained(shifted, ROWS, 4096)
    load = of(found, "load")
    single = [each for each in instructions(shifted, ROWS, "ld") if each == "b32"]
    assert load.requests == 8 * 4 * len(single) == 8 * 1024 / 32
    # 32 lanes, 16 bytes apart: 16 sectors; 17 for the last of four neighbours, 16 bytes on.
    assert load.sectors_per_request == 16.25
    assert load.needed_bytes == 8 * 1024 * 4
    kinds = {each.kind: each for each in found.findings if each.where == load.where}
    assert "neighbours of the tile one by one" in kinds["coalescing"].why
    assert "reuse" not in kinds


def test_a_tile_beyond_the_array_is_as_large_as_the_array() -> None:
    found = explained(rows, ROWS, 3000)
    for operation in ("load", "store"):
        access = of(found, operation)
        assert access.needed_bytes == 8 * 3000 * 4
        assert access.threads == 8 * 3000
    assert found.dram_read_bytes == 8 * 3000 * 4


def test_tiles_of_two_axes() -> None:
    found = explained(squares, ROWS, 128, grid=(4, 2))
    load = of(found, "load")
    assert load.requests == 8 * 4 * len(instructions(squares, ROWS, "ld"))
    # A warp takes four rows, a fourth of the elements of each at a time.
    assert load.sectors_per_request == 16
    assert load.needed_bytes == 8 * 32 * 32 * 4
    assert found.dram_read_bytes == found.dram_written_bytes == 8 * 32 * 32 * 4


def test_threads_beyond_a_tile_have_no_element() -> None:
    load = of(explained(narrow, ROWS, 4096), "load")
    assert (load.requests, load.sectors, load.threads) == (8 * 3, 8 * 3 * 4, 8 * 96)


def test_places_that_data_decides_are_estimates() -> None:
    signature = "float32[:, ::1], int32[::1], float32[:, ::1]"
    found = explained(looked_up, signature, 4096)
    assert of(found, "load").certainty == "estimate"
    assert of(found, "store").certainty == "exact"


def test_what_is_counted_is_not_left_out() -> None:
    assert explained(rows, ROWS, 4096).left_out == ()
    formulas = explained(rows, ROWS, 4096).formulas
    assert formulas.evaluate(formulas.requested_bytes) == 2 * 8 * 4096 * 4


@kd.kernel
def product(a, b, c):
    for m, n in kd.tiles(c.shape, (32, 64)):
        acc = kd.tile.zeros((32, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 16)):
            x = kd.tile.load(a, (m, k), (32, 16))
            acc = kd.mma(x, kd.tile.load(b, (n, k), (64, 16)).T, acc)
        kd.tile.store(c, (m, n), acc)


@pytest.mark.parametrize(("dtype", "name"), [("float32", "fma"), ("float16", "tensor fma")])
def test_products(dtype: str, name: str) -> None:
    signature = f"{dtype}[:, ::1], {dtype}[:, ::1], float32[:, ::1]"
    sizes = {"a": (128, 80), "b": (128, 80), "c": (128, 128)}
    found = product.explain(signature, grid=(4,), block=96, sizes=sizes, arch="sm_90")
    assert found.operations[dtype, name] == 128 * 128 * 80
    assert found.flops(dtype) == found.formulas.evaluate(found.formulas.flops[dtype])
    assert found.left_out == ()
    assert not [each for each in found.findings if each.kind == "integer division"]
