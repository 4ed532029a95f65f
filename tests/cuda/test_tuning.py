"""Tuning on a GPU: the plan that wins is no slower than the planner's, and launches take it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def triad(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + a * y[i]


def test_the_tuned_plan_is_taken_and_not_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
):
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    n = 1 << 22
    x, y = (kd.to_device(rng.random(n).astype(np.float32)) for _ in range(2))
    out = kd.full(n, np.nan, np.float32)
    launch = triad.forall(n)
    report = launch.tune(np.float32(2), x, y, out, budget="3s")
    assert np.isnan(out.copy_to_host()).all()
    assert report.speedup >= 1.0
    plan = launch.plan(np.float32(2), x, y, out)
    assert (plan.block_dim, plan.mapping) == (report.plan.block_dim, report.plan.mapping)
    launch(np.float32(2), x, y, out)
    wanted = x.copy_to_host() + np.float32(2) * y.copy_to_host()
    np.testing.assert_allclose(out.copy_to_host(), wanted, rtol=1e-6)
    print(report)
    again = launch.tune(np.float32(2), x, y, out, budget="cached")
    assert all(each.was_known for each in again.tried)


def test_members_of_a_space_are_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
):
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))

    @kd.kernel(
        space=kd.Space(block=[64, 128, 256], each=[1, 4, 16], covers=lambda c: c.block * c.each)
    )
    def total(x, out, *, each):
        s = kd.shared.array(256, np.float64)
        t = kd.threadIdx.x
        first = kd.blockIdx.x * kd.blockDim.x * each + t
        s[t] = 0.0
        for k in range(each):
            i = first + k * kd.blockDim.x
            if i < x.size:
                s[t] += x[i]
        kd.syncthreads()
        if t == 0:
            found = 0.0
            for k in range(kd.blockDim.x):
                found += s[k]
            kd.atomic.add(out, 0, found)

    x = kd.to_device(rng.random(1 << 20))
    out = kd.zeros(1, np.float64)
    report = total.forall(x.size).tune(x, out, budget="full")
    assert report.is_complete
    assert report.total_count == 9
    assert out.copy_to_host()[0] == 0.0
    total.forall(x.size)(x, out)
    np.testing.assert_allclose(out.copy_to_host()[0], x.copy_to_host().sum())
    print(report)


@pytest.mark.measures
def test_a_decorated_kernel_is_tuned_before_its_first_launch_with_a_cold_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
):
    """Members compile in forked children beside a CUDA context, which those do not touch."""
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))

    @kd.tune("2s", cache="cold")
    @kd.kernel(
        space=kd.Space(block=[64, 128, 256], items=[1, 2, 4], covers=lambda c: c.block * c.items)
    )
    def halve(x, *, block, items):
        for k in range(items):
            i = (kd.blockIdx.x * items + k) * block + kd.threadIdx.x
            if i < x.size:
                x[i] *= np.float32(0.5)

    before = rng.random(1 << 22).astype(np.float32)
    x = kd.to_device(before)
    halve.forall(x.size)(x)
    np.testing.assert_array_equal(x.copy_to_host(), before * np.float32(0.5))
    report = halve.forall(x.size).tune(x, budget="cached", cache="cold")
    assert len(report.tried) >= 4
    assert all(each.was_known for each in report.tried)
    assert halve.forall(x.size).plan(x).parameters == report.plan.parameters
    warm = halve.forall(x.size).tune(x, budget="full")
    assert warm.best.measured.median_ns < report.best.measured.median_ns
    print(report, warm, sep="\n")


def test_the_model_is_fitted_to_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from typer.testing import CliRunner

    from kerneldsl.tools.cli.app import make_app

    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    for exponent in (18, 24):
        x, y, out = (kd.ones(1 << exponent, np.float32) for _ in range(3))
        triad.forall(out.size).tune(np.float32(2), x, y, out, budget="3s")
    done = CliRunner().invoke(make_app(), ["tune", "fit"], catch_exceptions=False)
    assert done.exit_code in (0, 1)
    print(done.output)
    assert "→" in done.output
