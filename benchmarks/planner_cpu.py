"""Sharing of launches on the CPU among threads: the planner's choice against all of them.

Run by ``python benchmarks/planner.py --cpu``, on a machine with nothing else on it. Each kernel
runs at several sizes with every number of threads and chunks of many sizes; the three best and the
planner's choice are then timed again, in turns. Of each the shortest times count, since what else
runs on the machine only ever makes one longer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planner_kernels import CASES

import kerneldsl as kd
from kerneldsl.kernels.spaces import SpacedKernel

__all__ = ["measure_cpu"]

_EXPONENTS = (8, 12, 14, 16, 18, 20, 22)
#: Indices times operations beyond which a kernel is not run: it would only take long.
_MOST_OPERATIONS = 1 << 27
_CASES = (
    "copy f32",
    "axpy f32",
    "axpy f64",
    "mix4 f32",
    "add u8",
    "jacobi 2-D",
    "laplace 3-D",
    "transpose",
    "iterate",
    "register-heavy",
    "gather",
    "scatter",
)
_FINALISTS = 3
#: Time that is spent on one way of sharing in the sweep, and again, seconds.
_SWEEP_S, _AGAIN_S = 0.004, 0.02
_ROUNDS = 6
_GEOMEAN = 0.95


def measure_cpu(only: list[str] | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure all cases; say what falls short.

    Returns
    -------
    rows : list of dict
    broken : list of str
    """
    rows = []
    with kd.use("cpu"):
        for case in CASES:
            if case.name in (only or _CASES) and not isinstance(case.kernel, SpacedKernel):
                for exponent in _EXPONENTS:
                    if (case.operations << exponent) > _MOST_OPERATIONS:
                        break
                    rows.append(measure(case, exponent))
                    show(rows[-1])
    ratios = [row["ratio"] for row in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"first choice / best: geomean {mean:.4f}, worst {min(ratios):.3f}, {len(rows)} cases")
    return rows, [] if mean >= _GEOMEAN else [f"geomean {mean:.4f}, at least {_GEOMEAN} wanted"]


def measure(case: Any, exponent: int) -> dict[str, Any]:
    """Measure one kernel at one size."""
    prepared = case.prepare(exponent)
    args, forall = prepared.args, case.kernel.forall
    chosen = forall(*prepared.extent).plan(*args)
    assert chosen.host is not None
    shares = list(dict.fromkeys([chosen.host, *all_shares(math.prod(prepared.extent))]))
    launches = {}
    for share in shares:
        launch = forall(*prepared.extent, plan=replace(chosen, host=share))
        launches[share] = lambda launch=launch: launch(*args)
    swept = {share: shortest(launches[share], _SWEEP_S) for share in shares}
    finalists = sorted(swept, key=swept.__getitem__)[:_FINALISTS]
    finalists += [] if chosen.host in finalists else [chosen.host]
    again: dict[Any, list[float]] = {share: [] for share in finalists}
    for turn in range(_ROUNDS):
        for share in finalists if turn % 2 == 0 else reversed(finalists):
            again[share].append(shortest(launches[share], _AGAIN_S / _ROUNDS))
    final = {share: statistics.median(times) for share, times in again.items()}
    best = min(final, key=final.__getitem__)
    return {
        "name": case.name,
        "exponent": exponent,
        "chosen": {"threads": chosen.host.threads, "chunk": chosen.host.chunk},
        "best": {"threads": best.threads, "chunk": best.chunk},
        "chosen_us": final[chosen.host] * 1e6,
        "best_us": final[best] * 1e6,
        "ratio": final[best] / final[chosen.host],
        "shares": len(shares),
    }


def all_shares(indices: int) -> list[kd.HostShare]:
    """Return one thread, and all with chunks from a thread's share down to a hundredth of it."""
    pool = kd.device_info("cpu").device.thread_pool()
    assert pool is not None
    threads, _ = pool
    found = [kd.HostShare(1, indices)]
    for steps in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64):
        chunk = -(-indices // (threads * steps))
        if threads > 1 and chunk >= 64:
            found.append(kd.HostShare(threads, chunk))
    return found


def shortest(launch: Callable[[], None], seconds: float) -> float:
    """Return the shortest of as many launches as fit into a time, three at least."""
    best, begun, count = math.inf, time.perf_counter(), 0
    while count < 3 or time.perf_counter() - begun < seconds:
        at = time.perf_counter()
        launch()
        best = min(best, time.perf_counter() - at)
        count += 1
    return best


def show(row: dict[str, Any]) -> None:
    """Print one line."""
    sides = (f"{row[f'{s}_us']:10.2f} µs {row[s]['threads']:3} × {row[s]['chunk']:<8}"
             for s in ("best", "chosen"))  # fmt: skip
    best, chosen = sides
    print(f"{row['name']:15} 2^{row['exponent']:<3} best {best} chosen {chosen} {row['ratio']:.3f}",
          flush=True)  # fmt: skip
