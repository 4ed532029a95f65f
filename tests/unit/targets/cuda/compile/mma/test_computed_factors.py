"""Products by warpgroups with a first factor that is computed from words in registers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.mma import await_late, ring_products
from targets.cuda.compile.ptxas import assemble, problem_of
from tests.support.extent import sample
from tests.support.products import specialize_product
from tests.support.warpgroup_threads import simulate_warpgroups

_SIGNATURE = "uint32[:, ::1], float32[:, ::1], bfloat16[:, ::1], float32[:, ::1]"


def number_of(word, shift):
    return kd.bfloat16(kd.int32((word >> kd.uint32(shift)) & kd.uint32(15)) - 8)


@kd.kernel
def words_by_planes(words, scales, planes, out, *, tall, columns):
    """Row k of the planes is for a number of word ``k // 32 * 16 + k % 16``."""
    for n, m in kd.tiles(out.shape, (tall, columns)):
        acc = kd.tile.zeros((tall, columns), kd.float32)
        w = kd.tile.load(words, (n, 0), (tall, 16))
        scale = kd.tile.load(scales, (n, 0), (tall, 1))
        for c in kd.pipelined(range(0, words.shape[1], 16), stages=2):
            ahead = kd.tile.load(words, (n, c + 16), (tall, 16))
            later = kd.tile.load(scales, (n, c // 16 + 1), (tall, 1))
            found = kd.tile.zeros((tall, columns), kd.float32)
            one = kd.tile.load(planes, (2 * c, m), (16, columns))
            two = kd.tile.load(planes, (2 * c + 16, m), (16, columns))
            found = kd.mma(w.map(number_of, 0), one, found)
            found = kd.mma(w.map(number_of, 4), two, found)
            acc += found * scale
            w, scale = ahead, later
        kd.tile.store(out, (n, m), acc)


def _check(tall: int, threads: int, rows: int, turns: int, *, is_reversed: bool) -> None:
    """Compare with NumPy: integers with scales that are powers of two are exact."""
    columns, rng = 64, np.random.default_rng(turns)
    words = rng.integers(0, 2**32, (rows, 16 * turns), dtype=np.uint32)
    # Rows begin at multiples of 16 bytes, as promised.
    scales = np.exp2(rng.integers(-2, 3, (rows, turns + 8 & ~3))).astype(np.float32)
    planes = rng.integers(-2, 3, (32 * turns, columns))
    out = np.full((rows, columns), 77, np.float32)
    kernel = words_by_planes.member(tall=tall, columns=columns)
    given = (words, scales, planes.astype(ml_dtypes.bfloat16), out)
    specialization = specialize_product(kernel, _SIGNATURE, threads=threads)
    simulate_warpgroups(specialization, (2,), given, is_reversed=is_reversed)
    pairs = words.reshape(rows, turns, 1, 16)
    numbers = np.concatenate((pairs & 15, pairs >> 4 & 15), axis=2).astype(np.float64) - 8
    weights = numbers.reshape(rows, turns, 32) * scales[:, :turns, None]
    np.testing.assert_array_equal(out, weights.reshape(rows, -1) @ planes)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("turns", sample([0, 1, 2, 3, 5], count=3))
@pytest.mark.parametrize(("tall", "threads"), [(64, 128), (128, 128), (128, 256)])
def test_any_number_of_turns_is_exact(
    tall: int, threads: int, turns: int, *, is_reversed: bool
) -> None:
    _check(tall, threads, 3 * tall - 5, turns, is_reversed=is_reversed)


@kd.kernel
def words_by_rows(words, planes, out):
    for n, m in kd.tiles(out.shape, (64, 64)):
        acc = kd.tile.zeros((64, 64), kd.float32)
        w = kd.tile.load(words, (n, 0), (64, 16))
        for c in kd.pipelined(range(0, words.shape[1], 16), stages=5):
            ahead = kd.tile.load(words, (n, c + 16), (64, 16))
            acc = kd.mma(w.map(number_of, 0), kd.tile.load(planes, (c, m), (16, 64)), acc)
            w = ahead
        kd.tile.store(out, (n, m), acc)


@pytest.mark.parametrize("turns", [1, 7])
def test_a_product_ends_before_its_registers_have_the_next_factor(turns: int) -> None:
    """Products of factors in shared memory still run in the next iteration."""
    rng = np.random.default_rng(turns)
    words = rng.integers(0, 2**32, (64, 16 * turns), dtype=np.uint32)
    planes = rng.integers(-2, 3, (16 * turns, 64))
    out = np.full((64, 64), 77, np.float32)
    signature = "uint32[:, ::1], bfloat16[:, ::1], float32[:, ::1]"
    specialization = specialize_product(words_by_rows, signature, threads=128)
    simulate_warpgroups(specialization, (1,), (words, planes.astype(ml_dtypes.bfloat16), out))
    np.testing.assert_array_equal(out, ((words & 15).astype(np.float64) - 8) @ planes)


def _compiled(tall: int = 128, threads: int = 256) -> Any:
    kernel = words_by_planes.member(tall=tall, columns=64)
    return compile_kernel(specialize_product(kernel, _SIGNATURE, threads=threads), arch="sm_90a")


def test_products_that_add_to_one_tile_run_together() -> None:
    """One ring has what all of them read, and threads wait once in an iteration."""
    found = _compiled()
    assert "2 products in a ring of 3 slots" in [each.text for each in found.passes]
    assert found.ptx.count("wgmma.mma_async") == 2
    assert found.ptx.count("wgmma.wait_group") == 1
    assert problem_of(assemble(found.ptx, "sm_90a"), found.entry_name) is None


def test_registers_that_change_too_early_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that the simulated device must find: a wait is for the last product alone."""

    class Forgetful(dict[Any, Any]):
        def __setitem__(self, product: Any, found: tuple[Any, list[Any]]) -> None:
            super().__setitem__(product, (found[0], []))

    chains = property(lambda own: own.kept, lambda own, _: setattr(own, "kept", Forgetful()))
    monkeypatch.setattr(ring_products.Products, "_chains", chains, raising=False)
    with pytest.raises(AssertionError, match="registers change"):
        _check(64, 128, 64, 2, is_reversed=False)


def test_other_products_wait_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(await_late, "_continues", lambda *given: False)
    assert _compiled().ptx.count("wgmma.wait_group") == 2


def test_bounds_of_a_launch_are_of_the_declared_threads() -> None:
    """Those that are added for copies are in the bounds of the code."""
    kernel = words_by_planes.member(tall=64, columns=64)
    specialization = specialize_product(kernel, _SIGNATURE, threads=128)
    options = replace(specialization.options, launch_bounds=(128, 2))
    found = compile_kernel(replace(specialization, options=options), arch="sm_90a")
    assert found.additions.threads == 128
    assert ".maxntid 256, 1, 1" in found.ptx
    assert ".minnctapersm 2" in found.ptx
