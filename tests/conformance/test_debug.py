"""Debug mode: faults reach the host with line, index, bound and thread; else there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.kernels.kernel import Kernel
from tests.conformance.kernels import DEBUG_CASES, QUICK_CASES
from tests.support.cases import Case
from tests.support.extent import full_beyond


@kd.kernel(debug=True)
def reads_beyond(x, out):
    i = kd.grid(1)
    out[i] = x[i + 1]


@kd.kernel(debug=True)
def writes_below(m):
    i, j = kd.grid(2)
    m[i, j - 9] = 1


@kd.kernel(debug=True)
def wraps_around(x, out):
    i = kd.grid(1)
    out[i] = x[-1 - i]


@kd.func
def place(n):
    return kd.grid(1) + n


@kd.kernel(debug=True)
def returns_before(x, out):
    i = kd.grid(1)
    if i >= out.size:
        return
    out[i] = x[place(0)]


@kd.func
def advance(pair):
    return (pair[1], pair[0] + pair[1])


@kd.kernel(debug=True)
def tuples_of_all_origins(x, out):
    i = kd.grid(1)
    if i < out.size:
        parts = divmod(x[i], 3)
        total = parts[0] + parts[1]
        for pair in ((1, 2), (3, 4)):
            total += pair[0] * pair[1]
        pair = (0, 1)
        for _ in range(5):
            pair = advance(pair)
        out[i] = total + pair[0]


ROWS = ((1, 2), (3, 4))


@kd.kernel(debug=True)
def tuples_in_tuples(x, out):
    i = kd.grid(1)
    mixed = ((5, 6), x)
    out[i] = ROWS[1][0] + mixed[0][1] + mixed[1][i]
    for pair in enumerate(x):
        out[i] += pair[0] * pair[1]
    for pair in zip(x, (1, 2)):  # noqa: B905 - Numba has no strict=
        out[i] += pair[0] * pair[1]


@kd.kernel(debug=True)
def array_in_a_tuple(x, out):
    i = kd.grid(1)
    mixed = ((5, 6), x)
    out[i] = mixed[0][1] + mixed[1][i + 3]


@kd.kernel(debug=True)
def tuples_of_calls(numbers, out):
    i = kd.grid(1)
    words = kd.random.philox(1, i)
    digits = kd.unpack(kd.uint32(0x76543210), kd.int4)
    found = kd.match_all_sync(0xFFFFFFFF, 5)
    first, second = numbers
    out[i] = (words[1] & 1) + digits[1] % 10 + found[1] + second[i % 2] + numbers[1][0] + first


@kd.kernel(debug=True)
def element_of_a_tuple(numbers, out):
    i = kd.grid(1)
    out[i] = numbers[1][i]


@kd.kernel(debug=True)
def index_in_a_tuple(places, out):
    i = kd.grid(1)
    out[i, 0] = 1
    out[places[0]] = 7


@kd.kernel(debug=True)
def parameters_named_as_hidden_ones(extent, fault):
    i = kd.grid(1)
    if i < fault.size:
        fault[i] = extent[0] * 100 + extent[1] + i


@kd.kernel(debug=True)
def asserts(x, out):
    i = kd.grid(1)
    assert x[i] >= 0, "only non-negative values"
    out[i] = x[i]


@kd.kernel(debug=True)
def raises(x, out):
    i = kd.grid(1)
    if x[i] < 0:
        raise ValueError("negative value")
    out[i] = x[i]


@kd.kernel(debug=True)
def faults_before_barrier(x, out):
    s = kd.shared.array(32, np.int64)
    t = kd.threadIdx.x
    s[t] = x[t + 5]
    kd.syncthreads()
    out[t] = s[31 - t]


@kd.func
def element(x, i):
    return x[i + 40]


@kd.kernel(debug=True)
def faults_in_function(x, out):
    i = kd.grid(1)
    out[i] = element(x, i)


@kd.kernel
def without_debug(x, out):
    i = kd.grid(1)
    assert x[i] >= 0, "compiled out"
    if x[i] < -100:
        raise ValueError("compiled out")
    out[i] = x[i]


def _arrays():
    return np.arange(32), np.full(32, -7)


def test_index_beyond_the_end(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target), pytest.raises(IndexError) as caught:
        reads_beyond[2, 16](x, out)
    error = caught.value
    assert isinstance(error, kd.KernelFault)
    assert error.where is not None
    assert "x[i + 1]" in error.where.line
    assert error.where.filename == __file__
    assert error.block_idx == (1, 0, 0)
    assert error.thread_idx == (15, 0, 0)
    assert "32" in str(error)


def test_index_below_the_start(computing_target: str) -> None:
    m = np.zeros((4, 6), np.int64)
    with kd.use(computing_target), pytest.raises(IndexError) as caught:
        writes_below.forall(4, 6)(m)
    assert "m[i, j - 9]" in caught.value.where.line
    assert "6" in str(caught.value)


def test_negative_indices_within_bounds_are_no_fault(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target):
        wraps_around[2, 16](x, out)
    assert (out == x[::-1]).all()


def test_checks_after_an_early_return(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target):
        returns_before[3, 16](x, out)
    assert (out == x).all()
    with kd.use(computing_target), pytest.raises(IndexError) as caught:
        returns_before[3, 16](x[:7], out)
    assert "x[place(0)]" in caught.value.where.line


def test_elements_of_tuples_are_not_checked(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target):
        tuples_of_all_origins.forall(out.size)(x, out)
    assert (out == x // 3 + x % 3 + 14 + 5).all()


def test_tuples_in_tuples(computing_target: str) -> None:
    x, out = np.arange(4), np.full(4, -1)
    with kd.use(computing_target):
        tuples_in_tuples.forall(out.size)(x, out)
        assert out.tolist() == [3 + 6 + k + 14 + 2 for k in range(4)]
        with pytest.raises(IndexError, match=r"Index 4 .* of mixed\[1\] with extent 4"):
            array_in_a_tuple.forall(out.size)(x, out)


def test_tuples_that_are_not_written_out(computing_target: str) -> None:
    out = np.full(32, -1)
    with kd.use(computing_target):
        tuples_of_calls[1, 32]((10, (100, 200)), out)
    parity = out - [213 + 100 * (i % 2) for i in range(32)]
    assert set(parity) == {0, 1}


def test_a_computed_index_of_a_tuple_is_checked(computing_target: str) -> None:
    out = np.full(4, -1)
    with kd.use(computing_target):
        element_of_a_tuple.forall(2)((0, (7, 8)), out)
        assert out.tolist() == [7, 8, -1, -1]
        with pytest.raises(IndexError, match=r"of numbers\[1\] with extent 2"):
            element_of_a_tuple.forall(4)((0, (7, 8)), out)


def test_a_tuple_as_an_index_is_checked_in_each_part(computing_target: str) -> None:
    out = np.zeros((4, 3), np.int64)
    with kd.use(computing_target):
        index_in_a_tuple.forall(4)(((-1, 2),), out)
        assert out[3, 2] == 7
        with pytest.raises(IndexError, match="Index 3 is out of range for axis 1 of out"):
            index_in_a_tuple.forall(4)(((1, 3),), out)


@pytest.mark.parametrize("case", full_beyond(QUICK_CASES, DEBUG_CASES), ids=lambda c: c.name)
def test_cases(computing_target: str, case: Case, rng: np.random.Generator) -> None:
    """What is valid is no fault, and computes the same."""
    kernel = case.kernel
    compiled = replace(kernel.options.compile, debug=True)
    options = kernel.options._replace(compile=compiled)
    debugged = Kernel(kernel.function, options, kernel._constant_values)
    replace(case, kernel=debugged).check(computing_target, rng)


def test_parameters_may_have_any_name(computing_target: str) -> None:
    _, out = _arrays()
    with kd.use(computing_target):
        parameters_named_as_hidden_ones.forall(out.size)((7, 5), out)
    assert (out == 705 + np.arange(out.size)).all()


def test_assert(computing_target: str) -> None:
    x, out = _arrays()
    x[21] = -1
    with kd.use(computing_target), pytest.raises(AssertionError) as caught:
        asserts[2, 16](x, out)
    assert isinstance(caught.value, kd.KernelFault)
    assert "only non-negative values" in str(caught.value)
    assert (caught.value.block_idx, caught.value.thread_idx) == ((1, 0, 0), (5, 0, 0))
    assert "assert" in caught.value.where.line


def test_raise(computing_target: str) -> None:
    x, out = _arrays()
    x[3] = -1
    with kd.use(computing_target), pytest.raises(ValueError, match="negative value") as caught:
        raises[2, 16](x, out)
    assert isinstance(caught.value, kd.KernelFault)
    assert "raise ValueError" in caught.value.where.line
    assert caught.value.thread_idx == (3, 0, 0)


def test_fault_before_a_barrier_ends_the_launch(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target), pytest.raises(IndexError):
        faults_before_barrier[1, 32](x, out)


def test_fault_in_a_device_function_names_its_line(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target), pytest.raises(IndexError) as caught:
        faults_in_function[1, 32](x, out)
    assert "x[i + 40]" in caught.value.where.line


def test_a_launch_after_a_fault_works(computing_target: str) -> None:
    x, out = _arrays()
    with kd.use(computing_target):
        with pytest.raises(IndexError):
            reads_beyond[2, 16](x, out)
        reads_beyond[1, 31](x, out)
    assert (out[:31] == x[1:]).all()


def test_nothing_is_checked_without_debug(computing_target: str) -> None:
    x, out = _arrays()
    x[:4] = (-1, -500, -2, 7)
    with kd.use(computing_target):
        without_debug[2, 16](x, out)
    assert out[0] == -1
    assert (out[2:] == x[2:]).all()


def test_environment_switches_debug_on(
    computing_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELDSL_DEBUG", "1")

    @kd.kernel
    def fresh(x, out):
        i = kd.grid(1)
        out[i] = x[i + 1]

    x, out = _arrays()
    with kd.use(computing_target), pytest.raises(IndexError):
        fresh[2, 16](x, out)


def _sum_where_shared_is_small(x, limit, out):
    """Have the lanes whose shared element is below a limit add ones; others keep their index."""
    t = kd.threadIdx.x
    shared = kd.shared.array(96, np.uint16)
    shared[t] = x[t]
    kd.syncthreads()
    value = np.float32(t)
    if limit > shared[t]:
        value = kd.warp.sum(np.float32(1))
    out[t] = value


def test_lanes_part_at_a_condition_on_shared_memory(computing: str, rng) -> None:
    x = rng.permutation(96).astype(np.uint16)
    is_small = x < 40
    ones = np.repeat(is_small.reshape(3, 32).sum(axis=1), 32)
    expected = np.where(is_small, ones, np.arange(96)).astype(np.float32)
    for debug in (False, True):
        out = np.full(96, np.nan, np.float32)
        kd.kernel(_sum_where_shared_is_small, debug=debug)[1, 96](x, 40, out)
        np.testing.assert_array_equal(out, expected)
