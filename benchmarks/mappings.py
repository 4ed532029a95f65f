"""Bandwidth of each mapping of elements to threads, against torch in the same run.

Run it with nothing else on the device::

    python benchmarks/mappings.py --json benchmarks/results/mappings.json

Streaming kernels and a stencil are compiled for each mapping, with all that their arguments
promise, and launched with blocks of several sizes. A graph of launches is replayed, and the best
replay by the device's clock counts; bandwidth is of the bytes that have to move at least once.
Needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe_gpu_machine

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract import (
    NO_PROMISES,
    ONE_EACH,
    Dim3,
    ElementMapping,
    LaunchConfig,
    Specialization,
)
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.launch.arguments.arguments import bind
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.arguments.checked_promises import promises_of

_LAUNCHES = 10
_REPLAYS = 4


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


def laplace(u, out):
    i, j = kd.grid(2)
    if 0 < i < out.shape[0] - 1 and 0 < j < out.shape[1] - 1:
        out[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]


@dataclass(frozen=True)
class Case:
    """One kernel on arguments, with the bytes it has to move and torch's way to do the same."""

    name: str
    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    extent: tuple[int, ...]
    nbytes: int
    torch_way: Callable[[], Any]


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    case: str
    mapping: str
    block: Dim3
    promised: bool
    registers: int
    gb_per_s: float


def cases(n: int) -> Iterator[Case]:
    """Return the kernels, on arrays of `n` elements of four bytes or as many bytes of others."""
    yield from _float32_cases(n)
    h = n >> 1
    a, x, y, out = 2.0, *_vectors(3, h, "float64")
    yield Case("axpy f64", axpy, (a, x, y, out), (h,), 24 * h, _torch_axpy(x, y, out))
    x, out = _vectors(2, 4 * n, "int8")
    yield Case("copy i8", copy, (x, out), (4 * n,), 8 * n, _torch_copy(x, out))


def _float32_cases(n: int) -> Iterator[Case]:
    a = np.float32(2)  # a Python float would be a float64
    x, y, out = _vectors(3, n, "float32")
    yield Case("axpy f32", axpy, (a, x, y, out), (n,), 12 * n, _torch_axpy(x, y, out))
    yield Case("copy f32", copy, (x, out), (n,), 8 * n, _torch_copy(x, out))
    yield Case("axpy f32 in place", axpy, (a, x, y, y), (n,), 12 * n, _torch_axpy(x, y, y))
    m = n >> 8
    s, t, u = (each[:m] for each in (x, y, out))
    yield Case("axpy f32 small", axpy, (a, s, t, u), (m,), 12 * m, _torch_axpy(s, t, u))
    s, t, u = (each[1:] for each in (x, y, out))
    m = n - 1
    yield Case("axpy f32 shifted", axpy, (a, s, t, u), (m,), 12 * m, _torch_axpy(s, t, u))
    side = 1 << (n.bit_length() - 1) // 2
    v, w = x.reshape(side, side), out.reshape(side, side)
    yield Case("laplace f32", laplace, (v, w), (side, side), 8 * n, _torch_laplace(v, w))


def _vectors(count: int, n: int, dtype: str) -> list[Any]:
    arrays = [kd.zeros(n, dtype) for _ in range(count)]
    for each in arrays:
        view = torch.from_dlpack(each)
        if dtype == "int8":
            view.random_(0, 100)
        else:
            view.uniform_()
    return arrays


def _torch_axpy(x: Any, y: Any, out: Any) -> Callable[[], Any]:
    x, y, out = (torch.from_dlpack(each) for each in (x, y, out))
    return lambda: torch.add(y, x, alpha=2.0, out=out)


def _torch_copy(x: Any, out: Any) -> Callable[[], Any]:
    x, out = torch.from_dlpack(x), torch.from_dlpack(out)
    return lambda: out.copy_(x)


def _torch_laplace(u: Any, out: Any) -> Callable[[], Any]:
    u, out = torch.from_dlpack(u), torch.from_dlpack(out)

    def run() -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return torch.sub(around, u[1:-1, 1:-1], alpha=4, out=out[1:-1, 1:-1])

    return run


def mappings(case: Case) -> list[ElementMapping]:
    """Return what is tried for a case."""
    width = 16 // case.arguments[-1].itemsize
    if len(case.extent) == 2:
        return [
            ONE_EACH,
            *(ElementMapping((1, n, 1), 1, "contiguous", grid_stride="") for n in (2, 4, 8, 16)),
            ElementMapping((1, 4, 1), 1, "strided", grid_stride=""),
            *(ElementMapping((2, n, 1), 2, "contiguous", grid_stride="") for n in (1, 4, 8)),
            *(ElementMapping((width, n, 1), width, grid_stride="") for n in (1, 2, 4)),
            *(ElementMapping((width, n, 1), width, "contiguous", grid_stride="") for n in (2, 4)),
        ]
    vectors = [v for v in (1, 2, 4, 8, 16) if v <= width]
    return [
        ONE_EACH,
        *(
            ElementMapping((n, 1, 1), v, "strided", grid_stride="")
            for n in (2, 4, 8, 16)
            for v in vectors
            if v <= n and (v == 1 or v >= width // 2)
        ),
        *(
            ElementMapping((n, 1, 1), width, "contiguous", grid_stride="")
            for n in (8, 16)
            if n > width
        ),
        ElementMapping((width, 1, 1), width, grid_stride="xyz"),
    ]


class Mapped:
    """A case compiled for one mapping, on the device where its arrays are."""

    def __init__(
        self, base: Specialization, case: Case, mapping: ElementMapping, *, promised: bool
    ) -> None:
        binding = bind(base.unit.parameters, case.arguments)
        device = binding.device
        assert device is not None
        promises = NO_PROMISES
        if promised:
            written = base.traits.written
            promises = promises_of(binding.passed_arrays(), case.extent, written=written)
        specialization = replace(base, mapping=mapping, promises=promises, arch=device.arch)
        self._executable = device.load(device.compiler.compile(specialization))
        self._mapping = mapping
        self.name = _short(mapping)
        self.promised = promised
        self._extent = case.extent
        self._limits = device.limits
        self._parameters = specialization.layout.packer.pack(*binding.values, *case.extent)
        self._keep = binding.keep
        self.registers = self._executable.resources.registers
        self.max_block_threads = self._executable.resources.max_block_threads

    def launch(self, block: Dim3) -> None:
        """Start it in torch's current stream."""
        grid = self._mapping.blocks(self._extent, block)
        if "x" in self._mapping.grid_stride:  # as many blocks as can be there at once
            most = self._limits.multiprocessor_count * (2048 // (block[0] * block[1] * block[2]))
            grid = (min(grid[0], most), grid[1], grid[2])
        stream = torch.cuda.current_stream().cuda_stream
        self._executable.launch(LaunchConfig(grid, block, self._extent, stream), self._parameters)


def base_of(case: Case) -> Specialization:
    """Return the kernel of a case, for its arguments, not mapped yet."""
    unit = make_unit(case.kernel)
    kinds = kinds_of(bind(unit.parameters, case.arguments).codes)
    return Specialization(unit, analyze(unit), kinds, mode=LaunchMode(len(case.extent)))


def seconds(run: Callable[[], Any]) -> float:
    """Return the device time of one call, the best of several replays of a graph of calls."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    times = []
    for _ in range(_REPLAYS):
        events[0].record()
        graph.replay()
        events[1].record()
        events[1].synchronize()
        times.append(events[0].elapsed_time(events[1]))
    return min(times) / 1e3 / _LAUNCHES


def blocks_for(case: Case) -> list[Dim3]:
    """Return the shapes of blocks that are tried."""
    if len(case.extent) == 1:
        return [(128, 1, 1), (256, 1, 1), (512, 1, 1)]
    return [(128, 1, 1), (32, 4, 1), (32, 8, 1), (64, 4, 1)]


def compiled(case: Case) -> list[Mapped]:
    """Return the case for each mapping; one element a thread without promises first."""
    base = base_of(case)
    return [
        Mapped(base, case, ONE_EACH, promised=False),
        *(Mapped(base, case, mapping, promised=True) for mapping in mappings(case)),
    ]


def measure(case: Case, ways: list[Mapped]) -> Iterator[Sample]:
    """Yield torch's rate, and every mapping with every block."""
    taken = seconds(case.torch_way)
    yield Sample(case.name, "torch", (0, 0, 0), False, 0, case.nbytes / taken / 1e9)
    for mapped in ways:
        for block in blocks_for(case):
            if block[0] * block[1] * block[2] <= mapped.max_block_threads:
                rate = case.nbytes / seconds(partial(mapped.launch, block)) / 1e9
                yield Sample(case.name, mapped.name, block, mapped.promised, mapped.registers, rate)


def _short(mapping: ElementMapping) -> str:
    items = "x".join(str(n) for n in mapping.items)
    return f"{items} v{mapping.vector} {mapping.order[:4]} walks {mapping.grid_stride or '-'}"


def check(case: Case, ways: list[Mapped]) -> bool:
    """Return whether each mapping's result is that of one element a thread."""
    *inputs, out = case.arguments
    if any(each is out for each in inputs):
        return True  # the next run has other inputs
    view = torch.from_dlpack(out)
    wanted = None
    good = True
    for mapped in ways:
        view.zero_()
        mapped.launch(blocks_for(case)[0])
        if wanted is None:
            wanted = view.clone()
        elif not torch.equal(view, wanted):
            good = False
            print(f"BROKEN {case.name}: {mapped.name} gives another result")
    return good


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write every sample there")
    parser.add_argument("--elements", type=int, default=1 << 28, help="of float32, a power of two")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    options = parser.parse_args()
    samples: list[Sample] = []
    good = True
    with kd.use(options.device):
        for case in cases(options.elements):
            if case.name.startswith(options.only):
                ways = compiled(case)
                good &= check(case, ways)
                measured = list(measure(case, ways))
                samples += measured
                report(case, measured)
    if options.json:
        found = {
            "machine": describe_gpu_machine(options.commit),
            "samples": [asdict(s) for s in samples],
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(not good)


def report(case: Case, samples: list[Sample]) -> None:
    """Print a line for each mapping, a column for each block."""
    torch_rate, *rows = samples
    blocks = ", ".join("x".join(map(str, block)) for block in blocks_for(case))
    print(f"{case.name}: torch {torch_rate.gb_per_s:.0f} GB/s; blocks {blocks}")
    for mapping, promised in dict.fromkeys((s.mapping, s.promised) for s in rows):
        row = [s for s in rows if (s.mapping, s.promised) == (mapping, promised)]
        best = max(s.gb_per_s for s in row)
        print(
            f"  {mapping:24} {'promised' if promised else 'nothing ':8} {row[0].registers:3} regs "
            + " ".join(f"{s.gb_per_s:5.0f}" for s in row)
            + f"  best {best / torch_rate.gb_per_s:.3f} of torch"
        )


if __name__ == "__main__":
    main()
