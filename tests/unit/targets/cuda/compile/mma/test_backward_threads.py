"""Gradients of attention by warpgroups on a simulated device, in any order of copies."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kerneldsl.contract import ArrayPromises
from targets.cuda.compile.mma import warpgroup_writer
from tests.support.attention import gradients, weights_of
from tests.support.extent import sample
from tests.support.products import specialize_product
from tests.support.warpgroup_threads import simulate_warpgroups

_MODULE = import_module("stdlib_kernels.linalg.attention_backward")
_HALF, _SINGLE = "bfloat16[:, :, :, ::1]", "float32[:, :, :, ::1]"
_NUMBERS = "int64[::1], int64[::1]"
_REST = "int64, float32, float32, int64"


def _given(rng: Any, queries: int, keys: int, width: int, *, causal: bool) -> Any:
    """Return arrays of two heads of queries that share one of keys, terms, and gradients."""
    kind = ml_dtypes.bfloat16
    q, grad = (rng.standard_normal((1, 2, queries, width)).astype(kind) for _ in range(2))
    k, v = (rng.standard_normal((1, 1, keys, width)).astype(kind) for _ in range(2))
    weights, logs = weights_of(q, k, causal=causal)
    out = weights @ v.astype(np.float64).repeat(2, axis=1)
    padded = -(-queries // _MODULE.LINE) * _MODULE.LINE
    highs = np.full((1, 2, padded, 1), np.inf, np.float32)
    means = np.zeros_like(highs)
    highs[:, :, :queries, 0] = np.where(np.isinf(logs), np.inf, logs * np.log2(np.e))
    means[:, :, :queries, 0] = (out * grad.astype(np.float64)).sum(axis=-1)
    return (q, k, v, grad), (highs, means), gradients(grad, q, k, v, causal=causal)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("causal", "threads", "height"), sample([(False, 128, 64), (True, 256, 128)], count=2)
)
def test_gradients_of_keys(rng, is_reversed, causal, threads, height):
    """A ring brings rows of numbers, and tiles that products read in both orders of axes."""
    arrays, terms, expected = _given(rng, 150, 140, 64, causal=causal)
    static = {"BM": height, "BN": 32, "D": 64, "causal": causal, "masked": True}
    kernel = _MODULE.back_to_keys.member(**static)
    signature = f"{', '.join([_HALF] * 4 + [_SINGLE] * 2)}, {_NUMBERS}, {_HALF}, {_HALF}, {_REST}"
    specialization = specialize_product(kernel, signature, threads=threads)
    found = [np.full_like(arrays[1], 77) for _ in range(2)]
    lines = [each.reshape(1, 2, 1, -1) for each in terms]
    numbers = (2, np.float32(1 / 8), np.float32(np.log2(np.e) / 8), 2 * _MODULE.APART)
    limits = np.array([140]), np.array([-1])
    args = (*arrays, *lines, *limits, *found, *numbers)
    simulate_warpgroups(specialization, (-(-140 // height),), args, is_reversed=is_reversed)
    for got, wanted in zip(found, expected[1:], strict=True):
        np.testing.assert_allclose(got.astype(float), wanted, atol=3e-2 * np.abs(wanted).max())


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_queries(rng, causal):
    arrays, terms, expected = _given(rng, 150, 140, 64, causal=causal)
    static = {"BM": 64, "BN": 32, "D": 64, "causal": causal, "masked": True}
    kernel = _MODULE.back_to_queries.member(**static)
    signature = f"{', '.join([_HALF] * 4 + [_SINGLE] * 2)}, {_NUMBERS}, {_HALF}, {_REST}"
    specialization = specialize_product(kernel, signature, threads=128)
    promises = specialization.promises
    # Rows of one number are no multiples of 16 bytes.
    of_arrays = [ArrayPromises(4 if n in (4, 5) else 16) for n in range(len(promises.arrays))]
    promises = replace(promises, arrays=tuple(of_arrays))
    specialization = replace(specialization, promises=promises)
    found = np.full_like(arrays[0], 77)
    numbers = (2, np.float32(1 / 8), np.float32(np.log2(np.e) / 8), 2 * _MODULE.APART)
    args = (*arrays, *terms, np.array([140]), np.array([-1]), found, *numbers)
    simulate_warpgroups(specialization, (3, 2), args, is_reversed=True)
    wanted = expected[0]
    np.testing.assert_allclose(found.astype(float), wanted, atol=3e-2 * np.abs(wanted).max())


def test_a_product_that_is_awaited_too_late_shows(rng, monkeypatch):
    """A fault that the simulated device must find: results are read while a product runs."""
    monkeypatch.setattr(warpgroup_writer.Ring, "_await", lambda self, operation: None)
    with pytest.raises(AssertionError):
        test_gradients_of_queries(rng, False)
