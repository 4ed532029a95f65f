"""The heat equation in two dimensions, by explicit steps between two device arrays.

Run it: python examples/heat.py
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd


@kd.func
def laplacian(u, i, j):
    return u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]


@kd.kernel
def step(u, u_next, rate):
    i, j = kd.grid(2)
    if i < u.shape[0] and j < u.shape[1]:
        if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
            u_next[i, j] = u[i, j] + rate * laplacian(u, i, j)
        else:
            u_next[i, j] = u[i, j]  # the edge keeps its temperature


def step_numpy(u: np.ndarray, rate: float) -> np.ndarray:
    u_next = u.copy()
    inner = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    u_next[1:-1, 1:-1] = inner + rate * (around - 4.0 * inner)
    return u_next


def main() -> None:
    rng = np.random.default_rng()
    start = rng.uniform(0.0, 100.0, (193, 257))
    rate, steps = 0.2, 50

    u = kd.to_device(start)  # stays on the device between the steps
    u_next = kd.empty_like(u)
    for _ in range(steps):
        step.forall(*u.shape)(u, u_next, rate)
        u, u_next = u_next, u

    expected = start
    for _ in range(steps):
        expected = step_numpy(expected, rate)
    np.testing.assert_allclose(u.copy_to_host(), expected, rtol=1e-10)
    print(f"{steps} steps of {start.shape} on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
