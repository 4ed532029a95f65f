"""float16 on a processor that has no instructions for it, as Numba can be told."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tests.support.extent import full_beyond

PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel(contract=False)
def widen(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[i]

@kd.kernel(contract=False)
def scale(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[i] * y[i] + x[i]

def assert_same(found, expected):
    assert found.dtype == expected.dtype
    bits = f"u{found.itemsize}"
    wrong = (found.view(bits) != expected.view(bits)) & ~(np.isnan(found) & np.isnan(expected))
    assert not wrong.any(), (found[wrong][:9], expected[wrong][:9])

with kd.use("cpu"), np.errstate(all="ignore"):
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    wide = np.empty(every.size, np.float32)
    widen.forall(every.size)(every, wide)
    assert_same(wide, every.astype(np.float32))

    rng = np.random.default_rng(5)
    exact = np.sort(wide[np.isfinite(wide)])
    ties = exact[:-1] / 2 + exact[1:] / 2
    given = np.concatenate([
        exact, ties, np.nextafter(ties, np.float32(-9e9)), np.nextafter(ties, np.float32(9e9)),
        rng.integers(0, 2**32, 2**18, np.uint32).view(np.float32),
        np.array([65519.996, 65520, 1e30, np.inf, -np.inf, np.nan, 1e-45, -0.0], np.float32),
    ])
    narrow = np.empty(given.size, np.float16)
    widen.forall(given.size)(given, narrow)
    assert_same(narrow, given.astype(np.float16))

    other = rng.permutation(every)
    out = np.empty_like(every)
    scale.forall(every.size)(every, other, out)
    assert_same(out, every * other + every)
print("same")
"""


_BASELINE = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"),
    reason=f"{platform.machine()} has the conversions: x86-64 alone may lack them",
)
@pytest.mark.parametrize(
    "settings",
    full_beyond([_BASELINE, {"NUMBA_ENABLE_AVX": "0"}], [_BASELINE]),
    ids=lambda settings: "baseline" if settings is _BASELINE else "without AVX",
)
def test_conversions_are_ieee_s(settings, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = ":".join(p for p in [os.getcwd(), *sys.path] if p)
    environment = os.environ | settings | {"PYTHONPATH": path, "KERNELDSL_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, str(program)],
        check=False,
        timeout=120,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "same\n", done.stderr[-2000:]
