"""Gradients of attention against NumPy, in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels import attention, attention_backward
from tests.support.attention import gradients, weights_of
from tests.support.extent import examples, sample
from tests.support.products import compile_product

_MODULE = import_module("stdlib_kernels.linalg.attention_backward")
#: Largest difference, relative to the largest gradient.
_BOUNDS = {"float32": 3e-6, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture
def calls(to_kind: Any) -> Any:
    """Function that calls one with arrays of a kind, and gives NumPy arrays of its results."""

    def calls(function: Any, *args: np.ndarray) -> list[np.ndarray]:
        found = function(*map(to_kind, args))
        kind = kd.DeviceArray if to_kind is kd.to_device else np.ndarray
        assert all(isinstance(each, kind) for each in found)
        return [each.copy_to_host() if kind is kd.DeviceArray else each for each in found]

    return calls


def _arrays(rng: Any, shapes: Any, dtype: str) -> list[np.ndarray]:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return [rng.standard_normal(shape).astype(kind) for shape in shapes]


def _both(grad: Any, q: Any, k: Any, v: Any, lengths: Any, asked: Any, options: Any) -> Any:
    """Return the statistics and the gradients; arrays are of one kind."""
    options = {**options, "lengths": lengths, "query_lengths": asked}
    out, statistics = attention(q, k, v, return_statistics=True, **options)
    return statistics, *attention_backward(grad, q, k, v, out, statistics, **options)


@pytest.mark.parametrize("dtype", sample(["float32", "float16", "bfloat16"], count=2))
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    queries=st.integers(1, 150),
    keys=st.integers(1, 150),
    width=st.sampled_from([1, 7, 16]),
    causal=st.booleans(),
)
def test_gradients_of_any_sizes(calls, rng, dtype, data, queries, keys, width, causal):
    window = data.draw(st.sampled_from([None, 1, 40, 1000])) if causal else None
    options: dict[str, Any] = {"causal": causal, "window": window}
    options["scale"] = data.draw(st.sampled_from([None, 0.5, -0.25, 0.0]))
    limits: list[Any] = [None, None]
    if data.draw(st.booleans()):
        kind = data.draw(st.sampled_from(["int32", "int64"]))
        limits[0] = np.array([data.draw(st.integers(0, keys)) for _ in range(2)], kind)
    if data.draw(st.booleans()):
        limits[1] = np.array([queries, data.draw(st.integers(0, queries))])
    shapes = [(2, 4, queries, width)] * 2 + [(2, 2, keys, width)] * 2
    arrays = _arrays(rng, shapes, dtype)
    got = calls(
        lambda *a: _both(*a[:4], *_placed(limits, a[4:]), options), *arrays, *_known(limits)
    )
    oracle = {**options, "lengths": limits[0], "query_lengths": limits[1]}
    expected = (weights_of(*arrays[1:3], **oracle)[1], *gradients(*arrays, **oracle))
    assert got[0].dtype == np.float32
    bound = _BOUNDS[dtype]
    np.testing.assert_allclose(got[0], expected[0], rtol=bound, atol=bound)
    # Differences of slopes from their mean cancel, if there are few keys.
    slopes = arrays[0].astype(float) @ arrays[3].astype(float).repeat(2, 1).swapaxes(-1, -2)
    rounding = 2 * float(ml_dtypes.finfo(arrays[0].dtype).eps) * float(np.abs(slopes).max())
    for found, wanted in zip(got[1:], expected[1:], strict=True):
        assert found.dtype == arrays[0].dtype
        scale = float(np.abs(wanted).max()) + 0.1
        np.testing.assert_allclose(found.astype(float), wanted, atol=bound * scale + rounding)


def _known(limits: list[Any]) -> list[Any]:
    return [each for each in limits if each is not None]


def _placed(limits: list[Any], given: tuple[Any, ...]) -> list[Any]:
    """Return the arrays of the kind of the others in their places."""
    rest = iter(given)
    return [None if each is None else next(rest) for each in limits]


@pytest.mark.parametrize("lengths", [np.array([1300]), np.array([0])])
def test_statistics_of_keys_in_parts(calls, rng, lengths):
    """Few queries, of which blocks take parts of the keys."""
    q, k, v = _arrays(rng, [(1, 4, 1, 32), (1, 2, 2100, 32), (1, 2, 2100, 32)], "float32")
    options = {"causal": True, "return_statistics": True}
    out, found = calls(lambda *a: attention(*a[:3], lengths=a[3], **options), q, k, v, lengths)
    weights, logs = weights_of(q, k, causal=True, lengths=lengths)
    np.testing.assert_allclose(found, logs, rtol=1e-5)
    np.testing.assert_allclose(out, weights @ v.repeat(2, axis=1), atol=1e-5)


def test_gradients_without_batches(calls, rng):
    arrays = _arrays(rng, [(2, 9, 16)] * 2 + [(1, 12, 16)] * 2, "float32")
    got = calls(lambda *given: _both(*given, None, None, {}), *arrays)
    expected = gradients(*[each[None] for each in arrays])
    assert got[0].shape == (2, 9)
    for found, wanted in zip(got[1:], expected, strict=True):
        np.testing.assert_allclose(found, wanted[0], atol=1e-5)


def test_gradients_of_strided_heads(calls, rng):
    """Arrays of tokens by heads, as a layer of projections gives them."""
    arrays = [x.swapaxes(1, 2) for x in _arrays(rng, [(2, 33, 2, 16)] * 4, "float32")]
    got = calls(lambda *given: _both(*given, None, None, {"causal": True}), *arrays)
    for found, wanted in zip(got[1:], gradients(*arrays, causal=True), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_large_scores_give_finite_gradients(calls, rng):
    """Exponentials of most scores are beyond float32."""
    grad, q, k, v = _arrays(rng, [(1, 1, 40, 16)] * 2 + [(1, 1, 37, 16)] * 2, "float32")
    arrays = grad, 8 * q, 8 * k, v
    got = calls(lambda *given: _both(*given, None, None, {"causal": True}), *arrays)
    for found, wanted in zip(got[1:], gradients(*arrays, causal=True), strict=True):
        bound = 2e-3 * np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, atol=bound)


def test_derivatives_agree_with_differences(calls, rng):
    """No formula in common: the sum of ``grad * attention`` changes as the gradients say."""
    grad, q, k, v = _arrays(rng, [(1, 2, 7, 8)] * 2 + [(1, 1, 9, 8)] * 2, "float32")
    _, *found = calls(lambda *given: _both(*given, None, None, {"causal": True}), grad, q, k, v)
    wide = [each.astype(np.float64) for each in (q, k, v)]

    def total(arrays: list[Any]) -> float:
        weights, _ = weights_of(arrays[0], arrays[1], causal=True)
        return float((grad * (weights @ arrays[2].repeat(2, axis=1))).sum())

    for number, gradient in enumerate(found):
        step = rng.standard_normal(wide[number].shape)
        ends = [
            [*wide[:number], wide[number] + size * step, *wide[number + 1 :]]
            for size in (1e-6, -1e-6)
        ]
        slope = (total(ends[0]) - total(ends[1])) / 2e-6
        assert np.isclose(slope, float((gradient * step).sum()), rtol=1e-4, atol=1e-4)


def test_gradients_of_nothing(calls):
    for q, k in [
        ((0, 2, 3, 8), (0, 2, 4, 8)),
        ((1, 2, 0, 8), (1, 2, 4, 8)),
        ((1, 2, 3, 8), (1, 2, 0, 8)),
    ]:
        arrays = [np.ones(shape, np.float32) for shape in (q, q, k, k)]
        got = calls(lambda *given: _both(*given, None, None, {}), *arrays)
        assert [each.shape for each in got[1:]] == [q, k, k]
        assert not any(each.any() for each in got[1:])


_Q, _K, _S = np.zeros((2, 4, 3, 8), np.float32), np.zeros((2, 2, 5, 8), np.float32), (2, 4, 3)


@pytest.mark.parametrize(
    ("changed", "options", "kind", "message"),
    [
        ({"grad": _Q.astype(np.float16)}, {}, ArgumentTypeError, "grad has the dtype float16"),
        ({"out": _K}, {}, ArgumentValueError, "out has the shape"),
        ({"statistics": np.zeros((2, 4), np.float32)}, {}, ArgumentValueError, "statistics has"),
        ({"statistics": np.zeros(_S)}, {}, ArgumentTypeError, "statistics has the dtype"),
        ({"k": _K[:, :, :, :4], "v": _K[:, :, :, :4]}, {}, ArgumentValueError, "Batches and d"),
        ({}, {"window": 3}, ArgumentValueError, "causal=True"),
        ({}, {"lengths": np.zeros(3, np.int64)}, ArgumentError, "lengths has the"),
    ],
)
def test_what_does_not_fit_is_refused(changed, options, kind, message):
    given = {
        "grad": _Q,
        "q": _Q,
        "k": _K,
        "v": _K,
        "out": _Q,
        "statistics": np.zeros(_S, np.float32),
    }
    with kd.use("cpu"), pytest.raises(kind, match=message):
        attention_backward(**{**given, **changed}, **options)


def _compiled(of: str, dtype: str, tile: tuple[int, int, int], width: int, arch: str) -> Any:
    array, single = f"{dtype}[:, :, :, ::1]", "float32[:, :, :, ::1]"
    results = [array] * (2 if of == "keys" else 1)
    limits, numbers = ["int64[::1]"] * 2, ["int64", "float32", "float32", "int64"]
    signature = ", ".join([*[array] * 4, *[single] * 2, *limits, *results, *numbers])
    static = {"BM": tile[0], "BN": tile[1], "D": width, "causal": True, "masked": True}
    member = getattr(_MODULE, f"back_to_{of}").member(**static)
    return compile_product(member, signature, threads=tile[2], arch=arch)


@pytest.mark.parametrize("width", sample([64, 128], count=1))
@pytest.mark.parametrize("of", ["keys", "queries"])
def test_halves_are_multiplied_by_warpgroups(of, width):
    found = _compiled(of, "bfloat16", _MODULE.HOPPER_TILES[width][of == "queries"], width, "sm_90a")
    assert found.additions.threads == 128
    # A wide tile of keys and one of values leave no registers for two products at once.
    if (of, width) != ("keys", 128):
        assert any("awaited after the next one begins" in str(each) for each in found.passes)


def test_other_tiles_fit_the_shared_memory_of_a_block():
    for width, tile in sample(list(_MODULE.HALVES_TILES.items()), count=1):
        assert "mma.sync" in _compiled("keys", "bfloat16", tile, width, "sm_80").ptx
    for width, tile in sample(list(_MODULE.WIDE_TILES.items()), count=1):
        assert "fma.rn" in _compiled("queries", "float32", tile, width, "sm_75").ptx
