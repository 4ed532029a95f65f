"""What an atomic function converts to the type of the elements is warned of where that shows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.source import exec_source


def _warnings_of(call: str, element: str, value: str, target: str) -> list[str]:
    """Return what a launch says of a call with an array `out`, and an array `v` of values."""
    text = (
        "import numpy as np\nimport kerneldsl as kd\n@kd.kernel\ndef kernel(out, v):\n"
        f"    i = kd.grid(1)\n    if i < v.size:\n        {call}\n"
    )
    kernel = exec_source(text)["kernel"]
    with kd.use(target), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kernel.forall(2)(np.ones(2, element), np.ones(2, value))
    return [str(each.message) for each in seen if issubclass(each.category, kd.KernelWarning)]


@pytest.mark.parametrize(
    ("call", "element", "value", "becomes"),
    [
        ("kd.atomic.max(out, 0, v[i])", "uint32", "int64", "2**32 too large"),
        ("kd.atomic.min(out, 0, v[i])", "uint16", "int8", "2**16 too large"),
        ("kd.atomic.inc(out, 0, v[i])", "uint32", "int32", "2**32 too large"),
        ("kd.atomic.dec(out, 0, v[i] - 3)", "uint64", "int32", "2**64 too large"),
        ("kd.atomic.cas(out, 0, v[i], 3)", "uint32", "int64", "2**32 too large"),
        ("kd.atomic.max(out, 0, -7)", "uint32", "int64", "np.uint32(-7) where that is meant"),
        ("kd.atomic.cas(out, 0, -1, 3)", "uint8", "int64", "np.uint8(-1) where that is meant"),
        ("kd.atomic.max(out, 0, v[i])", "int32", "uint32", "does not fit wraps around"),
        ("kd.atomic.max(out, 0, v[i])", "int32", "int64", "does not fit wraps around"),
        ("kd.atomic.min(out, 0, v[i])", "uint32", "uint64", "does not fit wraps around"),
    ],
)
def test_an_integer_that_is_compared_as_another_type(
    call: str, element: str, value: str, becomes: str, computing_target: str
) -> None:
    (said,) = _warnings_of(call, element, value, computing_target)
    assert f"the elements of out are {element}" in said
    assert becomes in said


@pytest.mark.parametrize("name", ["add", "sub", "max", "min", "exch", "store"])
def test_a_float_in_an_integer_element(name: str, computing_target: str) -> None:
    (said,) = _warnings_of(f"kd.atomic.{name}(out, 0, v[i])", "int32", "float32", computing_target)
    assert "a value of type float32 is stored in an element of type int32" in said


@pytest.mark.parametrize(
    ("call", "element", "value"),
    [
        ("kd.atomic.max(out, 0, i + 1)", "uint32", "int64"),
        ("kd.atomic.max(out, 0, v[i] + v[i])", "int32", "int32"),
        ("kd.atomic.max(out, 0, v[i])", "int64", "uint32"),
        ("kd.atomic.max(out, 0, v[i] & 255)", "uint8", "int64"),
        ("kd.atomic.max(out, 0, np.uint32(v[i]))", "uint32", "int64"),
        ("kd.atomic.cas(out, 0, 0, -1)", "uint32", "int64"),
        ("kd.atomic.add(out, 0, v[i])", "uint32", "int64"),
        ("kd.atomic.add(out, 0, int(v[i]))", "int32", "float32"),
        ("kd.atomic.add(out, 0, 2.0)", "int32", "float32"),
        ("kd.atomic.add(out, 0, v[i])", "float32", "float64"),
    ],
)
def test_nothing_is_said_of_what_fits_or_is_meant(
    call: str, element: str, value: str, computing_target: str
) -> None:
    assert _warnings_of(call, element, value, computing_target) == []
