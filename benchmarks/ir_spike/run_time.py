"""Run times on the CPU: both paths in turns in one process, median of ratios and least times."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from benchmarks.ir_spike.compile_time import switches
from benchmarks.ir_spike.fresh import fresh_module


def arrays(n):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    out = np.empty_like(x)
    sums = np.empty(-(-n // 256), np.float32)
    rows = max(1, n // 500)
    grid = x[: rows * 500].reshape(rows, 500).copy()
    soft = np.empty_like(grid)
    return x, y, out, sums, grid, soft


def launches(module, n, given):
    x, y, out, sums, grid, soft = given
    rows, a = len(grid), np.float32(2)
    return {
        "axpy": (module.axpy.forall(n), (a, x, y, out)),
        "tree": (module.tree[len(sums), 256], (x, sums)),
        "shuffle": (module.shuffle[len(sums), 256], (x, sums)),
        "softmax": (module.softmax[rows, 128], (grid, soft)),
    }


def main(turns: int = 60) -> None:
    turn = switches()["cpu"]
    for n in (20_000, 200_003, 3_000_001):
        made, given = {}, arrays(n)
        for on in (False, True):
            turn(on)
            made[on] = launches(fresh_module(), n, given)
            for launch, args in made[on].values():
                launch(*args)
                launch(*args)
        for name in made[True]:
            times = {False: [], True: []}
            launch, args = made[True][name]
            began = time.process_time()
            launch(*args)
            repeats = max(1, int(0.002 / max(1e-6, time.process_time() - began)))
            for number in range(turns):
                order = (False, True) if number % 2 else (True, False)
                for on in order:
                    launch, args = made[on][name]
                    began = time.process_time()
                    for _ in range(repeats):
                        launch(*args)
                    times[on].append((time.process_time() - began) / repeats)
            ratio = statistics.median(b / a for a, b in zip(times[False], times[True], strict=True))
            print(
                f"{name:8s} n={n:8d}  "
                f"{1e6 * min(times[False]):8.1f} -> {1e6 * min(times[True]):8.1f} us "
                f"(least {min(times[True]) / min(times[False]):.3f}x)  "
                f"median of ratios {ratio:.3f}x"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
