"""Broadcasting of arguments, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import kerneldsl as kd
from kerneldsl.memory.broadcasting import broadcast_shapes, loop_axes, parse_axes, spread


@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
def test_shapes_are_numpys(shapes):
    assert broadcast_shapes(shapes.input_shapes) == shapes.result_shape


def test_the_shape_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="failed to broadcast argument #1"):
        broadcast_shapes([(2, 3), (2,), (3,)])


@pytest.mark.parametrize("target", ["cpu", "null"])
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4),
    seed=st.integers(0, 9),
)
def test_elements_are_spread_as_numpys(target, shapes, seed):
    values = np.random.default_rng(seed).random(shapes.input_shapes[0])
    expected = np.broadcast_to(values, shapes.result_shape)
    with kd.use(target):
        on_device = kd.to_device(values)
        for given_array in (values, values.T.copy().T, on_device):
            found = spread(given_array, shapes.result_shape)
            assert found.layout == "C"
            np.testing.assert_array_equal(found.copy_to_host(), expected)
        is_same = values.shape == shapes.result_shape and on_device.layout == "C"
        assert (spread(on_device, shapes.result_shape) is on_device) == is_same


def test_axes_of_a_signature():
    assert parse_axes(" (m, n),(),(n) -> (m),() ") == ([("m", "n"), (), ("n",)], [("m",), ()])
    for text in ("(n)", "(n)->(n)->(n)", "n->(n)", "(n)x->(n)"):
        with pytest.raises(ValueError, match="bad token in signature"):
            parse_axes(text)
    with pytest.raises(NameError, match="undefined output symbols: k,m"):
        parse_axes("(n)->(k),(m)")


def test_axes_beyond_those_of_the_function():
    inputs = [("m", "n"), ("n",), ()]
    assert loop_axes([(2, 3), (3,), ()], inputs) == ((), {"m": 2, "n": 3})
    assert loop_axes([(5, 2, 3), (3,), (1,)], inputs) == ((5,), {"m": 2, "n": 3})
    for shapes, match in (
        ([(3,), (3,), ()], "arg #1: insufficient inner dimension"),
        ([(2, 3), (4,), ()], r"arg #2: shape\[0\] mismatch argument"),
        ([(5, 2, 3), (4, 3), ()], "arg #2: outer dimension mismatch"),
    ):
        with pytest.raises(ValueError, match=match):
            loop_axes(shapes, inputs)
