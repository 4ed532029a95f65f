"""Arrays of a form beside the views that NumPy's rules make."""

from __future__ import annotations

import gc
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ClosedResourceError
from kerneldsl.launch.arguments.array_readers import seal
from kerneldsl.memory.forms import FormMethods, NativeForms
from tests.support.extent import examples
from tests.support.native import require_native_forms

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
    require_native_forms()
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
        form = kd.ArrayForm(view, first)
        for made in (form.over(second), FormMethods.view(form, second)):
            for name in _SLOTS:
                assert getattr(made, name) == getattr(wanted, name), name


def _counts(array: kd.DeviceArray) -> list[int]:
    """Return how many references there are to what an array of a form has in common with others."""
    slots = ("device", "location", "shape", "dtype", "_owner", "layout", "size", "strides")
    return [sys.getrefcount(getattr(array, name)) for name in slots]


def test_native_forms_count_references():
    require_native_forms()
    assert isinstance(vars(NativeForms)["view"], types.MethodDescriptorType)
    with kd.use("cpu"):
        x = kd.to_device(np.arange(1000, dtype=np.float64))
        form = kd.ArrayForm(x)
        made = form.view(x)
        before = _counts(x), _counts(made), sys.getrefcount(made)
        for _ in range(100):
            other = form.view(made)
            assert sys.getrefcount(other) == before[2]
            assert gc.is_tracked(other)
        del other
        assert (_counts(x), _counts(made), sys.getrefcount(made)) == before
        assert made.copy_to_host().tolist() == list(range(1000))


def test_native_forms_leave_what_they_do_not_know_to_python():
    require_native_forms()
    with kd.use("cpu"):
        x = kd.empty(4)
        form = kd.ArrayForm(x)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'array'"):
            form.view()
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            form.view(x, x)
        with pytest.raises(AttributeError):
            form.view(np.zeros(4))
        assert form.view(array=x).location == x.location
        for owner in (kd.ArrayForm, kd.DeviceArray):
            nothing = owner.__new__(owner)
            with pytest.raises(AttributeError):
                nothing.view(x) if owner is kd.ArrayForm else form.view(nothing)
        x.location = np.int64(x.location)
        assert form.view(x).location == x.location


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


@pytest.mark.parametrize("is_native", [False, True])
def test_a_stream_s_memory_and_read_only_arrays_are_marked(is_native, monkeypatch):
    require_native_forms()
    if not is_native:
        for name in ("_at", "view"):
            monkeypatch.setattr(NativeForms, name, getattr(FormMethods, name))
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
        with pytest.raises(ArgumentValueError, match="cannot be allocated"):
            form.empty()
        with pytest.raises(ArgumentTypeError, match="a form cannot be made of an ndarray"):
            kd.ArrayForm(np.zeros(3))
        y = kd.empty((4, 4), np.float32)
        y.close()
        with pytest.raises(ClosedResourceError):
            form.over(y)
        with pytest.raises(ClosedResourceError):
            kd.ArrayForm(y)
