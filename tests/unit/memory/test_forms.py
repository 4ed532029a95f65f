"""Arrays of a form beside the views that NumPy's rules make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ClosedResourceError
from kerneldsl.launch.arguments.array_readers import seal
from tests.support.extent import examples

_SLOTS = (
    *("device", "location", "shape", "size", "strides", "dtype", "_owner", "is_read_only"),
    *("is_closed", "layout", "packed", "code", "_block"),
)


@settings(deadline=None, max_examples=examples(100))
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
    is_sealed=st.booleans(),
)
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_an_array_of_a_form_is_the_view_that_had_it(target, shape, data, is_sealed):
    index = tuple(
        data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(n - 1, None), 0]))
        for n in shape
    )
    with kd.use(target):
        first, second = kd.empty(tuple(shape), np.int16), kd.empty(tuple(shape), np.int16)
        view, wanted = first[index].T, second[index].T
        if is_sealed:
            seal(view)
            seal(wanted)
        made = kd.ArrayForm(view, first).over(second)
        for name in _SLOTS:
            assert getattr(made, name) == getattr(wanted, name), name


def test_memory_is_made_and_given_back():
    with kd.use("cpu"):
        like = kd.empty((3, 4), np.float32)
        form = kd.ArrayForm(like)
        with kd.MemoryPool() as pool:
            made = form.empty()
            assert pool.stats().in_use_bytes == 48
            assert made.shape == (3, 4)
            assert made.layout == "C"
            made[...] = np.arange(12, dtype=np.float32).reshape(3, 4)
            assert made[1].copy_to_host().tolist() == [4, 5, 6, 7]
            del made
            assert pool.stats().in_use_bytes == 0


def test_a_stream_s_memory_and_read_only_arrays_are_marked():
    with kd.use("null"):
        first = kd.empty(5, np.float32)
        seal(first)
        form = kd.ArrayForm(first)
        with kd.Stream():
            made = form.empty()
        wanted = made[:]
        seal(wanted)
        assert made._block == wanted._block != form.empty()._block
        first.is_read_only = True
        locked = form.over(first)
        assert locked.is_read_only
        assert locked._block[16] == 1


def test_what_is_not_like_the_base_is_refused():
    with kd.use("cpu"):
        x = kd.empty((4, 4), np.float32)
        form = kd.ArrayForm(x[:, 1], x)
        others = [x.T, x[:3], kd.empty((4, 4), np.int32), kd.empty((2, 8), np.float32)]
        for other in others:
            with pytest.raises(ArgumentValueError, match="not like a form's base"):
                form.over(other)
        with pytest.raises(ArgumentValueError, match="no memory of its own"):
            form.empty()
        with pytest.raises(ArgumentTypeError, match="a form was asked for of an ndarray"):
            kd.ArrayForm(np.zeros(3))
        y = kd.empty((4, 4), np.float32)
        y.close()
        with pytest.raises(ClosedResourceError):
            form.over(y)
        with pytest.raises(ClosedResourceError):
            kd.ArrayForm(y)
