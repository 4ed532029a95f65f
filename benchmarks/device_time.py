"""Times of launches on one CUDA device, by events, and the bandwidth of torch's copy.

Launches are queued behind a waiting kernel, so that the host's speed plays no part.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping

import torch

__all__ = ["device_seconds", "in_turns", "measure_copy", "spread"]

_SPIN_CYCLES = 4_000_000  # about 2 ms: longer than queueing the launches of a sample takes


def device_seconds(launch: Callable[[], object], count: int) -> float:
    """Return seconds on the device that one of `count` launches takes, all queued beforehand."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_SPIN_CYCLES)
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / count


def in_turns(
    launches: Mapping[str, Callable[[], object]], rounds: int, count: int
) -> dict[str, list[float]]:
    """Return samples of each launch, in another random order in each round.

    The clock depends on the power that was used before, and so on which launch was before.
    """
    samples: dict[str, list[float]] = {name: [] for name in launches}
    for launch in launches.values():
        launch()
    torch.cuda.synchronize()
    names = list(launches)
    order = random.Random(0)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            samples[name].append(device_seconds(launches[name], count))
    return samples


def spread(samples: list[float]) -> dict[str, float]:
    """Return the median and quartiles."""
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"median_s": middle, "q1_s": low, "q3_s": high, "samples": len(samples)}


def measure_copy(rounds: int) -> float:
    """Return the bandwidth of torch's copy of 1 GiB, read and written bytes, in GB/s."""
    source = torch.rand(1 << 28, device="cuda")
    target = torch.empty_like(source)
    samples = [device_seconds(lambda: target.copy_(source), 4) for _ in range(rounds + 2)][2:]
    return 2 * source.nbytes / statistics.median(samples) / 1e9
