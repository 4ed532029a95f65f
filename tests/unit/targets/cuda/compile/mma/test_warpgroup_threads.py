"""Products by warpgroups on a simulated device: exact for integers, in any order of copies."""

from __future__ import annotations

import ctypes
import re
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.operations import Operation
from stdlib_kernels.linalg.product import matmul_mma
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.mma import (
    boxes,
    overlap_products,
    tile_order,
    warpgroup_plan,
    warpgroup_writer,
)
from targets.cuda.compile.mma.panel_reads import find_panels
from targets.cuda.intrinsics.synchronize import call_nvvm
from tests.support import warpgroup_threads
from tests.support.extent import sample
from tests.support.products import product, specialize_product
from tests.support.warpgroup_threads import simulate_warpgroups


def _check(
    tile: tuple[int, int, int],
    threads: int,
    dtype: str,
    shape: tuple[int, int, int],
    *,
    is_reversed: bool = False,
    result: str = "",
    is_transposed: bool = False,
    **options: Any,
) -> None:
    """Compare a product of small integers by some tiles with NumPy's."""
    rows, columns, depth = shape
    rng = np.random.default_rng(depth)
    one, two = rng.integers(-2, 3, (rows, depth)), rng.integers(-2, 3, (columns, depth))
    a = one.T if options.get("is_a_turned") else one
    b = two if options.get("is_b_turned", True) else two.T
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    result = result or ("int32" if dtype == "int8" else "float32")
    c = np.full((rows, columns), 77, getattr(ml_dtypes, result, result))
    layout = "::1, :" if is_transposed else ":, ::1"
    signature = f"{dtype}[{layout}], {dtype}[{layout}], {result}[:, ::1]"
    specialization = specialize_product(product(*tile, **options), signature, threads=threads)
    order = "F" if is_transposed else "C"
    given = tuple(np.array(each, kind, order=order) for each in (a, b))
    simulate_warpgroups(specialization, (2,), (*given, c), is_reversed=is_reversed)
    np.testing.assert_array_equal(c.astype(np.float64), one @ two.T)


_TURNS = [0, 1, 2, 3, 4, 17]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("turns", sample(_TURNS, count=3))
def test_any_number_of_turns_is_exact(turns, is_reversed):
    """With a ring of three slots, which three tiles go through one after the other."""
    shape = (5 * 64, 64, 64 * turns)
    _check((64, 64, 64), 128, "bfloat16", shape, is_reversed=is_reversed, stages=2)


@pytest.mark.parametrize("rows", [64, 7 * 64 + 8])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("turns", sample(_TURNS, count=3))
def test_tiles_of_one_warpgroup_are_exact(turns, is_reversed, rows):
    """Two warpgroups take them in turn, of an even or odd number, or one alone has a tile."""
    shape = (rows, 64, 64 * turns)
    _check((64, 64, 64), 256, "bfloat16", shape, is_reversed=is_reversed, stages=2)


def sum_with_turned(v, i, j, c, m, n):
    return v + c[m + j, n + i]


@kd.kernel
def added_to_turned(a, b, c):
    for m, n in kd.tiles(c.shape, (64, 64)):
        total = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (64, 64)), kd.tile.load(b, (n, k), (64, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, sum_with_turned, c, m, n)


def test_threads_of_a_tile_in_turn_wait_for_each_other_alone() -> None:
    """They read elements that others of the tile store; the warpgroups have three tiles and two."""
    rng = np.random.default_rng(3)
    one, two = rng.integers(-2, 3, (5 * 64, 64)), rng.integers(-2, 3, (64, 64))
    before = rng.integers(-3, 4, (5, 64, 64))
    kind = "bfloat16[:, ::1]"
    specialization = specialize_product(added_to_turned, f"{kind}, {kind}, float32[:, ::1]")
    c = before.reshape(320, 64).astype(np.float32)
    given = (np.array(each, ml_dtypes.bfloat16) for each in (one, two))
    simulate_warpgroups(specialization, (1,), (*given, c), is_reversed=True)
    np.testing.assert_array_equal(c, one @ two.T + before.transpose(0, 2, 1).reshape(320, 64))
    waits = re.findall(
        r"bar\.sync\s+([^;]*), (\d+);", compile_kernel(specialization, arch="sm_90a").ptx
    )
    assert sorted({count for _, count in waits}) == ["128", "256"]
    assert not any(number == "1" for number, _ in waits)  # the barrier of all declared threads


@pytest.mark.parametrize("word", ["begin", "end", "first"])
def test_warpgroups_that_do_not_take_turns_show(monkeypatch, word):
    """A fault that the simulated device must find: a phase of a slot is taken for a later one."""
    turn = warpgroup_writer.Ring._turn

    def skips(ring: Any, operation: Any) -> None:
        if word == "begin" or operation.attributes["word"] == word:
            return
        turn(ring, operation)

    monkeypatch.setattr(warpgroup_writer.Ring, "_turn", skips)
    with pytest.raises(AssertionError):
        _check((64, 64, 64), 256, "bfloat16", (5 * 64, 64, 64 * 9), stages=2)


def test_slots_of_the_other_warpgroup_that_are_not_passed_show(monkeypatch):
    monkeypatch.setattr(warpgroup_writer.Ring, "_pass", lambda ring, operation: None)
    with pytest.raises(AssertionError):
        _check((64, 64, 64), 256, "bfloat16", (5 * 64, 64, 64 * 9), stages=2)


@pytest.mark.parametrize(
    ("tile", "threads", "dtype", "options"),
    sample(
        [
            ((128, 64, 64), 256, "bfloat16", {}),
            ((64, 128, 64), 256, "float16", {"is_b_turned": False}),
            ((64, 64, 128), 256, "int8", {"sums": kd.int32}),
            ((192, 64, 64), 384, "float16", {}),
            ((128, 64, 64), 128, "float16", {}),
            ((64, 128, 128), 128, "bfloat16", {}),
            ((64, 128, 64), 128, "float16", {"is_b_turned": False}),
            ((128, 64, 64), 128, "bfloat16", {"is_a_turned": True}),
            ((128, 128, 64), 256, "float16", {"is_a_turned": True, "is_b_turned": False}),
            ((64, 64, 32), 128, "float32", {"precision": "tf32"}),
            ((64, 64, 128), 128, "int8", {"sums": kd.int32}),
            ((64, 64, 256), 128, "float8_e4m3fn", {}),
            ((64, 64, 128), 128, "float8_e5m2", {"promote": None}),
        ],
        count=3,
    ),
)
def test_all_dtypes_and_orders_of_axes_are_exact(tile, threads, dtype, options):
    rows, columns, depth = tile
    shape = (rows + 8, columns + 16, 2 * depth + 16)  # the last tiles are beyond the arrays
    _check(tile, threads, dtype, shape, is_reversed=True, **options)


@pytest.mark.parametrize(
    ("dtype", "tile", "options"),
    [
        ("float16", (64, 128, 64), {"is_a_turned": True, "is_b_turned": False}),
        ("bfloat16", (64, 64, 64), {"is_a_turned": False, "is_b_turned": True}),
        (
            "int8",
            (64, 64, 128),
            {"is_a_turned": True, "is_b_turned": False, "sums": kd.int32},
        ),
    ],
)
def test_arrays_with_columns_side_by_side_are_exact(dtype, tile, options):
    rows, columns, depth = tile
    shape = (rows + 16, columns + 16, 2 * depth + 16)
    _check(tile, 128, dtype, shape, is_reversed=True, is_transposed=True, **options)


@pytest.mark.parametrize("result", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("columns", [64, 48])
def test_results_of_all_sizes_are_exact(result, columns):
    """Sums of at most 64, of whole tiles and of parts of tiles."""
    shape = (128 + 8, 2 * columns + 16, 16)
    _check((64, columns, 128), 128, "int8", shape, result=result, sums=kd.int32)


def test_a_slot_that_is_freed_too_early_shows(monkeypatch):
    """A fault that the simulated device must find: products read what the next copy brings."""
    release = warpgroup_writer.Ring._release
    monkeypatch.setattr(
        warpgroup_writer.Ring, "_multiply", _after(release, warpgroup_writer.Ring._multiply)
    )
    monkeypatch.setattr(warpgroup_writer.Ring, "_release", lambda self, operation: None)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        _check((64, 64, 64), 128, "bfloat16", (64, 64, 64 * 9), stages=1)


def test_a_slot_of_products_that_still_run_shows_if_it_is_freed(monkeypatch):
    """Another fault: a slot is freed in its iteration, which does not wait for its products."""

    def release(self: Any, operation: Any) -> None:
        number = operation.attributes["ring"]
        self._free(self._barriers[number])
        self._received[number].advance()

    monkeypatch.setattr(warpgroup_writer.Ring, "_release", release)
    monkeypatch.setattr(warpgroup_writer.Ring, "_drain", lambda self, operation: self._wait())
    with pytest.raises(AssertionError, match="Mismatched elements"):
        _check((64, 64, 64), 128, "bfloat16", (64, 64, 64 * 9), stages=2)


def _check_boxes(**options: Any) -> None:
    """Store five tiles by two blocks, each with four boxes of a warpgroup that has room for two."""
    shape, others = (64, 5 * 128, 64), {"is_reversed": True, **options}
    _check((64, 128, 64), 128, "bfloat16", shape, **others)


def test_boxes_are_exact():
    _check_boxes()
    _check_boxes(result="bfloat16")


def test_boxes_that_are_written_too_early_show(monkeypatch):
    """A fault: no thread waits until a copy has read a box."""
    monkeypatch.setattr(boxes, "wait_for_copies", lambda builder, pending: None)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        _check_boxes()


def test_copies_that_are_not_awaited_at_the_end_show(monkeypatch):
    monkeypatch.setattr(warpgroup_writer, "wait_for_copies", lambda builder, pending: None)
    with pytest.raises(AssertionError, match="a block ends before copies have read it"):
        _check_boxes()


@pytest.mark.parametrize("dropped", [0, 1])
def test_threads_that_do_not_wait_for_each_other_show(monkeypatch, dropped):
    """Two faults: without waits before boxes are written, or before they are copied."""
    meet, calls = warpgroup_writer.Ring.meet, []

    def skips(ring: Any) -> None:
        # Of four boxes: before and after the first, after the second, and so on.
        calls.append(None)
        is_before = (len(calls) - 1) % 7 in (0, 3, 5)
        if is_before == bool(dropped):
            meet(ring)

    monkeypatch.setattr(warpgroup_writer.Ring, "meet", skips)
    found = "Mismatched elements" if dropped == 0 else "does not see"
    with pytest.raises(AssertionError, match=found):
        _check_boxes(is_reversed=dropped == 0)


def test_boxes_that_copies_were_not_told_of_show(monkeypatch):
    def call(builder: Any, name: str, *about: Any) -> Any:
        return None if name.startswith("fence") else call_nvvm(builder, name, *about)

    monkeypatch.setattr(boxes, "call_nvvm", call)
    with pytest.raises(AssertionError, match="does not see"):
        _check_boxes()


@kd.kernel
def of_stacks(a, b, c):
    for place, n in kd.tiles((c.shape[0] * c.shape[1], c.shape[2]), (64, 64)):
        number, m = place // c.shape[1], place % c.shape[1]
        total = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[2], 64)):
            x = kd.tile.load(a[number], (m, k), (64, 64))
            total = kd.mma(x, kd.tile.load(b[number], (n, k), (64, 64)).T, total)
        kd.tile.store(c[number - c.shape[0]], (m, n), total)


def test_matrices_of_stacks_are_stored_in_boxes():
    rng = np.random.default_rng(9)
    a, b = rng.integers(-2, 3, (3, 64, 72)), rng.integers(-2, 3, (3, 136, 72))
    c = np.full((3, 64, 136), np.nan, np.float32)
    kind = "float16[:, :, ::1]"
    specialization = specialize_product(
        of_stacks, f"{kind}, {kind}, float32[:, :, ::1]", threads=128
    )
    given = a.astype(np.float16), b.astype(np.float16), c
    simulate_warpgroups(specialization, (2,), given, is_reversed=True)
    np.testing.assert_array_equal(c, a @ b.transpose(0, 2, 1))


def of_results(v, i, j, bias, rest, m, n):
    doubled = v + v + kd.float32(bias[n + j])
    return doubled * kd.float32(2) + kd.float32(rest[m + i, n + j]) if v > 3 else doubled


@kd.kernel
def with_function(a, b, bias, rest, c, *, BM, BN):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        total = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (BM, 64)), kd.tile.load(b, (n, k), (BN, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, of_results, bias, rest, m, n)


def _check_function(tile: tuple[int, int], threads: int, shape: Any, result: str) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(rows)
    one, two = rng.integers(-2, 3, (rows, depth)), rng.integers(-2, 3, (columns, depth))
    bias, rest = rng.integers(-3, 4, columns), rng.integers(-3, 4, (rows, columns))
    kind = "float16[:, ::1]"
    signature = f"{kind}, {kind}, float16[::1], {kind}, {result}[:, ::1]"
    kernel = with_function.member(BM=tile[0], BN=tile[1])
    specialization = specialize_product(kernel, signature, threads=threads)
    c = np.full((rows, columns), np.nan, getattr(ml_dtypes, result, result))
    given = tuple(np.array(each, np.float16) for each in (one, two, bias, rest))
    simulate_warpgroups(specialization, (2,), (*given, c), is_reversed=True)
    sums = one @ two.T
    doubled = 2 * sums + bias
    wanted = np.where(sums > 3, 2 * doubled + rest, doubled)
    np.testing.assert_array_equal(c.astype(np.float64), wanted.astype(c.dtype).astype(np.float64))


@pytest.mark.parametrize(
    ("tile", "threads", "shape", "result"),
    [
        ((64, 128), 128, (136, 264, 72), "float32"),  # the last tiles are beyond the arrays
        ((128, 64), 256, (128, 128, 64), "float16"),
        ((64, 64), 256, (200, 136, 72), "float16"),  # of one warpgroup each
        ((256, 128), 256, (256, 128, 64), "float32"),  # two boxes for a part
        ((128, 128), 256, (128, 256, 64), "float8_e5m2"),  # and two parts for a box
        # Parts are stored in later tiles of no iteration, of some, and of enough.
        *(((128, 192), 256, (400, 400, depth), "float16") for depth in (0, 200, 1100)),
    ],
)
def test_functions_of_results_are_exact(tile, threads, shape, result):
    _check_function(tile, threads, shape, result)


def sum_of(v, i, j, bias, one, two, m, n):
    v = kd.float32(2) * v + kd.float32(bias[n + j])
    return v + kd.float32(one[m + i, n + j]) - kd.float32(3) * kd.float32(two[i + m, j + n])


@kd.kernel
def with_matrices(a, b, bias, one, two, c, *, BM, BN):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        total = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (BM, 64)), kd.tile.load(b, (n, k), (BN, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, sum_of, bias, one, two, m, n)


def _check_matrices(
    tile: tuple[int, int],
    threads: int,
    shape: tuple[int, int, int],
    dtypes: tuple[str, str],
    *,
    is_reversed: bool = True,
) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(depth)
    a, b = rng.integers(-2, 3, (rows, depth)), rng.integers(-2, 3, (columns, depth))
    bias = rng.integers(-9, 10, columns)
    one, two = (rng.integers(-9, 10, (rows, columns)) for _ in range(2))
    names = ("float16", "float16", "float16", *dtypes)
    signature = ", ".join(f"{name}[{':, ' * (n != 2)}::1]" for n, name in enumerate(names))
    kernel = with_matrices.member(BM=tile[0], BN=tile[1])
    specialization = specialize_product(kernel, f"{signature}, float32[:, ::1]", threads=threads)
    c = np.full((rows, columns), np.nan, np.float32)
    kinds = [getattr(ml_dtypes, name, name) for name in names]
    given = [np.array(*each) for each in zip((a, b, bias, one, two), kinds, strict=True)]
    simulate_warpgroups(specialization, (2,), (*given, c), is_reversed=is_reversed)
    np.testing.assert_array_equal(c, 2 * (a @ b.T) + bias + one - 3 * two)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("tile", "threads", "shape", "dtypes", "parts"),
    [
        ((64, 128), 128, (136, 264, 72), ("bfloat16", "float16"), 1),
        ((64, 128), 128, (64, 256, 200), ("float32", "bfloat16"), 1),
        ((256, 64), 128, (264, 128, 0), ("float16", "float16"), 2),
        ((128, 192), 256, (264, 392, 72), ("bfloat16", "float16"), 1),
        ((128, 64), 256, (128, 200, 64), ("float32", "float32"), 0),  # no room
        ((64, 64), 256, (136, 72, 64), ("float16", "float16"), 0),  # of one warpgroup each
    ],
)
def test_matrices_that_functions_read_are_exact(
    monkeypatch, tile, threads, shape, dtypes, parts, is_reversed
):
    found = []

    def noting(*given: Any) -> Any:
        panels = find_panels(*given)
        found.extend(panels.values())
        return panels

    monkeypatch.setattr(warpgroup_plan, "find_panels", noting)
    _check_matrices(tile, threads, shape, dtypes, is_reversed=is_reversed)
    assert [each.together for each in found] == [parts] * bool(parts)


def test_panels_that_are_read_too_early_show(monkeypatch):
    """A fault: threads read panels without a wait for their copies."""
    monkeypatch.setattr(warpgroup_writer.Ring, "wait_for_panels", lambda self: None)
    with pytest.raises(AssertionError, match=r"Mismatched elements|no one completes"):
        _check_matrices((64, 128), 128, (64, 512, 640), ("float16", "float16"))


def sum_with(v, i, j, rest, m, n):
    return v + kd.float32(rest[m + i, n + j])


@kd.kernel
def with_matrix(a, b, rest, c, *, BM, BN):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        total = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (BM, 64)), kd.tile.load(b, (n, k), (BN, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, sum_with, rest, m, n)


@pytest.mark.parametrize(
    ("tile", "threads", "depth"),
    [
        ((64, 128), 128, 64),
        ((64, 128), 256, 64),
        ((128, 128), 256, 64),
        ((128, 64), 128, 64),
        ((64, 128), 128, 1152),  # before the last iterations
    ],
)
def test_matrices_that_functions_read_are_in_the_cache_before(monkeypatch, tile, threads, depth):
    """Each thread prefetches some lines of a whole tile, which all lie in the matrix of float64."""
    asked: list[int] = []
    function = warpgroup_threads._Ring.function

    def noting(ring: Any, result: str, name: str, arguments: str) -> Any:
        if name != "prefetch.L2":
            return function(ring, result, name, arguments)
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(asked.append)

    monkeypatch.setattr(warpgroup_threads._Ring, "function", noting)
    shape = (2 * tile[0] + 8, 2 * tile[1], depth)  # tiles below are beyond the arrays
    rng = np.random.default_rng(5)
    one, two = rng.integers(-2, 3, (shape[0], depth)), rng.integers(-2, 3, (shape[1], depth))
    rest = rng.integers(-9, 10, shape[:2]).astype(np.float64)
    kind = "float16[:, ::1]"
    signature = f"{kind}, {kind}, float64[:, ::1], {kind}"
    kernel = with_matrix.member(BM=tile[0], BN=tile[1])
    specialization = specialize_product(kernel, signature, threads=threads)
    c = np.full(shape[:2], np.nan, np.float16)
    given = (one.astype(np.float16), two.astype(np.float16), rest, c)
    simulate_warpgroups(specialization, (2,), given, is_reversed=True)
    np.testing.assert_array_equal(c, one @ two.T + rest)
    places = {each - rest.ctypes.data for each in asked}
    assert len(places) == len(asked) == 4 * tile[0] * tile[1] * 8 // 128
    assert max(places) < 2 * tile[0] * shape[1] * 8
    assert min(places) >= 0


@pytest.mark.parametrize("dropped", [0, 1])
def test_parts_that_are_exchanged_too_early_show(monkeypatch, dropped):
    """Two faults: without waits before results are read, or before they are written.

    Results of a tile that is not whole are exchanged. These waits are the last ones of the code.
    """
    meet, calls, about = warpgroup_writer.Ring.meet, [], ((64, 128), 128, (56, 128, 64), "float32")
    left = []

    def skips(self: Any) -> None:
        calls.append(None)
        if len(calls) not in left:
            meet(self)

    monkeypatch.setattr(warpgroup_writer.Ring, "meet", skips)
    _check_function(*about)
    left.append(2 * len(calls) - dropped)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        _check_function(*about)


def _after(first: Any, second: Any) -> Any:
    def write(self: Any, operation: Any) -> None:
        first(self, Operation("ring.release", [], (), {"ring": 0, "is_late": False}))
        second(self, operation)

    return write


def test_groups_have_each_tile_once(monkeypatch):
    monkeypatch.setattr(tile_order, "_BLOCKS", 9)  # groups of about three rows
    _check((64, 64, 64), 128, "bfloat16", (64 * 7, 64 * 3, 64))


@kd.kernel
def summed_heads(a, b, c, *, backwards):
    """Multiply small integers: scores of rows, in 16 bits, by more rows, for each head."""
    head = kd.blockIdx.y
    rows = kd.blockIdx.x * 64
    x = kd.tile.load(a[head - backwards], (rows, 0), (64, 64))
    total = kd.tile.zeros((64, 64), kd.float32)
    for k in kd.pipelined(range(0, b.shape[1], 64)):
        scores = kd.mma(x, kd.tile.load(b[head], (k, 0), (64, 64)).T)
        if k > 0:
            scores = scores + kd.float32(1)
        y = kd.tile.load(b[head], (k, 0), (64, 64))
        total = kd.mma(scores.astype(b.dtype), y, total * kd.float32(2))
    kd.tile.store(c[head], (rows, 0), total)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("backwards", "is_reversed"), [(0, False), (2, True)])
def test_products_of_products_in_parts_of_arrays_are_exact(
    monkeypatch, dtype, backwards, is_reversed
):
    """The second head of two is number 1, or -1."""
    monkeypatch.setattr(overlap_products, "LEAST_WORK", 0)
    rng, kind = np.random.default_rng(5), np.dtype(getattr(ml_dtypes, dtype, dtype))
    one, two = rng.integers(0, 2, (2, 100, 64)), rng.integers(0, 2, (2, 130, 64))
    c = np.full((2, 100, 64), 77, np.float32)
    signature = f"{dtype}[:, :, ::1], {dtype}[:, :, ::1], float32[:, :, ::1]"
    kernel = summed_heads.member(backwards=backwards)
    specialization = specialize_product(kernel, signature, threads=128)
    given = one.astype(kind), two.astype(kind), c
    simulate_warpgroups(specialization, (2, 2), given, is_reversed=is_reversed)
    wanted = np.zeros_like(c)
    for start in range(0, 130, 64):
        part = two[:, start : start + 64]
        scores = one @ part.transpose(0, 2, 1) + (start > 0)
        wanted = wanted * 2 + scores @ part
    np.testing.assert_array_equal(c, wanted)


@kd.kernel
def of_pages(a, b, pages, c):
    total = kd.tile.zeros((64, 64), kd.float32)
    for k in kd.pipelined(range(pages.size)):
        x = kd.tile.load(a, (kd.blockIdx.x * 64, k * 64), (64, 64))
        y = kd.tile.load(b[pages[k], 1], (0, 0), (64, 64))
        total = kd.mma(x, y.T, total)
    kd.tile.store(c, (kd.blockIdx.x * 64, 0), total)


def test_pages_are_copied_by_their_numbers():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-2, 3, (100, 192)), rng.integers(-2, 3, (5, 2, 64, 64))
    pages, c = np.array([4, 0, 3]), np.full((100, 64), 77, np.float32)
    signature = "float16[:, ::1], float16[:, :, :, ::1], int64[::1], float32[:, ::1]"
    specialization = specialize_product(of_pages, signature, threads=128)
    given = a.astype(np.float16), b.astype(np.float16), pages, c
    simulate_warpgroups(specialization, (2,), given, is_reversed=True)
    np.testing.assert_array_equal(c, a @ np.concatenate(b[pages, 1], axis=1).T)


@kd.kernel
def grouped(a, b, which, c):
    for m, n in kd.tiles(c.shape, (64, 64)):
        group = which[m // 64]
        total = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (64, 64))
            total = kd.mma(x, kd.tile.load(b[group], (n, k), (64, 64)).T, total)
        kd.tile.store(c, (m, n), total)


@kd.kernel
def grouped_in_order(a, b, tiles, c):
    for tile in kd.tiles(tiles.shape[0], 1):
        m, n, group = tiles[tile, 0], tiles[tile, 1], tiles[tile, 2]
        total = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (64, 64))
            total = kd.mma(x, kd.tile.load(b[group], (n, k), (64, 64)).T, total)
        kd.tile.store(c, (m, n), total)


@pytest.mark.parametrize("is_in_order", [False, True])
def test_groups_of_rows_have_their_matrices(is_in_order):
    rng, which = np.random.default_rng(7), np.array([2, 0, 0], np.int32)
    a, b = rng.integers(-2, 3, (192, 96)), rng.integers(-2, 3, (3, 72, 96))
    c = np.full((192, 72), 77, np.float32)
    # Rows of 16 bytes, which the code is promised.
    places = [(64 * t, n, which[t], 0) for n in (64, 0) for t in (1, 2, 0)]
    kernel, kind = (grouped_in_order, ":, ::1") if is_in_order else (grouped, "::1")
    table = np.array(places, np.int32) if is_in_order else which
    signature = f"float16[:, ::1], float16[:, :, ::1], int32[{kind}], float32[:, ::1]"
    specialization = specialize_product(kernel, signature, threads=128)
    given = a.astype(np.float16), b.astype(np.float16), table, c
    simulate_warpgroups(specialization, (2,), given, is_reversed=True)
    parts = [a[64 * t : 64 * t + 64] @ b[g].T for t, g in enumerate(which)]
    np.testing.assert_array_equal(c, np.concatenate(parts))


@pytest.mark.parametrize("layout", ["::1, :", ":, ::1"])
def test_parts_of_a_product_of_the_library_are_exact(layout):
    rng = np.random.default_rng(8)
    one, two = rng.integers(-2, 3, (72, 400)), rng.integers(-2, 3, (400, 64))
    kernel = matmul_mma.member(rows=64, columns=64, depth=64, parts=3)
    signature = f"float16[:, ::1], float16[{layout}], float32[:, ::1]"
    specialization = specialize_product(kernel, signature, threads=128)
    order = "F" if layout.startswith("::1") else "C"
    sums = np.full((3 * 128, 64), np.nan, np.float32)
    given = one.astype(np.float16), np.array(two, np.float16, order=order), sums
    simulate_warpgroups(specialization, (2,), given, is_reversed=True)
    ends = (0, 192, 384, 400)
    parts = [one[:, i:j] @ two[i:j] for i, j in pairwise(ends)]
    np.testing.assert_array_equal(sums.reshape(3, 128, 64)[:, :72], parts)
