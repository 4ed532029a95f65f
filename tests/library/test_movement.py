"""Movements against NumPy's, over dtypes, axes and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError
from stdlib_kernels import movement
from stdlib_kernels.movement import (
    concatenate,
    flip,
    pad,
    permute,
    permuting,
    put_along_axis,
    repeat,
    roll,
    stack,
    take,
    take_along_axis,
    tile,
)
from tests.support.arrays import HOST_DTYPES, assert_same_bits, poisoned, random_array, strided
from tests.support.extent import examples, full_beyond, sample

DTYPES = ["bool", "int8", "uint16", "float16", "bfloat16", "float32", "int64", "complex128"]
DTYPES = [each for each in DTYPES if each in HOST_DTYPES]
MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]


@st.composite
def layouts(draw):
    """Draw a shape, a step in memory along each axis, an axis, and an order of the axes."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 5)) for _ in range(ndim)]
    for _ in range(2):
        shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([1, 2, 33, 64, 67]))
    shape[draw(st.integers(0, ndim - 1))] *= draw(st.sampled_from([0, 1, 1, 1, 1]))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(ndim)]
    order = draw(st.permutations(range(ndim)))
    return tuple(shape), tuple(steps), draw(st.integers(-ndim, ndim - 1)), tuple(order)


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts())
def test_permute(call, rng, dtype, drawn):
    shape, steps, _, order = drawn
    x = strided(random_array(rng, shape, dtype), steps)
    for given_array in (x, np.ascontiguousarray(x), x.T):
        got = call(permute, given_array, order)
        assert_same_bits(got, np.transpose(given_array, order), f"{shape} {steps} {order}")
        assert got.flags.c_contiguous
    assert_same_bits(call(permute, x), x.T, f"{shape} {steps}")


@pytest.mark.full
@pytest.mark.parametrize("shape", [(65, 64), (3, 128, 129), (2, 1, 70, 90), (4, 5, 6, 7, 8)])
@pytest.mark.parametrize("dtype", ["uint8", "complex128"])
def test_permute_of_many_tiles(call, rng, dtype, shape):
    x = random_array(rng, shape, dtype)
    for shift in range(1, len(shape)):
        order = tuple(np.roll(range(len(shape)), shift).tolist())
        assert_same_bits(call(permute, x, order), np.transpose(x, order), f"{shape} {order}")


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("rows", [2, 8, 100, 700])
def test_permute_of_short_axes_by_tiles_as_on_a_gpu(target, rng, monkeypatch, dtype, rows):
    monkeypatch.setattr(permuting, "is_on_host", lambda array: False)
    for columns in (2, 3, 8, 65, 600):
        x = random_array(rng, (2, rows, columns), dtype)
        assert_same_bits(permute(x, (0, 2, 1)), x.transpose(0, 2, 1), f"{rows} {columns}")


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, []))
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), shift=st.integers(-80, 80), count=st.integers(0, 3))
def test_along_axes(call, rng, dtype, drawn, shift, count):
    shape, steps, axis, _ = drawn
    x = strided(random_array(rng, shape, dtype), steps)
    label = f"{shape} {steps} {axis} {shift} {count}"
    assert_same_bits(call(flip, x, axis), np.flip(x, axis), label)
    assert_same_bits(call(flip, x), np.flip(x), label)
    assert_same_bits(call(roll, x, shift), np.roll(x, shift), label)
    assert_same_bits(call(roll, x, shift, axis), np.roll(x, shift, axis), label)
    assert_same_bits(call(repeat, x, count, axis), np.repeat(x, count, axis), label)
    assert_same_bits(call(repeat, x, count), np.repeat(x, count), label)
    for reps in (count, (2, count), (2, 1, 1, 2, 1)):
        assert_same_bits(call(tile, x, reps), np.tile(x, reps), label)


def test_tile_of_no_axes(call):
    for reps, shape in (((), ()), (2, (2,)), ((1, 3), (1, 3))):
        assert_same_bits(call(tile, np.array(3.0), reps), np.full(shape, 3.0), f"{reps}")


@pytest.mark.parametrize("mode", full_beyond(MODES, ["reflect"]))
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(n=st.integers(1, 40), before=st.integers(0, 90), behind=st.integers(0, 90))
def test_pad(call, rng, mode, n, before, behind):
    x = random_array(rng, (n, 3), "float32")
    named = {"constant_values": 2.5} if mode == "constant" else {}
    for width in (((before, behind), (1, 0)), (behind, 2), 3):
        exact = np.pad(x, width, mode, **named)
        assert_same_bits(call(pad, x, width, mode, **named), exact, f"{n} {width}")


STATISTICS = ["maximum", "minimum", "mean", "median"]


@pytest.mark.parametrize("mode", ["linear_ramp", *full_beyond(STATISTICS, ["median"])])
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_pad_by_numbers_of_the_elements(call, rng, mode, data):
    dtype = data.draw(st.sampled_from(["int8", "int64", "uint8", "float32", "float64"]))
    shape = data.draw(st.sampled_from([(1,), (6,), (5, 4), (4, 1), (2, 3, 4)]))
    sides = st.tuples(st.integers(0, 9), st.integers(0, 9))
    width = data.draw(st.integers(0, 4) | sides | st.tuples(*[sides] * len(shape)))
    x = random_array(rng, shape, dtype)
    x = (np.round(x) if x.dtype.kind == "f" else x % np.array(50, dtype)).astype(dtype)
    if x.dtype.kind == "f" and mode != "linear_ramp" and data.draw(st.booleans()):
        x.flat[0] = np.nan
    named = {}
    if mode == "linear_ramp":
        named["end_values"] = data.draw(st.sampled_from([0, 3, (1, 7)]))
    elif data.draw(st.booleans()):
        named["stat_length"] = data.draw(st.sampled_from([1, 2, (1, 3), 100]))
    for view in (x, strided(x, (-2,) * x.ndim)):
        got, exact = call(pad, view, width, mode, **named), np.pad(view, width, mode, **named)
        assert got.dtype == exact.dtype
        if x.dtype.kind == "f":
            np.testing.assert_allclose(got, exact, 1e-6, 1e-6, err_msg=f"{shape} {width} {named}")
        else:
            np.testing.assert_array_equal(got, exact, f"{shape} {width} {named}")


def test_constants_of_each_side(call, rng):
    x = random_array(rng, (3, 4), "float32")
    for fills in sample((((1, 2), (3, 4.5)), (1, 2), ((7,), (8,))), 1):
        exact = np.pad(x, ((2, 1), (0, 3)), constant_values=fills)
        got = call(pad, x, ((2, 1), (0, 3)), constant_values=fills)
        assert_same_bits(got, exact, f"{fills}")
    z = x.astype(np.complex64) * 1j
    got = call(pad, z, 2, "linear_ramp", end_values=1 + 2j)
    np.testing.assert_allclose(got, np.pad(z, 2, "linear_ramp", end_values=1 + 2j), 1e-6)
    for width, named in (
        (2, {"mode": "mean", "stat_length": 0}),
        (2, {"mode": "mean", "stat_length": (1.5, 2)}),
        (2, {"constant_values": (1, 2, 3)}),
        (-1, {}),
        (2, {"mode": "odd"}),
    ):
        with pytest.raises((ArgumentValueError, ArgumentTypeError)):
            call(pad, x, width, **named)
    for mode in sample(STATISTICS, 1):
        x = (rng.integers(0, 4, (4, 5)) + 1j * rng.integers(0, 4, (4, 5))).astype(np.complex64)
        np.testing.assert_allclose(call(pad, x, 2, mode), np.pad(x, 2, mode), 1e-6)
    np.testing.assert_array_equal(call(pad, x, 2, "empty")[2:-2, 2:-2], x)
    assert call(pad, x[:0], ((1, 2), (0, 0)), "empty").shape == (3, 5)


@pytest.mark.parametrize("dtype", full_beyond(["int8", "uint64", "complex128"], ["uint64"]))
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@settings(max_examples=examples(20, 5), deadline=None, suppress_health_check=list(HealthCheck))
@given(n=st.integers(1, 40), before=st.integers(0, 40), behind=st.integers(0, 40))
def test_pad_by_point_reflections(call, rng, mode, dtype, n, before, behind):
    x = rng.integers(0, 20, (n, 3)).astype(dtype)
    exact = np.pad(x, ((before, behind), (1, 0)), mode, reflect_type="odd")
    got = call(pad, x, ((before, behind), (1, 0)), mode, reflect_type="odd")
    assert_same_bits(got, exact, f"{n} {before} {behind}")


@pytest.mark.parametrize("dtype", full_beyond(["int8", "int64", "uint32"], ["int64"]))
@settings(max_examples=examples(15, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), most=st.integers(0, 4))
def test_repeat_by_counts(call, rng, dtype, drawn, most):
    shape, steps, axis, _ = drawn
    x = strided(random_array(rng, shape, "float32"), steps)
    for along, n in ((axis, shape[axis]), (None, x.size)):
        counts = rng.integers(0, most + 1, n).astype(dtype)
        exact = np.repeat(x, counts, along)
        assert_same_bits(call(repeat, x, counts, along), exact, f"{shape} {along}")
        assert_same_bits(call(repeat, x, tuple(counts.tolist()), along), exact, "a tuple")
        one = np.array([most], dtype)
        assert_same_bits(call(repeat, x, one, along), np.repeat(x, one, along), "one for all")
        flags = counts != 0
        assert_same_bits(call(repeat, x, flags, along), np.repeat(x, flags, along), "flags")


def test_refused_counts(call):
    x = np.arange(4.0)
    with pytest.raises(ArgumentValueError, match="negative"):
        call(repeat, x, np.array([1, -1, 2, 0]))
    with pytest.raises(ArgumentValueError, match="one for each of the 4"):
        call(repeat, x, np.array([1, 1, 2]))
    with pytest.raises(ArgumentTypeError, match="float64"):
        call(repeat, x, np.ones(4))
    with pytest.raises(ArgumentValueError, match="repeats has 2 dimensions"):
        call(repeat, x, np.ones((2, 2), int))
    with pytest.raises(ArgumentValueError, match="repeats is -1"):
        call(repeat, x, (1, -1, 2, 0))


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), mode=st.sampled_from(["raise", "wrap", "clip"]), m=st.integers(0, 9))
def test_take(call, rng, dtype, drawn, mode, m):
    shape, steps, axis, _ = drawn
    x = strided(random_array(rng, shape, dtype), steps)
    n = shape[axis]
    if not n:
        return
    reach = n if mode == "raise" else 3 * n
    places = rng.integers(-reach, reach, (m, 2), np.int32)
    assert_same_bits(
        call(take, x, places, axis, mode=mode), np.take(x, places, axis, mode=mode), ""
    )
    if x.size:
        flat = rng.integers(0, x.size, 7)
        assert_same_bits(call(take, x, flat, mode=mode), np.take(x, flat), "flattened")
    wanted = list(shape)
    wanted[axis] = m
    each = rng.integers(-n, n, wanted)
    assert_same_bits(call(take_along_axis, x, each, axis), np.take_along_axis(x, each, axis), "")
    flat = each.reshape(-1)
    exact = np.take_along_axis(x, flat, None)
    assert_same_bits(call(take_along_axis, x, flat, None), exact, "flattened")


def test_indices_in_an_empty_list(call, rng):
    x = random_array(rng, (3, 4), "float32")
    for axis in (None, 0, 1):
        assert_same_bits(call(take, x, [], axis), np.take(x, [], axis), f"{axis}")
    assert_same_bits(call(take_along_axis, x[0], []), x[0, :0], "")
    with pytest.raises(ArgumentTypeError, match="indices has the dtype float64"):
        call(take, x, [0.0])
    with pytest.raises(ArgumentValueError, match=r"The axis has 0 elements. Test x.size"):
        call(take, x[:0], [0], 0, mode="wrap")


@pytest.mark.parametrize("combine", full_beyond(["replace", "add", "max", "min"], ["add"]))
@pytest.mark.parametrize("dtype", full_beyond(["int32", "float64", "uint8"], ["int32"]))
def test_put(call, rng, dtype, combine):
    for shape, axis, m in (((50,), 0, 300), ((4, 30, 3), 1, 40), ((6, 5), -1, 2)):
        x = (random_array(rng, shape, "int16") % 50).astype(dtype)
        n = shape[axis]
        wanted = list(shape)
        wanted[axis] = m
        places = rng.integers(-n, n, wanted)
        if combine == "replace":  # of several values for a place any one may stay
            places = rng.permuted(np.broadcast_to(np.arange(n), (*shape[:axis], n)), axis=-1)
            places = np.moveaxis(np.argsort(rng.random(shape), axis), axis, axis)
        values = (random_array(rng, places.shape, "int16") % 50).astype(dtype)
        exact = x.copy()
        index = [
            np.broadcast_to(k, places.shape) for k in np.ogrid[tuple(map(slice, places.shape))]
        ]
        index[axis] = places
        at = {"add": np.add, "max": np.maximum, "min": np.minimum}.get(combine)
        if at is None:
            np.put_along_axis(exact, places, values, axis)
        else:
            at.at(exact, tuple(index), values)
        assert_same_bits(
            call(put_along_axis, x, places, values, axis, combine=combine), exact, f"{shape}"
        )


@pytest.mark.full
def test_put_into_what_is_strided(target, rng):
    x = strided(np.zeros((6, 5)), (2, -1))
    places = np.argsort(rng.random((6, 5)), 1)
    values = rng.random((6, 5))
    exact = np.zeros((6, 5))
    np.put_along_axis(exact, places, values, 1)
    assert put_along_axis(x, places, values) is x
    np.testing.assert_array_equal(x, exact)


@pytest.mark.parametrize("function", ["concatenate", "stack"])
@pytest.mark.parametrize("kind", full_beyond(["numpy", "device"], ["numpy"]))
def test_joining(target, rng, function, kind):
    make = kd.to_device if kind == "device" else np.asarray
    parts = [random_array(rng, (3, 4, 2), dtype) for dtype in ("int16", "float32", "int16")]
    for axis in (0, 1, -1):
        got = getattr(movement, function)(tuple(make(each) for each in parts), axis)
        assert isinstance(got, kd.DeviceArray) == (kind == "device")
        got = got.copy_to_host() if kind == "device" else got
        assert_same_bits(got, getattr(np, function)(parts, axis), f"{function} {axis}")


@pytest.mark.parametrize("function", ["concatenate", "stack"])
def test_joining_into_another_dtype(target, rng, function):
    ours, numpys = getattr(movement, function), getattr(np, function)
    parts = [rng.integers(0, 99, (3, 4)).astype(each) for each in ("int16", "float32")]
    for make in (np.asarray, kd.to_device):
        given_parts = tuple(map(make, parts))
        for dtype, casting in (("float64", "safe"), ("float16", "same_kind"), ("int8", "unsafe")):
            exact = numpys(parts, 1, dtype=dtype, casting=casting)
            got = ours(given_parts, 1, dtype=dtype, casting=casting)
            assert_same_bits(np.asarray(kd.as_array(got).copy_to_host()), exact, dtype)
            out = make(poisoned(exact.shape, dtype))
            assert ours(given_parts, 1, out, casting=casting) is out
            np.testing.assert_array_equal(kd.as_array(out).copy_to_host(), exact)
        for named, error in (
            ({"dtype": np.int32}, ArgumentTypeError),
            ({"dtype": np.float32, "casting": "no"}, ArgumentTypeError),
            ({"casting": "any"}, ArgumentValueError),
            ({"dtype": np.float64, "out": make(np.zeros(exact.shape))}, ArgumentTypeError),
            ({"out": make(np.zeros((9, 9)))}, ArgumentValueError),
        ):
            with pytest.raises(error):
                ours(given_parts, 1, **named)


def test_joining_of_flattened_arrays(call, rng):
    x = strided(random_array(rng, (3, 4), "float32"), (2, -1))
    got = call(lambda *parts: concatenate(parts, None), x, x[0], x[:0])
    assert_same_bits(got, np.concatenate((x, x[0], x[:0]), None), "flattened")


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_roll_by_several_shifts(call, rng, data):
    x = random_array(rng, (4, 5), "float32")
    shifts = data.draw(st.lists(st.integers(-7, 7), min_size=1, max_size=3))
    axis = data.draw(st.sampled_from([0, -1, None, tuple(i % 2 for i in range(len(shifts)))]))
    exact = np.roll(x, shifts, axis)
    for shift in (tuple(shifts), np.array(shifts)):
        assert_same_bits(call(roll, x, shift, axis), exact, f"{shifts} {axis}")
    one = np.array(shifts[0])
    assert_same_bits(call(roll, x, one, axis), np.roll(x, one, axis), f"{one} {axis}")
    with pytest.raises(ArgumentValueError, match="shift is"):
        call(roll, x, np.array([shifts]), axis)


def test_out(target, rng):
    x = random_array(rng, (20, 30), "float32")
    for make in (np.asarray, kd.to_device):
        out = make(poisoned((30, 20), np.float32))
        assert permute(make(x), out=out) is out
        np.testing.assert_array_equal(kd.as_array(out).copy_to_host(), x.T)
        out = make(poisoned((2, 30), np.float32))
        assert take(make(x), make(np.array([3, -1])), 0, out=out) is out
        np.testing.assert_array_equal(kd.as_array(out).copy_to_host(), x[[3, -1]])
    for fresh in (flip(x, ()), tile(x, 1), pad(x, 0), roll(x, 0)):
        assert not np.may_share_memory(fresh, x)
        np.testing.assert_array_equal(fresh, x)


@pytest.mark.parametrize("turned", [False, True])
def test_put_of_an_array_into_itself(target, rng, turned):
    x = random_array(rng, (40, 50), "int64")
    for k, make in enumerate((np.asarray, kd.to_device)):
        places = np.argsort(x, axis=1)
        y = make(x.copy())
        put_along_axis(y, make(places), y[::-1] if turned else y)
        exact = x.copy()
        np.put_along_axis(exact, places, x[::-1] if turned else x, 1)
        np.testing.assert_array_equal(y.copy_to_host() if k else y, exact)
        z = make(np.array([3, 0, 2, 1]))
        put_along_axis(z, z, make(np.array([5, 6, 7, 8])))
        np.testing.assert_array_equal(z.copy_to_host() if k else z, [6, 8, 7, 5])
        again = flip(y[::-1], ())
        np.testing.assert_array_equal(again.copy_to_host() if k else again, exact[::-1])


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentValueError, match="indices has the index 3, which"):
        take(x, np.array([0, 3]), 1)
    with pytest.raises(ArgumentValueError, match="mode is 'around'"):
        take(x, np.array([0]), mode="around")
    with pytest.raises(ArgumentTypeError, match="indices has the dtype float64"):
        take(x, np.ones(2))
    with pytest.raises(ArgumentValueError, match=r"indices has the shape \(2,\)"):
        take_along_axis(x, np.array([0, 1]))
    with pytest.raises(ArgumentValueError, match="axes are"):
        permute(x, (0, 0))
    with pytest.raises(ArgumentValueError, match="mode is 'linear'"):
        pad(x, 1, "linear")
    with pytest.raises(ArgumentValueError, match="pad_width is -1"):
        pad(x, -1)
    with pytest.raises(ArgumentValueError, match="repeats is -1"):
        repeat(x, -1)
    with pytest.raises(ArgumentTypeError, match="shift is 'a'"):
        roll(x, "a")
    for function, name in ((roll, "shift"), (repeat, "repeats"), (tile, "reps")):
        with pytest.raises(ArgumentTypeError, match=f"{name} is True"):
            function(x, True)
    with pytest.raises(ArgumentTypeError, match="axis is True"):
        flip(x, True)
    with pytest.raises(ArgumentValueError, match=r"constant_values .* uint8 holds, 0 to 255"):
        pad(x.astype(np.uint8), 1, constant_values=np.int64(300))
    with pytest.raises(ArgumentValueError, match=r"arrays\[1\] has the shape .* axis 0"):
        concatenate((x, x.T))
    with pytest.raises(ArgumentValueError, match=r"arrays\[1\] has the shape"):
        stack((x, x.T))
    flags = np.ones(2, bool)
    with pytest.raises(ArgumentTypeError, match=r"combine is .*of dtype bool it must be 'replace'"):
        put_along_axis(flags, np.array([0, 1]), flags, combine="add")
    x.flags.writeable = False
    with pytest.raises(ReadOnlyArrayError):
        put_along_axis(x, np.zeros((2, 3), int), np.ones((2, 3)))
