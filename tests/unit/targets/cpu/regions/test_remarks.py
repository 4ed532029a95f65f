"""Remarks on local arrays that stay in memory."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from targets.cpu.target import CpuTarget


def remarks_on(kernel) -> tuple[str, ...]:
    _, spec = kernel.specialization("float32[:, ::1], int64, float32[::1]", forall=1, target="cpu")
    return CpuTarget.compiler.remarks(spec)


@kd.kernel
def sums(x, k, out):
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    for j in range(4):
        v[j] = x[i, j]
    for j in range(1, 4):
        v[j - 1] += v[j]
    out[i] = v[0]


@kd.kernel
def chosen(x, k, out):
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    w = kd.local.array(2, np.float32)
    w[0] = x[i, 0]
    for j in range(4):
        v[j] = x[i, j] + w[0]
    out[i] = v[k]


@kd.kernel
def large(x, k, out):
    i = kd.grid(1)
    v = kd.local.array(200, np.float32)
    v[0] = x[i, 0]
    out[i] = v[0]


def test_arrays_with_known_indices_are_variables() -> None:
    assert remarks_on(sums) == ()


def test_other_arrays_are_named_with_their_lines() -> None:
    texts = remarks_on(chosen)
    line = chosen.function.__code__.co_firstlineno + 3
    beginning = f"kd.local.array((4,), float32) (line {line}) stays in memory"
    assert any(text.startswith(beginning) for text in texts)
    (text,) = remarks_on(large)
    assert "(200,)" in text


def test_debug_mode_has_no_remarks() -> None:
    assert remarks_on(kd.kernel(chosen.function, debug=True)) == ()
