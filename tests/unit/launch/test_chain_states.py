"""A state of a chain that is too small for the blocks of a launch is refused before it starts."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from tests.support.read_kernels import barriers_of

_KINDS = {
    "out": "int64[::1]",
    "state": "uint64[::1]",
    "other": "uint64[::1]",
    "begin": "int64",
    "is_wanted": "bool",
}


@kd.kernel
def number(out, state):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)


@kd.func
def before_block(state, value):
    return kd.chain.before(state, kd.chain.next(state), value)


@kd.kernel
def in_a_function(out, state):
    before = before_block(state, 1)
    out[before] = before


@kd.kernel
def two_states(out, state, other):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1) + kd.chain.before(other, part, 0)


@kd.kernel
def under_a_condition(out, state, is_wanted):
    if is_wanted:
        part = kd.chain.next(state)
        out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def behind_a_return(out, state, is_wanted):
    if not is_wanted:
        return
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def of_a_part(out, state, begin):
    held = state[begin:]
    part = kd.chain.next(held)
    out[part] = kd.chain.before(held, part, 1)


@kd.kernel
def of_a_name(out, state):
    state = state[1:]
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)


@pytest.mark.parametrize(
    ("kernel", "states"),
    [
        (number, {1}),
        (in_a_function, {1}),
        (two_states, {1, 2}),
        (under_a_condition, set()),
        (behind_a_return, set()),
        (of_a_part, set()),
        (of_a_name, set()),
    ],
)
def test_which_arguments_are_states(kernel: kd.Kernel, states: set[int]) -> None:
    signature = ", ".join(_KINDS[name] for name in inspect.signature(kernel.function).parameters)
    assert barriers_of(kernel.function, signature).chain_states == states


@pytest.mark.parametrize("device", ["cpu", "null"])
@pytest.mark.parametrize("kernel", [number, in_a_function])
def test_a_small_state_is_refused(kernel: kd.Kernel, device: str) -> None:
    out, state = np.full(5, -1), np.zeros(14, np.uint64)
    with kd.use(device), pytest.raises(ArgumentValueError) as raised:
        kernel[5, 3](out, state)
    assert raised.value.value == 14
    for text in (
        "state has 14 elements, and is the state of a chain of 5 blocks in",
        "kd.chain needs 3 elements for each block, 15 here",
        "state = kd.zeros(15, np.uint64)",
    ):
        assert text in str(raised.value)
    assert (out == -1).all()
    assert not state.any()


def test_the_state_that_is_small_is_named() -> None:
    with kd.use("cpu"), pytest.raises(ArgumentValueError, match=r"^other has 0 elements"):
        two_states[2, 4](np.zeros(2), np.zeros(6, np.int64), np.zeros(0, np.int64))


def test_a_state_that_is_not_needed_may_be_empty() -> None:
    out = np.full(5, -1)
    with kd.use("cpu"):
        under_a_condition[5, 2](out, np.zeros(0, np.uint64), False)
        behind_a_return[5, 2](out, np.zeros(0, np.uint64), False)
    assert (out == -1).all()


@settings(max_examples=30, deadline=None)
@given(x=st.integers(1, 5), y=st.integers(1, 3), z=st.integers(1, 2), missing=st.integers(-3, 3))
def test_three_elements_for_each_block(x: int, y: int, z: int, missing: int) -> None:
    blocks = x * y * z
    state = np.zeros(max(0, 3 * blocks - missing), np.int64)
    out = np.full(blocks, -1)
    with kd.use("cpu"):
        if missing > 0:
            with pytest.raises(ArgumentValueError, match=f"{3 * blocks} here"):
                number[(x, y, z), 7](out, state)
        else:
            number[(x, y, z), 7](out, state)
            np.testing.assert_array_equal(out, np.arange(blocks))


def test_repeated_launches_are_checked() -> None:
    """Native code that repeats a launch hands one with a smaller state back."""
    launch = number[50, 32]
    large, small = np.zeros(150, np.uint64), np.zeros(149, np.uint64)
    out = np.empty(50)
    with kd.use("cpu"):
        for _ in range(80):
            launch(out, large)
        launch(out, np.zeros(151, np.uint64))
        for _ in range(3):
            with pytest.raises(ArgumentValueError, match="149 elements"):
                launch(out, small)
            launch(out, large)
    np.testing.assert_array_equal(out, np.arange(50))
    assert not small.any()
