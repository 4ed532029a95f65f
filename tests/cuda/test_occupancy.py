"""The occupancy model against the driver's own answers, for compiled kernels on a real device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ResourceLimitError
from kerneldsl.planner import (
    COMPUTE_CAPABILITIES,
    DeviceOccupancyLimits,
    KernelResources,
    available_dynamic_shared_bytes,
    max_potential_block_size,
    occupancy,
)
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver, get_driver
from tests.support.source import exec_source

ARRAYS = "float32[::1], float32[::1]"


@kd.kernel
def light(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


def _with_many_registers(options: str, values: int = 60) -> Any:
    """A kernel that keeps `values` products at once, each needed after the last was made."""
    lines = [f"@kd.kernel({options})", "def heavy(x, out):", "    i = kd.grid(1)"]
    lines += [f"    v{k} = x[i + {97 * k}]" for k in range(values)]
    lines += ["    for step in range(out.size):"]
    lines += [f"        v{k} = v{k} * v{(k + 7) % values} + step" for k in range(values)]
    lines += [f"    out[i + {89 * k}] = v{k}" for k in range(values)]
    return exec_source("import kerneldsl as kd\n\n" + "\n".join(lines) + "\n")["heavy"]


@kd.kernel
def tiled(x, out):
    tile = kd.shared.array(5000, np.float32)
    i = kd.threadIdx.x
    tile[i] = x[kd.grid(1)]
    kd.syncthreads()
    out[kd.grid(1)] = tile[kd.blockDim.x - 1 - i]


@kd.kernel
def dynamic(x, out):
    tile = kd.shared.array(0, np.float32)
    i = kd.threadIdx.x
    tile[i] = x[kd.grid(1)]
    kd.syncthreads()
    out[kd.grid(1)] = tile[kd.blockDim.x - 1 - i]


KERNELS = {
    "light": light,
    "heavy": _with_many_registers(""),
    "heavier": _with_many_registers("", 150),
    "capped": _with_many_registers("max_registers=56"),
    "bounded": _with_many_registers("launch_bounds=(128,)"),
    "tiled": tiled,
    "dynamic": dynamic,
}


class Asked:
    """One kernel, loaded; its function, and the model's view of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.driver: Driver = get_driver()
        artifact: Any = KERNELS[name].artifact(ARRAYS, target="cuda")
        self.function = functions.load(self.driver, 0, artifact.ptx, artifact.entry_name)
        resources = self.function.resources
        assert resources.registers is not None
        self.limits = DeviceOccupancyLimits.from_device(self.driver.devices()[0])
        self.kernel = KernelResources(
            registers=resources.registers,
            static_shared_bytes=resources.static_shared_bytes,
            max_threads_per_block=resources.max_block_threads,
        )

    def call(self, function: str, *args: Any) -> Any:
        api = self.driver.api
        with self.driver.current(0):
            return self.driver.call(
                getattr(api, function), self.function.handle, *args, doing=f"ask {function}"
            )

    def set(self, attribute: str, value: int) -> None:
        attributes = self.driver.api.CUfunction_attribute
        which = getattr(attributes, f"CU_FUNC_ATTRIBUTE_{attribute}")
        self.call("cuFuncSetAttribute", which, value)

    def prefer(self, percent: int | None) -> None:
        self.set("PREFERRED_SHARED_MEMORY_CARVEOUT", -1 if percent is None else percent)
        self.kernel = replace(self.kernel, carveout_percent=percent)

    def opt_in(self) -> None:
        room = self.limits.max_shared_memory_per_block_optin - self.kernel.static_shared_bytes
        self.set("MAX_DYNAMIC_SHARED_SIZE_BYTES", room)
        self.kernel = replace(self.kernel, max_dynamic_shared_bytes=room)


@pytest.fixture(params=list(KERNELS))
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    found = Asked(request.param)
    yield found
    functions.unload(found.driver, found.function)


def test_limits_are_those_of_the_compute_capability(asked: Asked) -> None:
    """What the driver tells of a device is what the table says of its compute capability."""
    limits = asked.limits
    assert limits.compute_capability in COMPUTE_CAPABILITIES, "the model's table needs a new row"
    assert limits.rules_of is None
    assert limits == DeviceOccupancyLimits.for_compute_capability(
        limits.compute_capability, multiprocessor_count=limits.multiprocessor_count
    )


@pytest.mark.parametrize("percent", [None, 0, 10, 50, 100])
@pytest.mark.parametrize("opted_in", [False, True])
def test_active_blocks(
    asked: Asked, rng: np.random.Generator, percent: int | None, opted_in: bool
) -> None:
    asked.prefer(percent)
    if opted_in:
        asked.opt_in()
    blocks = np.arange(1, 1025)
    sizes = _dynamic_sizes(rng, asked, 3000)
    pairs = [(int(b), 0) for b in blocks] + list(
        zip(rng.choice(blocks, len(sizes)).tolist(), sizes, strict=True)
    )
    wrong = []
    for threads, nbytes in pairs:
        theirs = asked.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", threads, nbytes)
        ours = occupancy(asked.limits, asked.kernel, threads, nbytes)
        if ours.active_blocks != theirs:
            wrong.append((threads, nbytes, f"driver {theirs}", ours.limits))
    print(f"\n{asked.name}, {asked.kernel}: {len(pairs)} launches asked, {len(wrong)} differ")
    assert not wrong, wrong[:10]


def _dynamic_sizes(rng: np.random.Generator, asked: Asked, count: int) -> list[int]:
    """Sizes anywhere, and within a byte of where one block less fits."""
    limits, static = asked.limits, asked.kernel.static_shared_bytes
    room = limits.max_shared_memory_per_block_optin + 1024
    edges = rng.choice(limits.shared_memory_carveouts, count) // rng.integers(1, 33, count)
    edges += rng.choice([-128, -1, 0, 1, 128], count)
    edges -= static + limits.reserved_shared_memory_per_block
    anything = rng.integers(0, room, count)
    return np.where(rng.random(count) < 0.6, edges.clip(0), anything).tolist()


@pytest.mark.parametrize("per_thread", [0, 4, 64, 200])
def test_potential_block_size(asked: Asked, per_thread: int) -> None:
    asked.opt_in()

    def nbytes(threads: int) -> int:
        return per_thread * threads

    made = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(nbytes)
    address = ctypes.cast(made, ctypes.c_void_p).value
    callback = asked.driver.api.CUoccupancyB2DSize(address) if per_thread else None
    shared: Callable[[int], int] | int = nbytes if per_thread else 0
    for limit in (0, 32, 100, 256, 1000):
        grid, block = asked.call("cuOccupancyMaxPotentialBlockSize", callback, 0, limit)
        ours = max_potential_block_size(
            asked.limits, asked.kernel, shared, max_block_threads=limit or None
        )
        assert (ours.block_threads, ours.min_grid_blocks) == (block, grid), limit
        assert ours.dynamic_shared_bytes == per_thread * block


def test_constant_shared_memory(asked: Asked) -> None:
    asked.opt_in()
    for nbytes in (0, 1, 1024, 20_000, 48 * 1024, 60_000, 100_000):
        grid, block = asked.call("cuOccupancyMaxPotentialBlockSize", None, nbytes, 0)
        ours = max_potential_block_size(asked.limits, asked.kernel, nbytes)
        assert (ours.block_threads, ours.min_grid_blocks) == (block, grid), nbytes


@pytest.mark.parametrize("opted_in", [False, True])
def test_available_shared_memory(asked: Asked, opted_in: bool) -> None:
    """The model's answer keeps the blocks; the driver's agrees, but for what old ones forget."""
    if opted_in:
        asked.opt_in()
    api = asked.driver.api
    reserved = asked.limits.reserved_shared_memory_per_block
    offsets = set()
    for threads in (32, 96, 128, 256, 512, 1000):
        for blocks in range(1, 34):
            try:
                ours = available_dynamic_shared_bytes(asked.limits, asked.kernel, blocks, threads)
            except ResourceLimitError:
                ours = None
            with asked.driver.current(0):
                status, theirs = api.cuOccupancyAvailableDynamicSMemPerBlock(
                    asked.function.handle, blocks, threads
                )
            assert (ours is None) == bool(int(status)), (blocks, threads, ours, status, theirs)
            if ours is None:
                continue
            offsets.add(theirs - ours)
            held = asked.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", threads, ours)
            assert held >= blocks, (blocks, threads, ours)
    print(f"driver {asked.driver.cuda_version}: available bytes beyond the model's: {offsets}")
    # Before CUDA 13.1 the calculator does not take off what the driver reserves.
    assert all(0 <= offset <= reserved for offset in offsets)


def test_a_block_larger_than_the_kernel_was_compiled_for() -> None:
    """The driver counts it as if it could be launched, and so does the model, which says so."""
    asked = Asked("bounded")
    assert asked.kernel.max_threads_per_block == 128
    theirs = asked.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", 256, 0)
    ours = occupancy(asked.limits, asked.kernel, 256)
    assert ours.active_blocks == theirs > 0
    assert "compiled for blocks of 128 threads at most" in ours.explain()
    functions.unload(asked.driver, asked.function)
