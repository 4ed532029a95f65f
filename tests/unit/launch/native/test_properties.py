"""Native launches against Python's: for any arguments the same launch, or the same error."""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.language.element_types import NUMPY_NAMES
from kerneldsl.launch.native import machine
from tests.support.extent import examples
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, require_native


class Number(int):
    """A subclass is no int to native code."""


class Real(float):
    """A subclass is no float to native code."""


@kd.kernel
def takes(a, x):
    pass


@kd.kernel
def writes(a, x):
    x[0] = 1


@kd.kernel("void(float32, float64[:])")
def declared(a, x):
    pass


@kd.kernel("void(int16, float32[::1])")
def narrow(a, x):
    pass


_KERNELS = (takes, writes, declared, narrow)


def numpy_scalars():
    def make(dtype):
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return st.booleans().map(np.bool_)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            return st.integers(int(limits.min), int(limits.max)).map(kind.type)
        if kind.kind == "f":
            return st.floats(width=8 * kind.itemsize).map(kind.type)
        return st.complex_numbers(width=8 * kind.itemsize).map(kind.type)

    return st.sampled_from(NUMPY_NAMES).flatmap(make)


scalars = st.one_of(
    st.integers(-(2**63) - 2, 2**64 + 2),
    st.sampled_from([0, 2**15 - 1, 2**15, -(2**15) - 1, 2**24 + 1, (1 << 60) + (1 << 36) + 1]),
    st.floats(),
    st.sampled_from([-0.0, 1e300, 3.4028235677973366e38]),
    st.booleans(),
    st.complex_numbers(),
    numpy_scalars(),
    st.sampled_from(
        [np.longlong(3), np.ulonglong(3), Number(5), Real(2.5), None, "text", np.str_()]
    ),
)


@st.composite
def arrays(draw):
    dtype = draw(
        st.sampled_from([*NUMPY_NAMES, "float32", "float64", "float64", "longdouble", ">f8"])
    )
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    array = np.ones(shape, dtype)
    view = draw(st.sampled_from(["whole", "transposed", "every second", "reversed", "unaligned"]))
    if view == "transposed":
        array = array.T
    elif view == "every second" and shape:
        array = array[::2]
    elif view == "reversed" and shape:
        array = array[::-1]
    elif view == "unaligned":
        array = np.zeros(array.nbytes + 1, np.uint8)[1:].view(dtype).reshape(shape)
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


class Recipe(NamedTuple):
    """A device array, to be made where the test's devices are."""

    dtype: str
    shape: tuple[int, ...]
    view: str

    def make(self):
        with kd.use("fake:1" if self.view == "other" else "fake:0"):
            array = kd.zeros(self.shape, self.dtype)
        if self.view == "transposed":
            return array.T
        if self.view == "reversed" and self.shape:
            return array[::-1]
        if self.view == "read-only":
            return array.as_read_only()
        if self.view == "closed":
            array.close()
        return array


@st.composite
def device_arrays(draw):
    dtype = draw(st.sampled_from([*NUMPY_NAMES, "float32", "float64", "float64"]))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    view = draw(
        st.sampled_from(
            ["whole", "whole", "transposed", "reversed", "read-only", "closed", "other"]
        )
    )
    return Recipe(dtype, shape, view)


values = st.recursive(
    st.one_of(scalars, arrays(), device_arrays()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


def build(value):
    """Arguments from what was drawn."""
    if isinstance(value, Recipe):
        return value.make()
    return tuple(build(each) for each in value) if isinstance(value, tuple) else value


def leaves(args):
    for each in args:
        yield from leaves(each) if isinstance(each, tuple) else (each,)


def outcome(target, launch, args):
    """What a launch has told the target, or raised."""
    before = len(target.launches)
    try:
        launch(*args)
    except kd.KernelError as error:
        return type(error), str(error)
    told = target.launches[before:]
    assert len(told) == 1
    device, config, named = told[0]
    # Where there is no element, any step leads to the next.
    empty = {name.rpartition(".")[0] for name, n in named.items() if ".shape[" in name and n == 0}
    return (
        device,
        config,
        {
            name: repr(value)
            for name, value in named.items()
            if not (".strides[" in name and name.rpartition(".")[0] in empty)
        },
    )


@pytest.fixture(autouse=True)
def native():
    require_native()


@pytest.mark.parametrize("is_host", [False, True], ids=["device", "host"])
@settings(max_examples=examples(300), deadline=None)
@given(
    which=st.sampled_from(_KERNELS),
    first=st.tuples(values, values),
    second=st.tuples(values, values),
    place=st.sampled_from([None, "fake:0", "fake:1"]),
)
def test_the_same_launch_or_the_same_error(is_host, which, first, second, place):
    """The first arguments are prepared; the second ones meet what was prepared for the first."""
    with installed(NativeFakeTarget("fake", is_host=is_host)) as target, ExitStack() as stack:
        stack.enter_context(kd.use(place or "fake:0"))
        which._remember_launches()
        launch = which.forall(3)
        calls = [build(first), build(first), build(second)]
        for args in calls:
            for _ in range(3):
                found = outcome(target, launch, args)
            with machine.suspended():
                expected = outcome(target, launch, args)
            if not is_host and any(isinstance(each, np.ndarray) for each in leaves(args)):
                # They are copied to another address by each launch.
                found, expected = (str(each).split(".data")[0] for each in (found, expected))
            assert found == expected


@settings(max_examples=examples(200), deadline=None)
@given(values=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats()), min_size=1))
def test_numbers_arrive_as_they_are(values):
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        takes._remember_launches()
        launch = takes[1, 1]
        for example in (1, 1.0):
            launch.bind(example, 0)
        for value in values:
            launch(value, 0)
            assert repr(target.launches[-1][2]["a"]) == repr(value)
        assert target.native_launches > 0
