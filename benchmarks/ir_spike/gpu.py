"""Compare both paths on a GPU: bits and device times in turns.

    KERNELDSL_CACHE=off PYTHONPATH=. python benchmarks/ir_spike/gpu.py [turns]

The launches are ordinary ones: the planner chooses mappings and promises, the driver layer loads
the PTX. Only the compiler is exchanged when a kernel is first launched. Times are those of events
around launches that are queued behind a waiting kernel, in turns, and the table has medians of the
ratios of neighbours.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

os.environ.setdefault("KERNELDSL_CACHE", "off")

import numpy as np

import kerneldsl as kd
from benchmarks.ir_spike.bits import values
from benchmarks.ir_spike.compile_time import switches
from benchmarks.ir_spike.fresh import fresh_module


@kd.kernel
def wait(turns):
    for _ in range(turns):
        kd.nanosleep(1000)


class Stream:
    """The default stream with events around queued launches."""

    def __init__(self):
        self.stream = kd.Stream()

    def seconds(self, launch, count):
        with_stream = self.stream
        wait[1, 1, with_stream](2000)
        begin = with_stream.record()
        for _ in range(count):
            launch()
        end = with_stream.record()
        end.synchronize()
        return begin.elapsed_ms(end) * 1e-3 / count


def cases(module, stream, n, columns):
    """Return launches by name, each with the arrays that it writes."""
    rng = np.random.default_rng(n)
    x, y = (kd.to_device(values(rng, n)) for _ in range(2))
    out = kd.zeros(n, np.float32)
    blocks = -(-n // 256)
    sums = [kd.zeros(blocks, np.float32) for _ in range(2)]
    rows = max(1, min(n // columns, 1 << 20))
    grid = kd.to_device(values(rng, (rows, columns)))
    soft = kd.zeros((rows, columns), np.float32)
    kd.synchronize()
    a = np.float32(1.5)
    axpy = module.axpy.forall(n, stream=stream)
    tree = module.tree[blocks, 256, stream]
    shuffle = module.shuffle[blocks, 256, stream]
    softmax = module.softmax[rows, 128, stream]
    return {
        "axpy": (lambda: axpy(a, x, y, out), out),
        "tree": (lambda: tree(x, sums[0]), sums[0]),
        "shuffle": (lambda: shuffle(x, sums[1]), sums[1]),
        "softmax": (lambda: softmax(grid, soft), soft),
    }


def main(turns=40):
    turn = switches()["cuda"]
    stream = Stream()
    sizes = [
        (1, 1),
        (255, 33),
        (100_003, 500),
        (1 << 20, 512),
        (1 << 24, 512),
        ((1 << 26) + 7, 509),
    ]
    device = kd.empty(1, np.float32).device
    if str(device).startswith("cpu"):
        raise SystemExit("there is no GPU")
    print(device)
    for n, columns in sizes:
        made = {}
        for on in (False, True):
            turn(on)
            made[on] = cases(fresh_module(), stream.stream, n, columns)
            for launch, _ in made[on].values():
                launch()
            kd.synchronize()
        for name in made[True]:
            results = [made[on][name][1].copy_to_host() for on in (False, True)]
            one, two = (each.view(np.uint32).ravel() for each in results)
            are_nan = np.isnan(results[0]).ravel() & np.isnan(results[1]).ravel()
            bad = int(np.sum((one != two) & ~are_nan))
            nans = int(np.sum(one != two)) - bad
            began = time.perf_counter()
            made[False][name][0]()
            kd.synchronize()
            once = time.perf_counter() - began
            count = max(1, min(200, int(1.5e-3 / max(once, 1e-6))))
            times = {False: [], True: []}
            for number in range(turns):
                for on in (False, True) if number % 2 else (True, False):
                    times[on].append(stream.seconds(made[on][name][0], count))
            ratios = [b / a for a, b in zip(times[False], times[True], strict=True)]
            print(
                f"{name:8s} n={n:9d}  {'equal bits' if not bad else f'{bad} DIFFER'}"
                f"{f' ({nans} NaN payloads)' if nans else ''}  "
                f"{1e6 * statistics.median(times[False]):9.2f} -> "
                f"{1e6 * statistics.median(times[True]):9.2f} us  median of ratios "
                f"{statistics.median(ratios):.3f}x  "
                f"least {min(times[True]) / min(times[False]):.3f}x"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
