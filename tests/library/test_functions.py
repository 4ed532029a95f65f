"""What all functions of the library have in common: documents, and arrays of other libraries."""

from __future__ import annotations

import inspect
import re
import sys
import types
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from stdlib_kernels import compact, elementwise, histogram, imaging, linalg, reduce, rows, scan

FUNCTIONS = {
    f"{family.__name__}.{name}": getattr(family, name)
    for family in (compact, elementwise, histogram, imaging, linalg, reduce, rows, scan)
    for name in family.__all__
}


class Tensor:
    """An array of another library, on the host, that speaks DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Standard(Tensor):
    """One whose library speaks the array API standard."""

    def __array_namespace__(self) -> Any:
        take = lambda array: Standard(np.from_dlpack(array))
        return types.SimpleNamespace(from_dlpack=take)


@pytest.fixture(params=[Tensor, Standard])
def tensor(request, monkeypatch):
    """Class of another library's arrays."""
    module = types.ModuleType("tensors")
    module.from_dlpack = lambda array: Tensor(np.from_dlpack(array))
    monkeypatch.setitem(sys.modules, "tensors", module)
    monkeypatch.setattr(Tensor, "__module__", "tensors.inner")
    return request.param


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_says_everything(name):
    function = FUNCTIONS[name]
    text = inspect.getdoc(function)
    for title in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"\n{title}\n" + "-" * len(title) in text
    documented = set()
    for line in text.split("\nReturns\n")[0].splitlines():
        if found := re.match(r"([\w, *]+) : ", line):
            documented |= set(found[1].replace("*", "").split(", "))
    assert documented == set(inspect.signature(function).parameters)
    assert not re.search(r"^\s*\{.*\}$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 100


def test_arrays_of_another_library_give_arrays_of_it(tensor):
    x = np.arange(12.0).reshape(3, 4)
    with kd.use("cpu"):
        got = reduce.sum(tensor(x), axis=1)
        whole = reduce.max(tensor(x))
        both = reduce.dot(tensor(x[0]), tensor(x[1]))
    assert [type(each) for each in (got, whole, both)] == [tensor] * 3
    np.testing.assert_array_equal(got.array, x.sum(axis=1))
    assert whole.array == 11
    assert both.array == x[0] @ x[1]


def test_out_of_another_library_is_itself(tensor):
    x = np.arange(12.0).reshape(3, 4)
    out = tensor(np.full(4, np.nan))
    with kd.use("cpu"):
        assert reduce.mean(tensor(x), 0, out=out) is out
        np.testing.assert_array_equal(out.array, x.mean(axis=0))
        assert rows.softmax(out, out=out) is out
    assert abs(out.array.sum() - 1) < 1e-12


def test_arrays_of_two_kinds_are_refused(tensor):
    with kd.use("cpu"), pytest.raises(ArgumentTypeError, match="out is a ndarray"):
        reduce.sum(tensor(np.ones((2, 3))), 0, out=np.zeros(3))


def test_an_array_of_no_library_that_takes_dlpack_gives_a_device_array(tensor, monkeypatch):
    monkeypatch.delitem(sys.modules, "tensors")
    with kd.use("cpu"):
        got = reduce.sum(Tensor(np.arange(5)))
    assert isinstance(got, kd.DeviceArray)
    assert got == 10


def test_a_conversion_that_is_asked_for_warns_of_nothing(recwarn):
    with kd.use("cpu"):
        got = kd.to_device(np.array([-1.5, 0.0, 2.5])).astype(int)
    np.testing.assert_array_equal(got.copy_to_host(), [-1, 0, 2])
    assert not recwarn.list
