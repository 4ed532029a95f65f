"""out = a x + y: one thread an element.

Run it: python examples/axpy.py
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def main() -> None:
    rng = np.random.default_rng()
    x = rng.standard_normal(1_000_003).astype(np.float32)
    y = rng.standard_normal(x.size).astype(np.float32)
    a = np.float32(2.5)

    out = np.full_like(x, np.nan)
    axpy.forall(out.size)(a, x, y, out)  # grid and block are chosen for you
    np.testing.assert_allclose(out, a * x + y, rtol=1e-6, atol=1e-6)

    out.fill(np.nan)
    block = 256
    axpy[-(-out.size // block), block](a, x, y, out)  # numba.cuda's form
    np.testing.assert_allclose(out, a * x + y, rtol=1e-6, atol=1e-6)
    print(f"axpy of {out.size} elements on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
