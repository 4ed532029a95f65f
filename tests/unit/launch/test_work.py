"""The work that plans are made by: read once, also for kernels with their own code."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelTypingError
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.recorded import recording
from kerneldsl.launch.work import assumed_work, kernel_work
from targets.cuda.compile.regions import read as reading
from tests.support.counting import counted

_F = "float32[::1]"


def touches_all(x, n, y, z):
    i = kd.grid(1)
    x[i] += 1
    y[i, 0] += 1
    z[i, 0, 0] += 1


def test_of_unknown_code_one_element_of_each_array_is_assumed() -> None:
    signature = f"{_F}, int64, float64[:, ::1], int32[:, :, ::1]"
    assumed = assumed_work(parse_signature(signature))
    for x_is_last in (True, False):
        assert assumed.body(x_is_last=x_is_last) == counted(touches_all, signature).body(
            x_is_last=x_is_last
        )


def _planned(kernel: Any, signature: str, extent: int) -> Any:
    shape = kernel._read_shape((extent,), None)
    return kernel._dispatcher.request(shape, (signature,), None, "sm_90")


def test_the_function_that_is_counted_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    read, units = reading.read_function, []

    def noted(unit: Any, *args: Any, **options: Any) -> Any:
        units.append(unit.name)
        return read(unit, *args, **options)

    monkeypatch.setattr(reading, "read_function", noted)

    @kd.kernel
    def once(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i] * 3

    with recording():  # nothing is taken from the cache
        request = _planned(once, f"{_F}, {_F}", 1 << 20)
        work = kernel_work(request)
        assert kernel_work(request) is work
        assert units == ["once"]
        once.ptx(f"{_F}, {_F}", arch="sm_90")
    assert units == ["once"]


def test_signs_that_a_count_found_are_warned_of() -> None:
    @kd.kernel
    def mixed(x, y, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    signature = "uint64[::1], int64[::1], float64[::1]"
    with recording():
        kernel_work(_planned(mixed, signature, 1 << 20))
        with pytest.warns(kd.KernelWarning, match="uint64"):
            mixed.ptx(signature, arch="sm_90")


def test_an_error_of_types_is_raised_by_the_compiler() -> None:
    @kd.kernel
    def untyped(x, out):
        i = kd.grid(1)
        out[i] = x[i] + "text"

    with recording():
        request = _planned(untyped, f"{_F}, {_F}", 1 << 20)
        assert kernel_work(request).body().accesses == ()
        with pytest.raises(KernelTypingError) as raised:
            untyped.forall(1 << 20).plan(f"{_F}, {_F}", arch="sm_90")
    assert raised.value.where is not None


def test_what_plans_count_is_recorded() -> None:
    @kd.kernel
    def scaled(x, out):
        i = kd.grid(1)
        out[i] = 2 * x[i]

    for _ in range(2):  # what is known is recorded, too
        with recording() as found:
            work = kernel_work(_planned(scaled, f"{_F}, {_F}", 1 << 20))
        (noted,) = found.counted
        assert noted.work == work
        assert noted.kinds == parse_signature(f"{_F}, {_F}")
