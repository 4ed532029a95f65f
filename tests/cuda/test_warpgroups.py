"""Products by warpgroups on a device of compute capability 9.0: exact for small integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerneldsl as kd
from tests.support.native import is_native, require_native, warm_up
from tests.support.products import grouped_product, product, rows_of_groups

_MEMBERS = [
    ((128, 256, 64), 256, "bfloat16", {}),
    ((128, 256, 64), 256, "float16", {"is_b_turned": False}),
    ((128, 256, 64), 256, "bfloat16", {"is_a_turned": True, "is_b_turned": False}),
    ((256, 128, 64), 256, "bfloat16", {"is_a_turned": True}),
    ((128, 128, 128), 256, "bfloat16", {}),
    ((64, 256, 64), 128, "bfloat16", {}),
    ((192, 192, 64), 384, "bfloat16", {}),
    ((128, 128, 32), 256, "float32", {"precision": "tf32"}),
    ((128, 128, 128), 256, "float8_e4m3fn", {}),
    ((128, 256, 128), 256, "float8_e5m2", {"promote": None}),
    ((128, 256, 128), 256, "int8", {"sums": kd.int32}),
]


@pytest.fixture(autouse=True)
def has_warpgroups() -> None:
    if kd.devices("cuda")[0].arch != "sm_90":
        pytest.skip("the device is not of compute capability 9.0")


def _check(launch: Any, dtype: str, shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(depth)
    one, two = rng.integers(-1, 2, (rows, depth)), rng.integers(-1, 2, (columns, depth))
    a = one.T if options.get("is_a_turned") else one
    b = two if options.get("is_b_turned", True) else two.T
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    c = kd.to_device(np.full((rows, columns), 77, np.int32 if dtype == "int8" else np.float32))
    launch(*(kd.to_device(np.ascontiguousarray(each).astype(kind)) for each in (a, b)), c)
    expected = one.astype(np.float32) @ two.T.astype(np.float32)
    np.testing.assert_array_equal(c.copy_to_host(), expected)


@pytest.mark.parametrize(("tile", "threads", "dtype", "options"), _MEMBERS)
def test_products_are_exact(tile, threads, dtype, options):
    rows, columns, depth = tile
    launch = product(*tile, **options)[24, threads]
    for turns in (1, 0, 2, 3, 4, 5, 7, 8, 9, 17):
        _check(launch, dtype, (2 * rows, 2 * columns, turns * depth), options)
    for shape in (
        (rows + 48, columns + 80, 3 * depth + 16),
        (16, 16, 16),
        (9 * rows, 7 * columns, 2 * depth),
    ):
        _check(launch, dtype, shape, options)


def test_sums_of_narrow_floats_are_added_as_float32():
    """Tensor cores would keep 13 bits of them: a sum of 16384 would stay what it is."""
    a, b = np.zeros((128, 9 * 128), np.float32), np.ones((128, 9 * 128), np.float32)
    a[:, :128], a[:, 128::128] = 128, 1
    kind = ml_dtypes.float8_e4m3fn
    c = kd.to_device(np.full((128, 128), 77, np.float32))
    product(128, 128, 128)[1, 256](*(kd.to_device(each.astype(kind)) for each in (a, b)), c)
    np.testing.assert_array_equal(c.copy_to_host(), np.full((128, 128), 128 * 128 + 8))


def sum_of(v, i, j, bias, one, two, m, n):
    v = kd.float32(2) * v + kd.float32(bias[n + j])
    return v + kd.float32(one[m + i, n + j]) - kd.float32(3) * kd.float32(two[m + i, n + j])


@kd.kernel
def with_matrices(a, b, bias, one, two, c, *, BM, BN):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        total = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (BM, 64)), kd.tile.load(b, (n, k), (BN, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, sum_of, bias, one, two, m, n)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    ("tile", "threads"),
    [((128, 256), 256), ((256, 128), 256), ((64, 256), 128), ((192, 128), 384), ((64, 128), 256)],
)
def test_matrices_that_functions_read_are_exact(tile, threads, dtype):
    rng = np.random.default_rng(threads)
    kind, launch = getattr(ml_dtypes, dtype, dtype), with_matrices.member(BM=tile[0], BN=tile[1])
    for rows, columns, depth in ((520, 1032, 328), (768, 1024, 64), (200, 256, 0), (64, 48, 1000)):
        a, b = rng.integers(-1, 2, (rows, depth)), rng.integers(-1, 2, (columns, depth))
        bias = rng.integers(-9, 10, columns)
        one, two = (rng.integers(-99, 100, (rows, columns)) for _ in range(2))
        c = kd.to_device(np.full((rows, columns), np.nan, np.float32))
        kinds = ("float16", "float16", "float32", ml_dtypes.bfloat16, kind)
        given = zip((a, b, bias, one, two), kinds, strict=True)
        launch[5, threads](*(kd.to_device(each.astype(as_)) for each, as_ in given), c)
        wanted = 2 * (a @ b.T) + bias + one - 3 * two
        np.testing.assert_array_equal(c.copy_to_host(), wanted)


@pytest.mark.parametrize("result", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("tile", [(128, 256, 64), (64, 128, 64)])
def test_groups_of_rows_are_exact(tile, result):
    rng = np.random.default_rng(4)
    groups = [0, 1, 64, 65, 128, 129, *map(int, rng.integers(0, 300, 20))]
    total, columns, depth = sum(groups), 528, 320
    table = kd.to_device(rng.permutation(rows_of_groups(groups, columns, tile[:2])))
    a = rng.integers(-2, 3, (total + 5, depth)).astype(ml_dtypes.bfloat16)
    a[total:] = np.nan
    weights = rng.integers(-2, 3, (len(groups), columns, depth)).astype(ml_dtypes.bfloat16)
    expected = [
        rows.astype(np.float32) @ w.astype(np.float32).T
        for rows, w in zip(np.split(a[:total], np.cumsum(groups)[:-1]), weights, strict=True)
    ]
    for blocks in (132, 7):
        c = kd.to_device(np.full((total + 5, columns), 77, result))
        launch = grouped_product(*tile)[blocks, 256]
        launch(kd.to_device(a), kd.to_device(weights), table, c)
        found = c.copy_to_host()
        np.testing.assert_array_equal(found[:total], np.concatenate(expected).astype(result))
        assert (found[total:] == 77).all()


def test_native_launches_encode_maps_of_other_arrays():
    require_native()
    kernel = product(128, 64, 64)
    launch = kernel[24, 256]
    arrays = [kd.to_device(np.ones((256, 64), np.float16)) for _ in range(2)]
    c = kd.to_device(np.zeros((256, 256), np.float32))
    warm_up(launch, *arrays, c)
    with is_native(launch):
        for _ in range(3):
            _check(kernel[24, 256], "float16", (256, 256, 64), {})


@kd.kernel(early_start=True)
def add_to_total(c, total):
    i, j = kd.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total[i, j] = total[i, j] + c[i, j]


@pytest.mark.parametrize("is_captured", [False, True])
def test_kernels_that_start_early_see_what_the_one_before_them_wrote(is_captured):
    """Each product is of other factors, and each sum reads what two kernels before it wrote."""
    rows, columns, depth, count = 512, 512, 4096, 8
    multiply, add = product(128, 256, 64)[8, 256], add_to_total.forall(rows, columns)
    rng = np.random.default_rng(3)
    factors = rng.integers(-1, 2, (2, count, rows, depth)).astype(np.float16)
    a, b = (kd.to_device(each) for each in factors)
    c, total = (kd.to_device(np.zeros((rows, columns), np.float32)) for _ in range(2))

    def run() -> None:
        for number in range(count):
            multiply(a[number], b[number], c)
            add(c, total)

    run()
    expected = sum(
        x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(*factors, strict=True)
    )
    np.testing.assert_array_equal(total.copy_to_host(), expected)
    if not is_captured:
        run()
        np.testing.assert_array_equal(total.copy_to_host(), 2 * expected)
        return
    stream = kd.Stream()
    with stream.capture() as graph:
        run()
    for turn in range(2, 6):
        graph.launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(total.copy_to_host(), turn * expected)
