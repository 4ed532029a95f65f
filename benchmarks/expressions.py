"""Kernels of SymPy expressions against the same kernels written by hand.

Run it with nothing else on the machine::

    python benchmarks/expressions.py --device cpu --json benchmarks/results/expressions-cpu.json
    python benchmarks/expressions.py --device cuda:0 --json benchmarks/results/expressions-h200.json

Heat, wave and Gray-Scott steps with periodic edges. Both kernels are launched in turn over the same
device arrays, and the best time of each counts; a ratio above 1 says that the one of the expression
is faster. It fails where one is below 0.95, or the results differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sympy
from machine import describe_cpu_machine, describe_gpu_machine

import kerneldsl as kd

#: A kernel of an expression has at least this part of the speed of the one by hand.
BOUND = 0.95
_X, _Y, _H, _DT = sympy.symbols("x y h dt")
_U, _U_NEXT, _U_OLD, _V, _V_NEXT = map(sympy.Function, ("u", "u_next", "u_old", "v", "v_next"))


@dataclass(frozen=True)
class Case:
    """An equation, its kernel by hand, and what both are launched with."""

    name: str
    made: Any
    by_hand: Any
    arrays: int
    results: int
    numbers: tuple[float, ...]
    hand_numbers: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """Times of a case, in microseconds a launch."""

    case: str
    dtype: str
    shape: tuple[int, int]
    expression_us: float
    by_hand_us: float
    ratio: float
    differ_by: float


@kd.kernel(wraparound=False)
def heat(u, factor, u_next):
    i, j = kd.grid(2)
    n, m = u.shape
    if i < n and j < m:
        up = i - 1 if i > 0 else n - 1
        down = i + 1 if i < n - 1 else 0
        left = j - 1 if j > 0 else m - 1
        right = j + 1 if j < m - 1 else 0
        c = u[i, j]
        around = u[up, j] + u[down, j] + u[i, left] + u[i, right]
        u_next[i, j] = c + factor * (around - (c + c + c + c))


@kd.kernel(wraparound=False)
def wave(u, u_old, factor, u_next):
    i, j = kd.grid(2)
    n, m = u.shape
    if i < n and j < m:
        up = i - 1 if i > 0 else n - 1
        down = i + 1 if i < n - 1 else 0
        left = j - 1 if j > 0 else m - 1
        right = j + 1 if j < m - 1 else 0
        c = u[i, j]
        around = u[up, j] + u[down, j] + u[i, left] + u[i, right]
        u_next[i, j] = c + c - u_old[i, j] + factor * (around - (c + c + c + c))


@kd.kernel(wraparound=False)
def gray_scott(u, v, du, dv, feed, loss, dt, one, u_next, v_next):
    i, j = kd.grid(2)
    n, m = u.shape
    if i < n and j < m:
        up = i - 1 if i > 0 else n - 1
        down = i + 1 if i < n - 1 else 0
        left = j - 1 if j > 0 else m - 1
        right = j + 1 if j < m - 1 else 0
        a, b = u[i, j], v[i, j]
        around_a = u[up, j] + u[down, j] + u[i, left] + u[i, right]
        around_b = v[up, j] + v[down, j] + v[i, left] + v[i, right]
        reaction = a * b * b
        diffusion_a = du * (around_a - (a + a + a + a))
        diffusion_b = dv * (around_b - (b + b + b + b))
        u_next[i, j] = a + dt * (diffusion_a - reaction + feed * (one - a))
        v_next[i, j] = b + dt * (diffusion_b + reaction - loss * b)


def _laplacian(f: Any) -> Any:
    return sum(
        sympy.Derivative(f(_X, _Y), s, 2).as_finite_difference([s - _H, s, s + _H])
        for s in (_X, _Y)
    )


def cases() -> Iterator[Case]:
    """Yield the equations; numbers of expressions are in the order of their names."""
    u, v = _U(_X, _Y), _V(_X, _Y)
    rate, speed, feed, kill, du, dv = sympy.symbols("rate c feed kill du dv")
    equation = sympy.Eq(_U_NEXT(_X, _Y), u + rate * _DT * _laplacian(_U))
    made = kd.from_expression(equation, boundary="wrap", name="heat")
    yield Case("heat", made, heat, 1, 1, (0.1, 0.5, 0.25), (0.1 * 0.25 / 0.5**2,))
    following = 2 * u - _U_OLD(_X, _Y) + (speed * _DT) ** 2 * _laplacian(_U)
    equation = sympy.Eq(_U_NEXT(_X, _Y), following)
    made = kd.from_expression(equation, boundary="wrap", name="wave")
    yield Case("wave", made, wave, 2, 1, (0.5, 0.1, 0.5), ((0.5 * 0.1 / 0.5) ** 2,))
    reaction = u * v**2
    equations = [
        sympy.Eq(_U_NEXT(_X, _Y), u + _DT * (du * _laplacian(_U) - reaction + feed * (1 - u))),
        sympy.Eq(_V_NEXT(_X, _Y), v + _DT * (dv * _laplacian(_V) + reaction - (feed + kill) * v)),
    ]
    made = kd.from_expression(equations, boundary="wrap", name="gray_scott")
    numbers = (1.0, 0.16, 0.08, 0.035, 1.0, 0.06)
    hand = (0.16, 0.08, 0.035, 0.095, 1.0, 1.0)
    yield Case("gray_scott", made, gray_scott, 2, 2, numbers, hand)


def measure(case: Case, dtype: str, shape: tuple[int, int], rounds: int) -> Row:
    """Measure both kernels of a case over the same arrays."""
    rng = np.random.default_rng(7)
    arrays = [kd.to_device(rng.random(shape).astype(dtype)) for _ in range(case.arrays)]
    results = [kd.full(shape, np.nan, dtype) for _ in range(case.results)]
    kind = np.dtype(dtype).type
    # Both write to the same arrays: how fast an array is depends on where its pages lie.
    launches: list[Callable[[], None]] = [
        case.made.forall(*shape).bind(*arrays, *map(kind, case.numbers), *results),
        case.by_hand.forall(*shape).bind(*arrays, *map(kind, case.hand_numbers), *results),
    ]
    found = []
    for launch in launches:
        for each in results:
            each.fill(np.nan)
        launch()
        found.append([each.copy_to_host() for each in results])
    differ = max(float(np.abs(a - b).max()) for a, b in zip(*found, strict=True))
    best = [float("inf")] * 2
    repeats = 1 if arrays[0].device.shares_host_memory else 20
    for turn in range(rounds):
        for n in (0, 1) if turn % 2 else (1, 0):
            kd.synchronize()
            begun = time.perf_counter()
            for _ in range(repeats):
                launches[n]()
            kd.synchronize()
            best[n] = min(best[n], (time.perf_counter() - begun) / repeats)
    made_us, hand_us = (each * 1e6 for each in best)
    return Row(case.name, dtype, shape, made_us, hand_us, hand_us / made_us, differ)


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--side", type=int, help="rows and columns; by default 2048, 8192 on a GPU")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    options = parser.parse_args()
    rows, good = [], True
    is_cpu = options.device == "cpu"
    side = options.side or (2048 if is_cpu else 8192)
    with kd.use(options.device):
        for case in cases():
            for dtype in ("float32", "float64"):
                row = measure(case, dtype, (side, side), options.rounds)
                rows.append(row)
                tolerance = 1e-4 if dtype == "float32" else 1e-12
                good &= row.ratio >= BOUND and row.differ_by < tolerance
                print(
                    f"{row.case:11} {dtype} {side}x{side}: expression {row.expression_us:9.1f} us, "
                    f"by hand {row.by_hand_us:9.1f} us, ratio {row.ratio:.3f}, "
                    f"results differ by {row.differ_by:.1e}"
                )
        if options.json:
            describe = describe_cpu_machine if is_cpu else describe_gpu_machine
            found = {"machine": describe(options.commit), "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
