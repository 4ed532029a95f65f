"""What functions refuse of arrays, axes and dtypes, and whether their remedies work."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import kerneldsl as kd
import stdlib_kernels as sk
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.conversions import AxisError, conversion
from stdlib_kernels import movement, reduce, sort
from stdlib_kernels.parameters import names_of
from tests.library.test_functions import FUNCTIONS
from tests.support.extent import full_beyond

X = np.arange(6.0).reshape(2, 3)
PLACES = np.zeros((2, 3), np.int64)
#: Arguments by the names of parameters without a default.
ARGUMENTS = {
    **dict.fromkeys(("x", "keys", "values", "grad", "y", "a", "v", "image"), X),
    "arrays": (X, X), "indices": PLACES, "labels": PLACES[:, 0], "condition": X[0] > 1,
    "weights": X[0], "shift": 1, "repeats": 2, "k": 1, "op": lambda a, b: a + b, "identity": 0,
    "size": 3, "sigma": 1.0, "rank": 1, "percentile": 50, "format": "int8",
}  # fmt: skip


def required(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty]


WITH_AXIS = [name for name, f in FUNCTIONS.items() if "axis" in inspect.signature(f).parameters]


@pytest.mark.parametrize("axis", [2, -3, 9])
@pytest.mark.parametrize("name", WITH_AXIS)
def test_an_axis_out_of_range_is_numpys_error(target, name, axis):
    """Each function of the library that has an axis raises one class, which is NumPy's too."""
    function = FUNCTIONS[name]
    arguments = [ARGUMENTS[each] for each in required(function)]
    beyond = {2: 3, -3: -4}.get(axis, axis) if name.endswith("stack") else axis
    with pytest.raises(AxisError, match=f"axis {beyond} is not one") as caught:
        function(*arguments, axis=beyond)
    assert isinstance(caught.value, np.exceptions.AxisError)
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, ArgumentValueError)
    assert (caught.value.axis, caught.value.ndim) == (beyond, 3 if name.endswith("stack") else 2)


def test_axes_by_tuples_and_permutations(target):
    for call in (
        lambda: reduce.sum(X, (0, 5)),
        lambda: movement.flip(X, (0, -3)),
        lambda: movement.roll(X, (1, 1), (0, 2)),
        lambda: movement.permute(X, (0, 2)),
    ):
        with pytest.raises(AxisError):
            call()


#: Arguments of NumPy's functions that flatten an array of no axes, or reduce it, for axis 0 and -1.
OF_NO_AXES = {
    **dict.fromkeys(("sum", "prod", "min", "max", "any", "all", "count_nonzero"), ()),
    **dict.fromkeys(("argmin", "argmax", "argsort", "cumsum", "cumprod"), ()),
    "take": ([0, -1, 0],), "repeat": (3,),
}  # fmt: skip


@pytest.mark.parametrize("name", full_beyond(OF_NO_AXES, ["sum", "argsort", "cumsum", "take"]))
def test_axes_of_arrays_of_no_axes_are_numpys(call, rng, name):
    x, function = np.array(rng.uniform(1, 2)), getattr(sk, name)
    for axis in (0, -1):
        wanted = getattr(np, name)(x, *OF_NO_AXES[name], axis=axis)
        got = np.asarray(call(lambda x, axis: function(x, *OF_NO_AXES[name], axis=axis), x, axis))
        np.testing.assert_array_equal(got, wanted)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    for axis in (1, -2):
        with pytest.raises(AxisError):
            function(x, *OF_NO_AXES[name], axis=axis)


def test_softmax_of_an_array_of_no_axes(call):
    assert call(sk.softmax, np.array(3.0)) == 1
    assert call(sk.log_softmax, np.array(3.0), 0) == 0


MATRIX_LIKE = {"matrix": lambda x: x.view(np.matrix), "MaskedArray": lambda x: np.ma.array(x)}


@pytest.mark.parametrize("kind", MATRIX_LIKE)
def test_arrays_that_keep_rules_of_their_own_are_refused(target, kind):
    """numpy.matrix has two axes whatever is taken of it, and a masked array hides elements."""
    refused = 0
    for function in FUNCTIONS.values():
        names = required(function) if inspect.isroutine(function) else []
        first = names[0] if names else None
        if first not in ARGUMENTS or not isinstance(ARGUMENTS[first], np.ndarray):
            continue
        rest = {each: ARGUMENTS.get(each, X) for each in names[1:]}
        with pytest.raises(ArgumentTypeError, match=f"is a {kind}. Library functions take"):
            function(MATRIX_LIKE[kind](ARGUMENTS[first]), **rest)
        refused += 1
    assert refused > 40
    with pytest.raises(ArgumentTypeError, match=f"is a {kind}"):
        movement.concatenate((X, MATRIX_LIKE[kind](X)))
    with pytest.raises(ArgumentTypeError, match=f"out is a {kind}"):
        reduce.sum(X, 0, out=MATRIX_LIKE[kind](np.empty((1, 3))))


REAL = names_of("biuf", halves=True)


def remedied(x, wanted=REAL):
    """Return the arrays that a remedy names for `x`, which functions that take `wanted` take."""
    text = conversion("x", x.dtype, wanted)
    expressions = re.findall(
        r"np\.unique\(x.*?\)\[1\]|x(?:\.\w+\(.*?\)\)?|\[.*?\]|\.real|\.imag)", text
    )
    return [eval(each, {"np": np, "x": x}) for each in expressions], text  # noqa: S307


def test_remedies_lose_nothing(rng):
    dates = np.array(["2020-01-02", "1969-12-31", "2262-04-11"], "M8[D]")
    (numbers, back), text = (sort.sort(remedied(dates)[0][0]), dates), remedied(dates)[1]
    assert (numbers.view("<M8[D]") == np.sort(back)).all()
    assert ".view('<M8[D]')" in text
    spans = np.array([5, -7, 0], "m8[ns]")
    assert (sort.sort(remedied(spans)[0][0]).view("m8[ns]") == np.sort(spans)).all()
    texts = np.array(["b", "ab", "", "z", "ab"])
    for each in (texts, texts.astype("S")):
        (places,), _ = remedied(each)
        assert (each[sort.argsort(places)] == np.sort(each)).all()
    z = rng.normal(size=3) + 1j * rng.normal(size=3)
    for each in (z, z.astype("complex64")):
        parts, _ = remedied(each)
        assert (parts[0] + 1j * parts[1] == each).all()
    records = np.array([(1, 2.5), (3, 4.5)], "i4,f4")
    assert (remedied(records)[0][0] == records["f0"]).all()
    for dtype in (">i4", ">f8", ">u8", ">i2"):
        swapped = np.array([1, 200, 3], dtype)
        (native,), _ = remedied(swapped)
        assert native.dtype.isnative
        assert native.dtype.itemsize == swapped.dtype.itemsize
        assert (sort.sort(native) == np.sort(swapped)).all()


@pytest.mark.parametrize("dtype", names_of("biufc", halves=True))
@pytest.mark.parametrize("wanted", [("int64",), ("uint8",), ("float32", "float64"), ("float32",),
                                    ("int16", "int32", "int64", "uint32")])  # fmt: skip
def test_a_conversion_that_may_lose_values_says_so(dtype, wanted):
    dtype = np.dtype(getattr(kd, dtype, dtype))
    if dtype.name in wanted:
        return
    text = conversion("x", dtype, wanted)
    named = re.search(r"x\.astype\(np\.(\w+)\)", text)
    is_safe = any(np.can_cast(dtype, each) for each in wanted)
    if is_safe:
        assert np.can_cast(dtype, named[1])
        assert "hold" not in text
        assert "round" not in text
    elif dtype.kind == "c":
        assert named is None
        assert "x.real and x.imag" in text
    else:
        kept = f"if {named[1]} holds all its values"
        if np.dtype(named[1]).kind == "f":
            kept = "which rounds"
        assert "values below 2**63" in text or kept in text


def test_indices_and_outs_have_remedies_of_their_own(target):
    places = np.array([300], np.uint64)
    with pytest.raises(ArgumentTypeError, match=r"indices\.astype\(np\.int64\), which holds"):
        movement.take(np.arange(1000), places, mode="clip")
    assert movement.take(np.arange(1000), places.astype(np.int64), mode="clip") == [300]
    for array in (np.ones(2, np.longdouble), np.array([1, 2], object)):
        with pytest.raises(ArgumentTypeError, match=r"x\.astype\(np\.float64\)"):
            sk.sum(array)
    with pytest.raises(ArgumentValueError, match=r"NumPy's partition, write sort\(x\) or top_k"):
        sk.partition(X[0], 2)
    with pytest.raises(ArgumentTypeError, match=r"\[x\[i\] for i in range\(len\(x\)\)\]"):
        sk.concatenate(X)
    with pytest.raises(ArgumentValueError, match=r"Test x.size first, or pass initial=…"):
        sk.max(X[:0])
    with pytest.raises(ArgumentValueError, match=r"a multiple of 16 that divides 48"):
        sk.quantize(np.ones((2, 48), np.float32), "int8", 24)
    for values in ({1, 2}, iter((1, 2))):
        with pytest.raises(ArgumentTypeError, match=r"Pass list\(x\)\."):
            sk.sum(values)
    with pytest.raises(ArgumentTypeError, match=r"\(255 \* image\)\.astype\(np\.uint8\)"):
        sk.imaging.equalize(X / 5)
    assert sk.imaging.equalize((255 * (X / 5)).astype(np.uint8))[0].tolist() == [0, 51, 102]
    form = "float8_e5m2"
    words, scales, _ = sk.quantize(X.astype(np.float32), form)
    with pytest.raises(ArgumentTypeError, match=r"quantize\(x\.astype\(np\.float32\), 'float8_e5"):
        sk.quantized.matmul(X, words, scales, format=form)
    got = sk.quantized.matmul(words, words, scales, format=form, x_scales=scales)
    np.testing.assert_allclose(got, X @ X.T, rtol=0.3)
    for out in (np.empty(3, np.float32), np.empty(3, ">f8"), np.empty(3, "i4,i4")):
        with pytest.raises(ArgumentTypeError, match=r"Omit out, or make one of such a dtype"):
            reduce.sum(X, 0, out=out)
