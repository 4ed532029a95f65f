"""Copies, allocations and leaks on one GPU, against torch and the driver in the same run.

Run it with nothing else on the device::

    python benchmarks/memory.py --json benchmarks/results/memory.json

Copies of page-locked memory are timed by the host from the call to the end of the copy; the two
sides take turns within each pair of samples, over the same host memory, and medians are reported.
The floor beside them is the bandwidth of the PCIe link by its generation and width, before any
protocol. An allocation with its free is compared with ``cuMemAllocAsync`` and ``cuMemFreeAsync``
through the same bindings. The leak check counts device memory by the driver, host memory as the
resident size of the process, and objects of Python's allocator. Needs torch and psutil.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from cuda.bindings import driver as cuda
from machine import command_output, describe_gpu_machine

import kerneldsl as kd
from kerneldsl.memory.pools import allocate
from kerneldsl.placement.devices import device_of

#: Bytes a second that one lane of PCIe carries, by generation, after the line's own code.
_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
#: What a copy must reach of torch's bandwidth.
MIN_COPY_RATIO = 0.9
#: What an allocation with its free may take more than the driver's own.
MAX_OVERHEAD_US = 3.5
#: What the resident size may grow by, in a million pairs: pages of the allocator, not objects.
MAX_RSS_GROWTH_BYTES = 1 << 18
#: Objects that may be there more than before; the counting itself makes a few.
MAX_OBJECT_GROWTH = 50


@dataclass
class Report:
    """Everything that was measured."""

    machine: dict[str, Any]
    pcie_gbps: float | None = None
    copies: list[dict[str, Any]] = field(default_factory=list)
    allocation: dict[str, dict[str, float]] = field(default_factory=dict)
    leaks: list[dict[str, Any]] = field(default_factory=list)
    verdicts: dict[str, bool] = field(default_factory=dict)


@kd.kernel
def add_one(x):
    """Add one, as work for the launches of the leak check."""
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


# --------------------------------------------------------------------------- copies


def seconds(run: Callable[[], Any]) -> float:
    """Return how long a call takes, to the end of what it has started."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def compare(
    report: Report,
    name: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    nbytes: int,
    pairs: int,
    floor_gbps: float | None,
) -> None:
    """Time a copy of both sides in turns, and write down their bandwidths."""
    samples: tuple[list[float], list[float]] = ([], [])
    seconds(ours), seconds(theirs)
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            samples[side].append(seconds((ours, theirs)[side]))
    mine, other = (nbytes / statistics.median(s) / 1e9 for s in samples)
    row = {
        "copy": name,
        "bytes": nbytes,
        "kerneldsl_gbps": mine,
        "torch_gbps": other,
        "speed_ratio": mine / other,
        "floor_gbps": floor_gbps,
        "samples": pairs,
    }
    report.copies.append(row)
    floor = f", floor {floor_gbps:.1f}" if floor_gbps else ""
    print(f"{name:42} {mine:8.2f} GB/s, torch {other:8.2f}{floor}, ratio {mine / other:.3f}")


def measure_copies(report: Report, samples: int) -> None:
    """Measure page-locked memory to and from the device, and within it."""
    rng = np.random.default_rng()
    stream = kd.Stream(blocking=False)  # as torch's streams are
    for nbytes, pairs in ((1 << 20, 4 * samples), (1 << 25, samples), (1 << 28, samples)):
        for write_combined in (False, True):
            host = kd.pinned_empty(nbytes, np.uint8, write_combined=write_combined)
            host[...] = rng.integers(0, 256, nbytes, np.uint8)
            back = kd.pinned_empty(nbytes, np.uint8)
            back[...] = 0
            ours = kd.zeros(nbytes, np.uint8)
            theirs_host = (
                torch.from_numpy(host)
                if write_combined
                else torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
            )
            if not write_combined:
                theirs_host.numpy()[...] = host
            theirs = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
            note = f"{nbytes >> 20} MiB" + (", write-combined" if write_combined else "")
            compare(
                report,
                f"host to device, {note}",
                lambda o=ours, h=host: o.copy_from_host(h),
                lambda t=theirs, h=theirs_host: t.copy_(h),
                nbytes,
                pairs,
                report.pcie_gbps,
            )
            if write_combined:
                continue
            compare(
                report,
                f"host to device, {note}, not waiting",
                lambda o=ours, h=host: o.copy_from_host(h, blocking=False),
                lambda t=theirs, h=theirs_host: t.copy_(h, non_blocking=True),
                nbytes,
                pairs,
                report.pcie_gbps,
            )
            with torch.cuda.stream(torch.cuda.Stream()):
                compare(
                    report,
                    f"host to device, {note}, in a stream",
                    lambda o=ours, h=host: o.copy_from_host(h, stream, blocking=False),
                    lambda t=theirs, h=theirs_host: t.copy_(h, non_blocking=True),
                    nbytes,
                    pairs,
                    report.pcie_gbps,
                )
            compare(
                report,
                f"device to host, {note}",
                lambda o=ours, h=back: o.copy_to_host(h),
                lambda t=theirs, h=theirs_host: h.copy_(t),
                nbytes,
                pairs,
                report.pcie_gbps,
            )
            compare(
                report,
                f"device to host, {note}, not waiting",
                lambda o=ours, h=back: o.copy_to_host(h, blocking=False),
                lambda t=theirs, h=theirs_host: h.copy_(t, non_blocking=True),
                nbytes,
                pairs,
                report.pcie_gbps,
            )
            if not (back == host).all():
                raise AssertionError("what came back differs from what was sent")
    count, pairs = 1 << 28, samples
    one, two = kd.full(count, 1.5, np.float32), kd.zeros(count, np.float32)
    a, b = torch.ones(count, device="cuda"), torch.zeros(count, device="cuda")
    compare(
        report,
        "device to device, 1 GiB (bytes moved)",
        lambda: kd.copy(two, one),
        lambda: b.copy_(a),
        2 * one.nbytes,
        pairs,
        None,
    )
    if not (two[:: 1 << 20].copy_to_host() == 1.5).all():
        raise AssertionError("the copy differs")
    compare(
        report,
        "fill with zeros, 1 GiB",
        lambda: two.fill(0),
        b.zero_,
        two.nbytes,
        pairs,
        None,
    )
    wide = kd.empty(count // 2, np.float64)
    c = torch.empty(count // 2, dtype=torch.float64, device="cuda")
    compare(
        report,
        "fill with pi in float64, 1 GiB",
        lambda: wide.fill(np.pi),
        lambda: c.fill_(np.pi),
        wide.nbytes,
        pairs,
        None,
    )
    if torch.cuda.device_count() > 1:
        source = kd.full(1 << 28, 3, np.uint8, device="cuda:0")
        target = kd.zeros(1 << 28, np.uint8, device="cuda:1")
        if kd.can_access_peer("cuda:0", "cuda:1"):
            kd.enable_peer_access("cuda:0", "cuda:1")
            kd.enable_peer_access("cuda:1", "cuda:0")
        theirs = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda:0")
        theirs_too = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda:1")
        compare(
            report,
            "cuda:0 to cuda:1, 256 MiB",
            lambda: (kd.copy(target, source), kd.synchronize("cuda:0")),
            lambda: (theirs_too.copy_(theirs), torch.cuda.synchronize(0)),
            1 << 28,
            pairs,
            None,
        )


# --------------------------------------------------------------------------- allocating


def per_call_us(run: Callable[[], Any], calls: int) -> float:
    """Return microseconds of the process's own time that a call takes: the best of three rounds."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for _ in range(calls):
            run()
        best = min(best, time.process_time() - started)
    torch.cuda.synchronize()
    return best / calls * 1e6


def measure_allocation(report: Report, calls: int) -> None:
    """Measure an allocation with its free: the driver's, ours, an array's, torch's.

    The larger size goes through the driver each time, the smaller one only the first time.
    """
    device = device_of("cuda:0")
    for mebibytes in (1, 128):
        nbytes = mebibytes << 20

        def driver(nbytes: int = nbytes) -> None:
            _, pointer = cuda.cuMemAllocAsync(nbytes, 0)
            cuda.cuMemFreeAsync(pointer, 0)

        measured = {
            "driver_us": per_call_us(driver, calls),
            "kerneldsl_us": per_call_us(lambda n=nbytes: allocate(device, n), calls),
            "kd_empty_us": per_call_us(lambda n=nbytes: kd.empty(n, np.uint8), calls),
            "torch_empty_us": per_call_us(
                lambda n=nbytes: torch.empty(n, dtype=torch.uint8, device="cuda"), calls
            ),
        }
        report.allocation[f"{mebibytes} MiB"] = measured
        print(f"one allocation with its free, {mebibytes} MiB:")
        for name, value in measured.items():
            print(f"  {name:16} {value:6.2f} µs")


# --------------------------------------------------------------------------- leaks


def measure_leak(report: Report, name: str, run: Callable[[int], Any], count: int) -> None:
    """Repeat something, and write down what is there more than before."""
    process = psutil.Process()
    for i in range(count // 20):  # caches fill up
        run(i)

    def look() -> tuple[int, int, int]:
        gc.collect()
        kd.synchronize("cuda:0")
        kd.MemoryPool.default("cuda:0").trim()  # so that nothing hides in what it keeps
        free, _ = torch.cuda.mem_get_info(0)
        return free, process.memory_info().rss, sys.getallocatedblocks()

    look()
    before = look()
    started = time.perf_counter()
    for i in range(count):
        run(i)
    elapsed = time.perf_counter() - started
    after = look()
    row = {
        "what": name,
        "count": count,
        "device_growth_bytes": before[0] - after[0],
        "rss_growth_bytes": after[1] - before[1],
        "object_growth": after[2] - before[2],
        "seconds": elapsed,
    }
    report.leaks.append(row)
    print(
        f"{count} times {name}: device {row['device_growth_bytes']:+d} bytes, resident "
        f"{row['rss_growth_bytes']:+d} bytes, objects {row['object_growth']:+d}, {elapsed:.1f} s"
    )


def measure_leaks(report: Report, pairs: int, launches: int) -> None:
    """Measure allocations of many sizes, and launches with fresh and reused arrays."""
    device = device_of("cuda:0")
    measure_leak(
        report, "allocate and free", lambda i: allocate(device, 1 + i * 7919 % (1 << 20)), pairs
    )
    array = kd.zeros(1000, np.float32)
    launch = add_one.forall(1000)
    measure_leak(report, "launch", lambda i: launch(array), launches)
    host = kd.pinned_empty(1 << 16, np.uint8)
    device, stream = kd.empty(1 << 16, np.uint8), kd.Stream()
    measure_leak(
        report,
        "copy without waiting",
        lambda i: device.copy_from_host(host, stream, blocking=False),
        launches // 5,
    )


# --------------------------------------------------------------------------- the run


def pcie_gbps() -> float | None:
    """Return the bandwidth of the link of the first device, from its generation and width."""
    answer = command_output(
        "nvidia-smi",
        "--query-gpu=pcie.link.gen.max,pcie.link.width.max",
        "--format=csv,noheader,nounits",
        "--id=0",
    )
    try:
        generation, width = (int(part) for part in answer.split(","))
    except ValueError:
        return None
    return _LANE_BYTES_PER_S[generation] * width / 1e9 if generation in _LANE_BYTES_PER_S else None


def judge(report: Report) -> dict[str, bool]:
    """Return what the project promises of these figures."""
    pinned = [row for row in report.copies if "host" in row["copy"]]
    small = report.allocation["1 MiB"]
    others = [row for row in report.copies if "host" not in row["copy"]]
    return {
        f"page-locked copies reach {MIN_COPY_RATIO} of torch's": bool(pinned)
        and all(row["speed_ratio"] >= MIN_COPY_RATIO for row in pinned),
        f"copies on a device and fills reach {MIN_COPY_RATIO} of torch's": bool(others)
        and all(row["speed_ratio"] >= MIN_COPY_RATIO for row in others),
        f"a small allocation takes at most {MAX_OVERHEAD_US} µs more than the driver's": all(
            small[name] - small["driver_us"] <= MAX_OVERHEAD_US
            for name in ("kerneldsl_us", "kd_empty_us")
        ),
        "nothing leaks on the device": all(r["device_growth_bytes"] <= 0 for r in report.leaks),
        "no object leaks on the host": all(
            row["object_growth"] <= MAX_OBJECT_GROWTH for row in report.leaks
        ),
        "the process does not grow": all(
            row["rss_growth_bytes"] <= MAX_RSS_GROWTH_BYTES for row in report.leaks
        ),
    }


def main() -> int:
    """Run everything; the exit status says whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", help="what was measured, where there is no git repository")
    parser.add_argument("--quick", action="store_true", help="fewer samples and repetitions")
    options = parser.parse_args()

    kd.use("cuda:0")
    report = Report(describe_gpu_machine(options.commit))
    print(json.dumps(report.machine, indent=1))
    report.pcie_gbps = pcie_gbps()
    measure_copies(report, 7 if options.quick else 15)
    measure_allocation(report, 20_000)
    scale = 10 if options.quick else 1
    measure_leaks(report, 1_000_000 // scale, 100_000 // scale)
    print(kd.memory_stats("cuda:0"))
    report.verdicts = judge(report)
    for promise, kept in report.verdicts.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {promise}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
