"""transpose and matmul against NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from kerneldsl.language.element_types import ELEMENT_TYPES, NUMPY_NAMES
from stdlib_kernels.linalg import batches, blocks, dot, matmul, product, transpose
from tests.support.arrays import HOST_DTYPES, assert_same_bits, poisoned, random_array, strided
from tests.support.extent import examples, full_beyond
from tests.support.launched import null_in_use

#: What the library takes.
NAMES = [name for name in NUMPY_NAMES if not ELEMENT_TYPES[name].is_narrow]
NUMBERS = [name for name in NAMES if name != "bool"]


@pytest.mark.parametrize("dtype", full_beyond(NAMES, ["bool", "complex64"]))
def test_transpose(call, rng, dtype):
    for shape in [(1, 1), (1, 70), (31, 33), (32, 32), (101, 67), (0, 5), (5, 0)]:
        a = random_array(rng, shape, dtype)
        assert_same_bits(call(transpose, a), a.T, f"{shape} {dtype}")


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.integers(0, 90), columns=st.integers(0, 90), step=st.sampled_from([1, 2, -3]))
def test_transpose_of_any_layout(call, rng, rows, columns, step):
    a = strided(random_array(rng, (rows, columns), "float32"), (step, -step))
    assert_same_bits(call(transpose, a), a.T, f"{a.shape}")
    assert_same_bits(call(transpose, a.T), a, f"{a.T.shape}")


def test_transpose_into_out_and_itself(target, rng):
    a = random_array(rng, (40, 40), "int32")
    expected = a.T.copy()
    out = poisoned((40, 40), np.int32)
    assert transpose(a, out=out) is out
    np.testing.assert_array_equal(out, expected)
    transpose(a, out=a)
    np.testing.assert_array_equal(a, expected)


def test_more_rows_than_a_grid_has_blocks(target, rng):
    a = random_array(rng, (65535 * 32 + 5, 2), "uint8")
    assert_same_bits(transpose(a), a.T, "transpose")
    a, b = a[: 65535 * 16 + 3].astype("int32"), random_array(rng, (2, 3), "int32")
    assert_same_bits(matmul(a, b), a @ b, "matmul")


def assert_close_product(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """The error of each sum of k products is at most (k + 1) units of its largest partial sum."""
    dtype = np.result_type(a, b)
    assert got.dtype == dtype
    wide = np.clongdouble if dtype.kind == "c" else np.longdouble
    expected = a.astype(wide) @ b.astype(wide)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = (a.shape[1] + 4) * np.finfo(dtype).eps * scale
    assert np.all(np.abs(got - expected) <= bound + np.finfo(dtype).tiny)


@pytest.mark.parametrize("dtype", full_beyond(NUMBERS, ["float32"]))
def test_matmul(call, rng, dtype):
    for m, k, n in [(1, 1, 1), (16, 16, 16), (17, 5, 33), (50, 47, 31), (3, 0, 4), (0, 3, 2)]:
        a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
        got = call(matmul, a, b)
        if a.dtype.kind in "iu":
            np.testing.assert_array_equal(got, a @ b, err_msg=f"{m} {k} {n} {dtype}")
            assert got.dtype == dtype
        else:
            assert_close_product(got, a, b)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(m=st.integers(1, 40), k=st.integers(0, 40), n=st.integers(1, 40), order=st.booleans())
def test_matmul_of_any_size_and_layout(call, rng, m, k, n, order):
    a, b = random_array(rng, (m, k), "float64"), random_array(rng, (k, n), "float64")
    a = np.asfortranarray(a) if order else strided(a, (2, -1))
    assert_close_product(call(matmul, a, b), a, b)


def test_matmul_of_device_arrays_in_other_orders(target, rng):
    a, b = rng.integers(-9, 10, (3, 4, 5)), rng.integers(-9, 10, (5, 3, 2)).transpose(1, 0, 2)
    for order in ("C", "F"):
        factors = (kd.to_device(np.array(each, order=order)) for each in (a, b))
        np.testing.assert_array_equal(matmul(*factors).copy_to_host(), a @ b)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex128"])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_matmul_of_stacks_and_vectors(call, rng, dtype, data):
    extent = st.sampled_from([0, 1, 2, 3, 8, 33])
    m, k, n = (data.draw(extent) for _ in range(3))
    batch = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(0, 3)))]
    shapes = []
    for matrix in ((m, k), (k, n)):
        own = [n if data.draw(st.booleans()) else 1 for n in batch]
        shapes.append((*own[data.draw(st.integers(0, len(own))) :], *matrix))
    if data.draw(st.booleans()):
        shapes[data.draw(st.integers(0, 1))] = (k,)
    a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in shapes)
    a = strided(a, (2,) * a.ndim)
    if a.ndim == b.ndim == 1:
        b = b[:, None]
    got = call(matmul, a, b)
    np.testing.assert_array_equal(got, a @ b, err_msg=f"{shapes}")
    assert got.dtype == dtype


@pytest.mark.parametrize("dtype", full_beyond(["float32", "float64", "int64"], []))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), count=st.integers(1, 40), layout=st.sampled_from(["C", "F", "strided"]))
def test_matmul_of_small_stacks_by_rows_of_threads(
    target, rng, monkeypatch, dtype, data, count, layout
):
    """Each target takes as many neighbours a thread, and vectors of them, as a GPU."""
    monkeypatch.setattr(batches, "is_on_host", lambda array: False)
    m, k, n = (data.draw(st.sampled_from([1, 3, 4, 8, 12, 33])) for _ in range(3))
    a, b = (rng.integers(-9, 10, s).astype(dtype) for s in ((count, m, k), (count, k, n)))
    if layout == "strided":
        a, b = strided(a, (2, 1, -1)), strided(b, (1, 2, 3))
    elif layout == "F":
        a = np.asfortranarray(a)
    once = rng.integers(-9, 10, (1, k, n)).astype(dtype)
    np.testing.assert_array_equal(matmul(a, b), a @ b, err_msg=f"{count} {m} {k} {n}")
    np.testing.assert_array_equal(matmul(a, once), a @ once, err_msg=f"{count} {m} {k} {n}")


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "halves"), [("float32", 1), ("float32", 2), ("float64", 1)])
def test_matmul_of_large_blocks_on_every_target(target, rng, monkeypatch, dtype, halves):
    monkeypatch.setattr(product, "is_on_host", lambda array: False)
    monkeypatch.setattr(blocks, "_halves", lambda out: halves)
    sizes = [(128, 8, 128), (256, 40, 384), (200, 37, 150), (96, 1, 260), (131, 0, 100)]
    for m, k, n in [*sizes, (256, 16, 512)]:
        a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
        assert_close_product(matmul(a, b), a, b)
        assert_close_product(matmul(np.asfortranarray(a), b[:, ::-1]), a, b[:, ::-1])
    a, b = random_array(rng, (2, 1, 100, 9), dtype), random_array(rng, (3, 9, 97), dtype)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    a, b = (np.ones((100, 100), dtype) for _ in range(2))
    a[3, 7] = np.inf
    np.testing.assert_array_equal(matmul(a, b), a @ b)


@pytest.mark.parametrize(("size", "dtype", "halves"), [
    (1024, "float32", 1), (2048, "float32", 2), (3072, "float32", 1), (8192, "float32", 2),
    (8192, "float64", 1),
])  # fmt: skip
def test_blocks_are_wide_where_their_rounds_are_sooner_done(size, dtype, halves):
    """As measured on an H100, which has 132 multiprocessors."""
    limits = SimpleNamespace(multiprocessor_count=132)
    device = SimpleNamespace(limits=limits)
    out = SimpleNamespace(shape=(size, size), dtype=np.dtype(dtype), device=device)
    assert blocks._halves(out) == halves


@pytest.mark.parametrize("dtype", full_beyond(["float32", "float64", "int32", "uint64"], []))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    m=st.integers(8, 40),
    k=st.integers(0, 150),
    layout=st.sampled_from(["C", "F", "strided"]),
)
def test_large_products_on_the_host_have_the_bits_of_small_ones(
    rng, monkeypatch, dtype, data, m, k, layout
):
    tile = data.draw(st.sampled_from([product.PANELS, *product.HOST_TILES]))
    monkeypatch.setattr(product, "choose_host_tile", lambda out, depth: tile)
    n = data.draw(st.integers(product.WIDTH // np.dtype(dtype).itemsize, 100))
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    if layout == "strided":
        a, b = strided(a, (2, -1)), strided(b, (-1, 3))
    elif layout == "F":
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    results = []
    with kd.use("cpu"):
        for least in (1, 1 << 62):
            monkeypatch.setattr(product, "MIN_PRODUCTS", least)
            results.append(poisoned((m, n), dtype))
            product._multiply(a, b, results[-1], ((), (), ()))
    assert_same_bits(*results, f"{m} {k} {n} {dtype}")


@pytest.mark.parametrize(
    ("threads", "shape", "tile"),
    [
        (1, (1024, 1024, 1024), (512, 512, 256)),
        (2, (1024, 1024, 1024), (512, 512, 256)),
        (16, (1024, 1024, 1024), (256, 256, 64)),
        (2, (100, 100, 100), (64, 64, 64)),
        (2, (16, 1024, 1024), (8, 256, 64)),
        (2, (1024, 1024, 8), product.PANELS),
        (64, (128, 128, 128), product.PANELS),
    ],
)
def test_tiles_of_products_on_the_host_follow_from_its_threads(monkeypatch, threads, shape, tile):
    monkeypatch.setattr(product, "host_threads", lambda: threads)
    rows, columns, depth = shape
    out = np.empty((rows, columns), np.float32)
    assert product.choose_host_tile(out, depth) == tile


def test_a_large_product_on_the_host_goes_by_tiles_or_panels(rng):
    with kd.use("cpu"):
        a, b = random_array(rng, (65, 70), "float32"), random_array(rng, (70, 67), "float32")
        assert_close_product(matmul(a, b), a, b)
        assert_close_product(matmul(a, b.astype("float64")), a, b.astype("float64"))
        stack = rng.integers(-9, 10, (3, 65, 70)).astype("int32")
        np.testing.assert_array_equal(
            matmul(stack, stack.swapaxes(1, 2)), stack @ stack.swapaxes(1, 2)
        )


@pytest.mark.parametrize(
    ("left", "right"),
    full_beyond(
        [
            pytest.param(*pair)
            for pair in (("int32", "float32"), ("float32", "float64"), ("uint8", "int8"))
        ],
        [pytest.param("uint8", "int8")],
    ),
)
def test_matmul_of_two_dtypes(call, rng, left, right):
    a = rng.integers(0, 50, (20, 30)).astype(left)
    b = rng.integers(0, 50, (30, 10)).astype(right)
    expected = a @ b
    got = call(matmul, a, b)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_matmul_keeps_infinities_apart(call):
    a = np.ones((5, 5), np.float32)
    a[2, 3] = np.inf
    b = np.ones((5, 5), np.float32)
    b[4, 1] = np.nan
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(call(matmul, a, b), expected)


def assert_rounded_product(got, a, b, name="matmul"):
    """Products of booleans are exact; floats of 16 bits add up as float32 and are rounded once."""
    exact = getattr(np, name)
    dtype = np.result_type(a, b)
    assert got.dtype == dtype
    if dtype.kind == "b":
        np.testing.assert_array_equal(got, exact(a, b))
        return
    wide = exact(a.astype(np.float64), b.astype(np.float64))
    scale = exact(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    eps = np.finfo(dtype).eps if dtype == np.float16 else 2.0**-7
    bound = eps * np.abs(wide) + 100 * np.finfo(np.float32).eps * scale + 1e-7
    assert np.all(np.abs(got.astype(np.float64) - wide) <= bound)


NARROW_OR_BOOL = [each for each in ("bool", "float16", "bfloat16") if each in HOST_DTYPES]


@pytest.mark.parametrize("dtype", [each for each in NARROW_OR_BOOL if each != "bool"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (130, 65, 200), (300, 513, 70)])
def test_matmul_of_large_matrices_of_16_bits(call, rng, dtype, shape):
    m, n, k = shape
    a, b = (rng.random(each) - 0.4 for each in ((m, k), (n, k)))
    a, b = a.astype(dtype), b.astype(dtype).T
    assert_rounded_product(call(matmul, a, b), a, b)


@pytest.mark.parametrize("parts", [1, 3, 5])
@pytest.mark.parametrize("depth", [64, 500])
def test_parts_of_a_product_are_added_in_their_order(target, rng, parts, depth):
    """Also if the last parts have nothing to add."""
    a, b = (rng.integers(-2, 3, each).astype(np.float16) for each in ((70, depth), (depth, 90)))
    tile = {"rows": 64, "columns": 64, "depth": 64}
    sums = np.full((parts * 128, 90), np.nan, np.float32)
    product.matmul_mma.member(**tile, parts=parts)[3, 128](a, b, sums)
    out = np.empty((70, 90), np.float16)
    product.add_parts.member(parts=parts).forall(70, 90)(sums, out)
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize(
    ("shape", "tile", "parts"),
    [
        ((512, 512, 65536), (128, 256), 16),
        ((256, 4096, 14336), (128, 64), 1),
        ((64, 8192, 8192), (64, 64), 1),
        ((256, 10240, 8192), (128, 192), 1),
        ((256, 8192, 28672), (128, 256), 2),
        ((512, 512, 2048), (64, 64), 1),
        ((256, 6144, 4096), (128, 96), 1),
        ((4096, 4096, 64), (128, 256), 1),
    ],
)
def test_tiles_and_parts_of_products_on_a_device(shape, tile, parts):
    rows, columns, depth = shape
    with null_in_use() as null:
        a, b = (kd.empty(each, np.float16) for each in ((rows, depth), (depth, columns)))
        matmul(a, b)
        found = [each.kernel for each in null.launches]
    assert found == ["matmul_mma", "add_parts"][: 1 + (parts > 1)]
    chosen, count = product.choose_tile((rows, columns), depth)
    assert (chosen[:2], count) == (tile, parts)


def test_a_vector_of_16_bits_is_not_converted(rng):
    """On a device, that a matrix is read once is all that counts."""
    with null_in_use() as null:
        matmul(kd.empty((300, 70), np.float16), kd.empty(70, np.float16))
        assert [each.kernel for each in null.launches] == ["rows_by_vector"]
    a, x = rng.integers(-2, 3, (300, 70)).astype(np.float16), np.arange(70).astype(np.float16)
    found = np.empty(300, np.float16)
    with kd.use("cpu"):
        batches.multiply_vector(a, x, found, np.dtype(np.float32))
    np.testing.assert_array_equal(found, a.astype(np.float32) @ x.astype(np.float32))


@pytest.mark.parametrize("dtype", full_beyond(NARROW_OR_BOOL, ["float16", "bool"]))
def test_matmul_of_floats_of_16_bits_and_of_booleans(call, rng, dtype):
    for left, right in [
        ((5, 7), (7, 3)),
        ((7,), (7, 3)),
        ((2, 1, 5, 7), (4, 7, 1)),
        ((3, 0), (0, 2)),
    ]:
        a, b = (rng.random(shape) - 0.25 for shape in (left, right))
        a, b = (each > 0.5 if dtype == "bool" else each.astype(dtype) for each in (a, b))
        assert_rounded_product(call(matmul, a, b), a, b)
    out = np.empty((5, 5), dtype)
    a = np.ones((5, 300), dtype)
    assert matmul(a, a.T, out) is out
    assert (out == (1 if dtype == "bool" else np.array(300).astype(dtype))).all()


@pytest.mark.parametrize(
    ("left", "right"),
    full_beyond(
        [
            pytest.param("float32", "float32"),
            pytest.param("bool", "bool"),
            pytest.param("int8", "int32"),
            pytest.param("float16", "float16"),
            pytest.param("complex64", "float64"),
            pytest.param("uint64", "uint8"),
        ],
        [pytest.param("float32", "float32"), pytest.param("bool", "bool")],
    ),
)
@settings(max_examples=examples(20, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_dot_of_any_ranks(call, rng, left, right, data):
    depth = data.draw(st.sampled_from([0, 1, 3, 40]))
    extents = st.lists(st.integers(1, 4), max_size=2)
    shape = (*data.draw(extents), depth)
    others = data.draw(extents)
    other = (*others[:-1], depth, *others[-1:])
    shape, other = data.draw(st.sampled_from([(shape, other), (shape, ()), ((), other), ((), ())]))
    x, y = (np.asarray(rng.integers(-3, 4, each)) for each in (shape, other))
    x, y = x.astype(left), y.astype(right)
    if data.draw(st.booleans()):
        x, y = (strided(e, (2,) * e.ndim) if e.ndim else e for e in (x, y))
    got, exact = call(dot, x, y), np.dot(x, y)
    assert (got.dtype, got.shape) == (exact.dtype, np.shape(exact))
    np.testing.assert_array_equal(got, exact)  # of small integers every sum is exact


@pytest.mark.full
@pytest.mark.parametrize(
    ("left", "right"),
    [("float32", "float32"), ("float16", "float16"), ("complex64", "float64")],
)
def test_scalar_products(call, rng, left, right):
    for size in (9000, 40, 1, 0):
        x = random_array(rng, (size,), left)
        y = random_array(rng, (2 * size,), right)[::-2]
        got, dtype = call(dot, x, y), np.result_type(left, right)
        assert got.dtype == dtype
        wide = np.dot(x.astype(np.complex128), y.astype(np.complex128))
        bound = np.dot(np.abs(x).astype(float), np.abs(y).astype(float)) + np.abs(wide)
        assert abs(complex(got) - wide) <= 100 * np.finfo(np.float32).eps * bound + (
            np.finfo(dtype).eps * abs(wide)
        )


def test_dot_into_out(target, rng):
    x, y = rng.random((3, 4)), rng.random((2, 4, 5))
    out = poisoned((3, 2, 5), np.float64)
    assert dot(x, y, out) is out
    np.testing.assert_allclose(out, np.dot(x, y))
    device = kd.to_device(poisoned((3, 2, 5), np.float64))
    assert dot(kd.to_device(x), kd.to_device(y), device) is device
    np.testing.assert_allclose(device.copy_to_host(), np.dot(x, y))


def test_matmul_into_out(target, rng):
    a = random_array(rng, (20, 20), "float64")
    expected = a @ a
    device = kd.to_device(a)
    out = kd.to_device(poisoned((20, 20), np.float64))
    assert matmul(device, device, out) is out
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-10, atol=1e-12)
    matmul(a, a, a)
    np.testing.assert_allclose(a, expected, rtol=1e-10, atol=1e-12)


def test_refusals(target):
    with pytest.raises(ArgumentValueError, match=r"a has 1 dimension\."):
        transpose(np.ones(3))
    with pytest.raises(ArgumentValueError, match=r"a has 3 dimensions.*with permute"):
        transpose(np.ones((2, 3, 4)))
    with pytest.raises(ArgumentTypeError, match="a has the dtype <U1"):
        matmul(np.array([["a"]]), np.ones((1, 1)))
    with pytest.raises(
        ArgumentValueError, match=r"x of shape \(2,\) and y of shape \(3,\) do not fit"
    ):
        dot(np.ones(2), np.ones(3))
    with pytest.raises(ArgumentValueError, match=r"\(2, 3\) and y of shape \(3, 2, 4\) do not fit"):
        dot(np.ones((2, 3)), np.ones((3, 2, 4)))
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(2,\)"):
        dot(np.ones((2, 3)), np.ones((5, 3, 4)), np.zeros(2))
    with pytest.raises(ArgumentValueError, match=r"out is .*float32.* has the dtype float64"):
        dot(np.ones(3), np.ones(3), np.zeros((), np.float32))
    with pytest.raises(ArgumentValueError, match=r"\(2, 3\) and b of shape \(2, 3\) do not fit"):
        matmul(np.ones((2, 3)), np.ones((2, 3)))
    for a, b in ((np.ones(3), np.ones(2)), (np.ones((2, 3, 4)), np.ones((3, 4, 5))), (1.0, 1.0)):
        with pytest.raises(ArgumentError):
            matmul(np.asarray(a), np.asarray(b))
    with pytest.raises(ArgumentTypeError, match="a is an ndarray, and b a DeviceArray"):
        matmul(np.ones((2, 2)), kd.to_device(np.ones((2, 2))))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 4), (9, 100), (40, 1028), (3, 2052)])
def test_rows_of_halves_by_a_vector(rng, dtype, shape):
    """The kernel of GPUs is exact for small integers on any target."""
    a = rng.integers(-8, 9, shape).astype(getattr(kd, dtype))
    x = rng.integers(-8, 9, shape[1]).astype(a.dtype)
    out = np.full(shape[0], np.nan, np.float32)
    with kd.use("cpu"):
        batches.multiply_vector(a, x, out, np.dtype(np.float32))
    assert np.array_equal(out, a.astype(np.float64) @ x.astype(np.float64))
