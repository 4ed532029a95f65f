"""What a launch reads again: captured constants; and dtypes, ranks and overlaps that change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.native import is_native, require_native, warm_up

FACTOR = 2


@kd.kernel
def scaled(x, out):
    i = kd.grid(1)
    out[i] = x[i] * FACTOR


def test_captured_global_changed_between_launches(
    computing_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(20)
    with kd.use(computing_target):
        for factor in (2, 5, 2, 1.5):
            monkeypatch.setattr(f"{__name__}.FACTOR", factor)
            out = np.zeros(20)
            scaled.forall(20)(x, out)
            assert (out == x * factor).all()


def test_captured_closure_changed_between_launches(computing_target: str) -> None:
    offset = 10

    @kd.kernel
    def shifted(x, out):
        i = kd.grid(1)
        out[i] = x[i] + offset

    x = np.arange(20)
    with kd.use(computing_target):
        for offset in (10, 20, 10):
            out = np.zeros(20, np.int64)
            shifted.forall(20)(x, out)
            assert (out == x + offset).all()


def test_a_captured_array_that_is_changed_is_seen_by_the_next_launch(
    computing_target: str,
) -> None:
    table = np.arange(5)

    @kd.kernel
    def looks_up(out):
        i = kd.grid(1)
        out[i] = table[i]

    with kd.use(computing_target):
        for _ in range(3):
            for _ in range(4):  # launches that are repeated natively
                out = np.full(5, -1, np.int64)
                looks_up.forall(5)(out)
                assert (out == table).all()
            table += 7


@kd.kernel
def doubled(x, out):
    i = kd.grid(1)
    out[i] = x[i] + x[i]


def test_one_kernel_many_dtypes(computing_target: str) -> None:
    with kd.use(computing_target):
        for dtype in (np.int8, np.float32, np.uint64, np.complex64, np.float64, np.int8):
            x = np.arange(20).astype(dtype)
            out = np.zeros(20, dtype)
            doubled.forall(20)(x, out)
            assert (out == x * 2).all()


def test_overlapping_views_of_one_array(computing_target: str) -> None:
    base = np.arange(40)
    with kd.use(computing_target):
        doubled.forall(10)(base[::4], base[1::4])
    expected = np.arange(40)
    expected[1::4] = expected[::4] * 2
    assert (base == expected).all()


def test_read_only_input_is_read(computing_target: str) -> None:
    x = np.arange(20)
    x.setflags(write=False)
    out = np.zeros(20, np.int64)
    with kd.use(computing_target):
        doubled.forall(20)(x, out)
    assert (out == x * 2).all()


def test_read_only_output_is_refused(target: str) -> None:
    out = np.zeros(20, np.int64)
    out.setflags(write=False)
    with kd.use(target), pytest.raises(kd.ReadOnlyArrayError):
        doubled.forall(20)(np.arange(20), out)


def test_integer_beyond_int64_is_refused(target: str) -> None:
    @kd.kernel
    def fill(value, out):
        out[kd.grid(1)] = value

    with kd.use(target), pytest.raises(kd.ArgumentError):
        fill.forall(5)(2**63, np.zeros(5, np.int64))


def test_empty_arrays(computing_target: str) -> None:
    empty = np.zeros(0, np.int64)
    with kd.use(computing_target):
        doubled.forall(0)(empty, empty.copy())


def test_large_extent_is_covered_once(computing_target: str) -> None:
    @kd.kernel
    def visit(out):
        i, j = kd.grid(2)
        out[i, j] += 1

    out = np.zeros((1531, 1027), np.int8)
    with kd.use(computing_target):
        visit.forall(*out.shape)(out)
    assert (out == 1).all()


def _scaling(factor: np.float32) -> kd.DeviceFunction:
    @kd.func
    def scale(value, factor=factor):
        return value * factor

    return scale


def test_functions_of_one_name_have_defaults_of_their_own(computing_target: str) -> None:
    twice, five_times = _scaling(np.float32(2)), _scaling(np.float32(5))

    @kd.kernel
    def both(x, out):
        i = kd.grid(1)
        out[i] = twice(x[i]) + five_times(x[i])

    host = np.arange(20, dtype=np.float32)
    require_native()
    with kd.use(computing_target):
        x, out = kd.to_device(host), kd.to_device(np.full_like(host, np.nan))
        launch = both.forall(20)
        warm_up(launch, x, out)
        with is_native(launch):
            launch(x, out)
        assert (out.copy_to_host() == host * 7).all()


def test_a_default_is_no_attribute_of_an_object_of_the_functions_name(
    computing_target: str,
) -> None:
    twice, scale = _scaling(np.float32(2)), SimpleNamespace(factor=np.float32(100))

    @kd.kernel
    def both(x, out):
        i = kd.grid(1)
        out[i] = twice(x[i]) + scale.factor

    x = np.arange(20, dtype=np.float32)
    out = np.full_like(x, np.nan)
    with kd.use(computing_target):
        both.forall(20)(x, out)
    assert (out == x * 2 + 100).all()
