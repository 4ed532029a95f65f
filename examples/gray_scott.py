"""The Gray-Scott equations, from schemes in SymPy to a pattern that is stepped on a device.

Run it: python examples/gray_scott.py (needs SymPy: pip install "kerneldsl[sym]")
"""

from __future__ import annotations

import numpy as np
import sympy

import kerneldsl as kd

x, y, h, dt = sympy.symbols("x y h dt")
feed, kill, du, dv = sympy.symbols("feed kill du dv")
u, v, u_next, v_next = map(sympy.Function, ("u", "v", "u_next", "v_next"))


def laplacian(f):
    return sum(
        sympy.Derivative(f(x, y), s, 2).as_finite_difference([s - h, s, s + h]) for s in (x, y)
    )


reaction = u(x, y) * v(x, y) ** 2
du_dt = du * laplacian(u) - reaction + feed * (1 - u(x, y))
dv_dt = dv * laplacian(v) + reaction - (feed + kill) * v(x, y)
step = kd.from_expression(
    [
        sympy.Eq(u_next(x, y), u(x, y) + dt * du_dt),
        sympy.Eq(v_next(x, y), v(x, y) + dt * dv_dt),
    ],
    name="gray_scott",
    boundary="wrap",
)
NUMBERS = {"du": 0.16, "dv": 0.08, "feed": 0.035, "kill": 0.06, "dt": 1.0, "h": 1.0}


def step_numpy(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def around(f: np.ndarray) -> np.ndarray:
        return sum(np.roll(f, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * f

    reaction = u * v * v
    return (
        u + 0.16 * around(u) - reaction + 0.035 * (1 - u),
        v + 0.08 * around(v) + reaction - 0.095 * v,
    )


def main() -> None:
    print(step.source)
    rng = np.random.default_rng(0)
    u0, v0 = np.ones((96, 96)), np.zeros((96, 96))
    u0[40:56, 40:56], v0[40:56, 40:56] = 0.5, 0.25
    u0 += rng.uniform(0.0, 0.01, u0.shape)

    u, v = kd.to_device(u0), kd.to_device(v0)
    others = kd.empty_like(u), kd.empty_like(v)
    for _ in range(50):
        step(u, v, **NUMBERS, out=others)
        (u, v), others = others, (u, v)

    exact = u0, v0
    for _ in range(50):
        exact = step_numpy(*exact)
    np.testing.assert_allclose(u.copy_to_host(), exact[0], rtol=1e-8)
    np.testing.assert_allclose(v.copy_to_host(), exact[1], rtol=1e-8, atol=1e-12)

    # How the next step changes with the feed, exactly.
    by_feed, _ = kd.derivative(step, "feed")(u, v, **NUMBERS)
    np.testing.assert_allclose(by_feed.copy_to_host(), 1 - exact[0], atol=1e-8)
    print(f"50 steps of {u0.shape} on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
