"""What kernels of numba.cuda's programs may contain, on both targets."""

from __future__ import annotations

import enum
from itertools import product

import numpy as np
import pytest
from numba import errors, literal_unroll, types

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.compat.numba_cuda.errors import CudaAPIError
from tests.compat.both_targets import target  # noqa: F401

pytestmark = pytest.mark.usefixtures("target")


@cuda.jit
def moved(x, y, rounds):
    i = cuda.grid(1)
    if i >= len(x):
        return
    grid = cuda.cg.this_grid()
    for _ in range(rounds):
        y[i] = x[(i + 1) % len(x)]
        grid.sync()
        x[i] = y[i]
        grid.sync()


@cuda.jit
def summed(x, y):
    i = cuda.grid(1)
    if i < len(x):
        y[i] = x[i]
        cuda.cg.this_grid().sync()
        y[i] = y[i] + x[len(x) - 1 - i]


class TestBarriersOfTheGrid:
    """Threads beyond the edge of an array have returned, and are not waited for."""

    @pytest.mark.parametrize(("size", "block"), [(100, 32), (1, 64), (129, 64)])
    def test_after_a_return(self, size, block, rng):
        values = rng.integers(0, 1 << 40, size)
        x, y = values.copy(), np.full(size, -1)
        moved[-(-size // block), block](x, y, 3)
        assert x.tolist() == y.tolist() == np.roll(values, -3).tolist()

    @pytest.mark.parametrize("size", [100, 97])
    def test_in_a_guard_around_the_rest(self, size, rng):
        x, y = rng.integers(0, 1 << 40, size), np.full(size, -1)
        summed[4, 32](x, y)
        assert y.tolist() == (x + x[::-1]).tolist()

    def test_kernels_of_kerneldsl_keep_their_rule(self):
        with pytest.raises(kd.BarrierDivergenceError, match="barrier of the grid"):
            kd.kernel(moved.py_func)[4, 32](np.zeros(100), np.zeros(100), 1)


@cuda.jit
def partly(out, n):
    if n > 0:
        found = n
    else:
        found += 1
    out[0] = found


class TestVariablesThatNoPathAssigns:
    def test_they_are_0_and_warned_of(self):
        out = np.full(1, -9)
        with pytest.warns(errors.NumbaWarning, match="Detected uninitialized variable found"):
            cuda.jit(partly.py_func)[1, 1](out, 5)
        assert out[0] == 5
        partly[1, 1](out, 0)
        assert out[0] == 1

    def test_kernels_of_kerneldsl_refuse_them(self):
        with pytest.raises(kd.KernelTypingError, match="found is not defined here"):
            kd.kernel(partly.py_func)[1, 1](np.zeros(1), 1)


def varies(x):
    own = cuda.shared.array(shape=x[0], dtype=types.float32)
    x[0] = own[0]


def varies_in_part(x):
    own = cuda.shared.array(shape=(1, x[0]), dtype=types.float32)
    x[0] = own[0]


def listed(x):
    own = cuda.shared.array(shape=[1, 5], dtype=types.float32)
    x[0] = own[0, 0]


class TestWordsOfErrors:
    """What programs look for in numba-cuda's errors."""

    @pytest.mark.parametrize(
        ("kernel", "kind", "shape"),
        [
            (varies, types.int32[:], "int32"),
            (varies, types.float32[:], "float32"),
            (varies_in_part, types.int32[:], "Tuple(Literal[int](1), int32)"),
            (
                varies_in_part,
                types.float32[:, :],
                "Tuple(Literal[int](1), array(float32, 1d, A))",
            ),
            (listed, types.float32[:], "list(int64)<iv=[1, 5]>"),
        ],
    )
    def test_shapes_that_are_no_constants(self, kernel, kind, shape):
        with pytest.raises(errors.TypingError) as raised:
            cuda.jit((kind,))(kernel)
        said = f"found for signature:\n \n >>> array(shape={shape}, dtype=class(float32))"
        assert "No implementation of function Function(<function shared.array" in str(raised.value)
        assert said in str(raised.value)

    @pytest.mark.parametrize(
        ("index", "ndim", "said"),
        [
            (1.0, 1, "float64 is not a valid index"),
            ((1, 2), 1, "Expected 1 indices, got 2"),
            (1, 2, "Expected 2 indices, got a scalar"),
            ((1,), 2, "Expected 2 indices, got 1"),
        ],
    )
    def test_indices_of_loads_with_a_hint(self, index, ndim, said):
        def kernel(x):
            cuda.ldcs(x, index)

        with pytest.raises(errors.TypingError, match=said):
            cuda.compile_ptx(kernel, (types.Array(types.float32, ndim, "C"),))

    @pytest.mark.parametrize(
        ("mask", "predicate", "said"),
        [
            (types.float32, types.int32, "Mask type must be an integer"),
            (types.boolean, types.int32, "Mask type must be an integer"),
            (types.int32, types.float32, "Predicate must be an integer or boolean"),
        ],
    )
    def test_masks_and_predicates_of_votes(self, mask, predicate, said):
        def kernel(mask, predicate, out):
            out[0] = cuda.all_sync(mask[0], predicate[0])

        with pytest.raises(errors.TypingError, match=said):
            cuda.jit((mask[:], predicate[:], types.int32[:]))(kernel)


@cuda.jit
def name_all(names, records):
    i = cuda.grid(1)
    if i < len(names):
        names[i] = "Añ"
        records[i].x = i
        records[i]["short"] = b"long"
        records[i].text = ""


class TestStrings:
    """Constants that are assigned to strings of arrays."""

    def test_constants_fill_or_are_cut(self):
        names = np.full(5, "before")
        kind = np.dtype([("x", np.int64), ("short", "S3"), ("text", "U5")])
        records = np.full(5, np.array((-1, b"abc", "later"), kind))
        name_all[1, 4](names[:4], records)
        assert names.tolist() == [*["Añ"] * 4, "before"]
        assert records[:4].tolist() == [(i, b"lon", "") for i in range(4)]
        assert records[4].item() == (-1, b"abc", "later")

    def test_bytes_are_no_text(self):
        @cuda.jit
        def kernel(names):
            names[0] = b"a"

        with pytest.raises(errors.TypingError, match="Assign a str to an element"):
            kernel[1, 1](np.array(["a"]))


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = RED


class Suit(enum.IntEnum):
    SPADES = 1
    HEARTS = 2


class Rank(enum.IntEnum):
    ACE = 1


@cuda.jit
def compare(a, out, b):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i, 0] = a == b
        out[i, 1] = a != b
        out[i, 2] = a is b
        out[i, 3] = a is not Color.RED


class TestMembersOfEnumerations:
    @pytest.mark.parametrize(("a", "b"), list(product(Color, repeat=2)))
    def test_they_are_arguments(self, a, b):
        for launch in (compare[1, 8], compare.forall(5)):
            out = np.full((5, 4), -1)
            launch(a, out, b)
            assert (out == (a == b, a != b, a is b, a is not Color.RED)).all()

    @pytest.mark.parametrize(("a", "b"), list(product([*Suit, *Rank], repeat=2)))
    def test_integers_are_compared_by_class(self, a, b):
        out = np.full((5, 4), -1)
        compare[1, 8](a, out, b)
        assert (out == (a == b, a != b, a is b, a is not Color.RED)).all()

    def test_launches_are_repeated(self):
        out = cuda.to_device(np.zeros((5, 4), np.int64))
        launch = compare[1, 8]
        for n in range(50):
            launch(Color.RED, out, Color.GREEN if n % 2 else Color.RED)
            assert out[0, 0] == (n + 1) % 2

    def test_a_signature_takes_none(self):
        kernel = cuda.jit("void(int64, int64[:, ::1], int64)")(compare.py_func)
        with pytest.raises(TypeError, match="a Color cannot be passed"):
            kernel[1, 8](Color.RED, np.zeros((5, 4), np.int64), 1)


class Steps:
    @cuda.jit(device=True)
    def half(x):
        return x / 2

    @cuda.jit
    def run(x, factor):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = Steps.half(x[i]) * factor

    @cuda.jit
    def method(self, x):
        x[0] = 1


class TestClasses:
    def test_kernels_in_the_body(self):
        x = np.arange(5.0)
        Steps.run[1, 8](x, 6)
        assert x.tolist() == [0, 3, 6, 9, 12]

    def test_methods_are_refused(self):
        with pytest.raises(errors.UnsupportedError, match=r"Steps\.method is a method"):
            Steps.method[1, 1](1, np.zeros(1))


def test_an_empty_grid_is_an_error_of_the_driver():
    with pytest.raises(CudaAPIError, match="contains 0"):
        compare[0, 8]


@cuda.jit(device=True)
def add_one(x):
    return x + 1


@cuda.jit(device=True)
def double(x):
    return x * 2


STEPS = (add_one, double, add_one)


def test_tuples_of_functions_are_unrolled():
    @cuda.jit
    def kernel(x):
        for step in literal_unroll(STEPS):
            x[0] = step(x[0])

    x = np.array([3])
    kernel[1, 1](x)
    assert x.tolist() == [9]
