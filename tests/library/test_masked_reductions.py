"""Reductions of some of the elements, and with a first number, against NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentOverflowError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels import reduce
from stdlib_kernels.arrays import to_host
from tests.support.arrays import random_array, strided
from tests.support.extent import examples, full_beyond, sample

NAMES = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"]
INITIAL = ("sum", "prod", "max", "min")


@pytest.mark.parametrize("name", full_beyond(NAMES, ["max", "std"]))
@settings(max_examples=examples(12, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_against_numpy(call, rng, name, data):
    dtype = data.draw(st.sampled_from(["bool", "int8", "uint16", "float32"]))
    shape = data.draw(st.sampled_from([(7,), (3, 2, 4), (2000,), (0, 3)]))
    steps = tuple(data.draw(st.sampled_from([1, -2])) for _ in shape)
    x = strided(random_array(rng, shape, dtype), steps)
    if dtype.startswith("float"):
        x = np.round(x).astype(dtype)
        x[np.isnan(x)] = -0.0
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    named = {"axis": axis, "keepdims": data.draw(st.booleans())}
    if name in INITIAL and data.draw(st.booleans()):
        named["initial"] = data.draw(st.integers(0, 1) if dtype == "bool" else st.integers(0, 9))
    masks = [(), shape, shape[-1:], (*shape[:-1], 1)]
    masked = data.draw(st.sampled_from([None, *masks]))
    if masked is not None and (name not in ("max", "min") or "initial" in named):
        named["where"] = rng.random(masked) < 0.5
    numpys, ours = getattr(np, name), getattr(reduce, name)
    if "where" in named and not masked:
        named["where"] = bool(named["where"])
    if name == "prod":
        x = np.clip(x, 0 if x.dtype.kind in "bu" else -1, 1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exact = numpys(x, **named)
        except ValueError:
            with pytest.raises(ArgumentValueError, match="has no value"):
                call(ours, x, **named)
            return
        mask = named.pop("where", True)
        for _ in range(2):  # the second call is a repeated one
            got = call(_with_mask(ours, named), x, mask)
    assert got.dtype == exact.dtype
    assert got.shape == exact.shape
    np.testing.assert_allclose(got, exact, 1e-5, 1e-5)


def _with_mask(function, named):
    return lambda x, mask: function(x, where=mask, **named)


def test_out(call, to_kind, rng):
    x = random_array(rng, (4, 5), "float32")
    mask = x > 0
    for name in sample(NAMES, 2):
        first = {"initial": 1} if name in INITIAL else {}
        exact = getattr(np, name)(x, axis=1, where=mask, **first)
        given, counted, out = (to_kind(each) for each in (x, mask, np.zeros_like(exact)))
        assert getattr(reduce, name)(given, 1, where=counted, out=out, **first) is out
        np.testing.assert_allclose(to_host(out), exact, 1e-5)
    assert call(reduce.sum, np.array(5), where=True, initial=2) == 7
    assert call(reduce.max, np.zeros(0), initial=-3.0) == -3


@pytest.mark.full
def test_one_flag_for_all_elements(call, to_kind):
    assert call(reduce.mean, np.array(5), where=to_kind(np.array(True))) == 5
    assert np.isnan(call(reduce.mean, np.ones(3), where=False))
    assert np.isnan(call(reduce.max, np.array([1.0, np.nan]), initial=0.0))


def test_bfloat16(call):
    """Sums of few small integers are exact; ``x.dtype.type`` is no ``np.number`` here."""
    values = np.arange(8.0).reshape(2, 4)
    mask = values % 3 != 0
    for name in NAMES:
        first = {"initial": 2} if name in INITIAL else {}
        exact = getattr(np, name)(values, axis=1, where=mask, **first)
        got = call(getattr(reduce, name), values.astype(kd.bfloat16), 1, where=mask, **first)
        np.testing.assert_array_equal(got, exact.astype(got.dtype))


def test_refusals(target):
    x = np.arange(6).reshape(2, 3)
    with pytest.raises(ArgumentValueError, match="initial is None"):
        reduce.max(x, where=x > 1)
    with pytest.raises(ArgumentTypeError, match="where has the dtype int64"):
        reduce.sum(x, where=x)
    with pytest.raises(ArgumentValueError, match="where is"):
        reduce.sum(x, where=np.ones((2, 2, 3), bool))
    with pytest.raises(ArgumentOverflowError, match="initial is 300"):
        reduce.max(x.astype(np.int8), initial=300)
    with pytest.raises(ArgumentTypeError, match="initial is"):
        reduce.sum(x, initial="1")
