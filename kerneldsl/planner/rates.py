"""Throughput of a device, which the cost model divides by.

Bandwidths and clocks come from the driver's attributes. This module has the other figures for each
generation, with their sources: latencies, the time of a launch, and the achievable share of the
bandwidth. `docs/planning.md` describes how they were measured.

References
----------
CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions"; NVIDIA H100 Tensor
Core GPU Architecture; H. Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through
Microbenchmarking and Instruction-level Analysis" (2022), for latencies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from kerneldsl.contract import Device

__all__ = ["NUMBERS", "Arithmetic", "DeviceRates", "Quantity"]


#: Figures of a mid-size card, for a device with unknown clocks.
_ASSUMED_CLOCK_KHZ = 1_500_000
_ASSUMED_BANDWIDTH = 500e9
_ASSUMED_L2_BYTES = 4 << 20


class DeviceRates(NamedTuple):
    """Speeds and latencies of a device."""

    #: Multiprocessors.
    multiprocessor_count: int
    #: Clock of a multiprocessor.
    clock_hz: float
    #: Achievable bandwidth of device memory.
    memory_bytes_per_s: float
    #: Bandwidth of the level-2 cache.
    l2_bytes_per_s: float
    #: Size of the level-2 cache.
    l2_bytes: int
    #: Latencies of a load on a busy device, from memory and from the level-2 cache.
    memory_latency_ns: float
    l2_latency_ns: float
    #: Time of an empty kernel between two others in a graph.
    launch_ns: float
    #: Least time between the starts of two blocks on a multiprocessor.
    block_start_ns: float
    #: Operations of a multiprocessor in a clock: float32 and integers, float64, and roots,
    #: divisions and functions (several such operations each).
    fp32_per_clock: float
    fp64_per_clock: float
    special_per_clock: float

    @classmethod
    def from_device(cls, device: Device) -> DeviceRates:
        """Return the rates of a device, from its attributes and its generation."""
        extra: Mapping[str, Any] = device.extra
        major, minor = extra.get("compute_capability", (8, 0))
        generation = _generation(major, minor)
        clock = 1e3 * (extra.get("clock_rate") or _ASSUMED_CLOCK_KHZ)
        memory_clock, width = extra.get("memory_clock_rate"), extra.get("global_memory_bus_width")
        # Two transfers a clock: the driver's clock is that of the command bus.
        peak = 2e3 * memory_clock * width / 8 if memory_clock and width else _ASSUMED_BANDWIDTH
        count = device.limits.multiprocessor_count
        return cls(
            multiprocessor_count=count,
            clock_hz=clock,
            memory_bytes_per_s=peak * generation.bandwidth_share,
            l2_bytes_per_s=generation.l2_bytes_per_clock * count * clock,
            l2_bytes=int(extra.get("l2_cache_size") or _ASSUMED_L2_BYTES),
            memory_latency_ns=generation.memory_latency_ns,
            l2_latency_ns=generation.l2_latency_ns,
            launch_ns=generation.launch_ns,
            block_start_ns=generation.block_start_clocks / clock * 1e9,
            fp32_per_clock=generation.fp32,
            fp64_per_clock=generation.fp64,
            special_per_clock=16.0,
        )


class _Generation(NamedTuple):
    """Figures of a GPU generation that are not attributes."""

    fp32: float
    fp64: float
    memory_latency_ns: float
    l2_latency_ns: float
    l2_bytes_per_clock: float
    bandwidth_share: float = 0.893
    launch_ns: float = 900.0
    block_start_clocks: float = 157.0


#: Hopper's were fitted to measurements of an H200, the others' follow the references in its
#: proportions.
_GENERATIONS: dict[tuple[int, int], _Generation] = {
    (7, 5): _Generation(64, 2, 500, 230, 24, bandwidth_share=0.85),
    (8, 0): _Generation(64, 32, 480, 220, 22),
    (8, 6): _Generation(128, 2, 480, 220, 22),
    (8, 9): _Generation(128, 2, 510, 250, 22),
    (9, 0): _Generation(128, 64, 580, 310, 22.8),
    (10, 0): _Generation(128, 64, 550, 260, 22),
    (12, 0): _Generation(128, 2, 520, 260, 22),
}


def _generation(major: int, minor: int) -> _Generation:
    """Return the newest generation that is not newer than a device; the oldest for those before."""
    older = [each for each in _GENERATIONS if each <= (major, minor)]
    return _GENERATIONS[max(older) if older else min(_GENERATIONS)]


# A model is one function for both. A launch evaluates it with :data:`NUMBERS`, which is Python's
# own arithmetic; :mod:`kerneldsl.planner.formula` with SymPy's, which gives the model as an
# expression.

#: A number, or an expression.
Quantity: TypeAlias = Any


class Arithmetic(Protocol):
    """Operations of the models that operators do not write."""

    def named(self, name: str, value: Quantity) -> Quantity:
        """Return the value of a step of the model, which formulas call by its name."""

    def largest(self, a: Quantity, b: Quantity, /, *others: Quantity) -> Quantity:
        """Return the largest of some values."""

    def least(self, a: Quantity, b: Quantity, /, *others: Quantity) -> Quantity:
        """Return the least of some values."""

    def ceil_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        """Return ⌈a/b⌉."""

    def floor_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        """Return ⌊a/b⌋."""

    def select(self, condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
        """Return `a` where the condition holds, else `b`."""

    def is_multiple(self, a: Quantity, b: int) -> Quantity:
        """Return whether b divides a."""

    def norm(self, parts: Sequence[Quantity], exponent: Quantity) -> Quantity:
        """Combine parts, none negative, into something between the largest and their sum."""

    def on_table(self, table: Sequence[tuple[int, float]], nbytes: Quantity) -> Quantity:
        """Return the value for so many bytes: on a log-log line between two points of a table."""


class _Numbers:
    """Arithmetic of plain numbers."""

    __slots__ = ()

    largest = staticmethod(max)
    least = staticmethod(min)

    @staticmethod
    def named(name: str, value: Quantity) -> Quantity:
        return value

    @staticmethod
    def ceil_ratio(a: Quantity, b: Quantity) -> Quantity:
        return -(-a // b)

    @staticmethod
    def floor_ratio(a: Quantity, b: Quantity) -> Quantity:
        return a // b

    @staticmethod
    def select(condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
        return a if condition else b

    @staticmethod
    def is_multiple(a: Quantity, b: int) -> Quantity:
        return not a % b

    @staticmethod
    def norm(parts: Sequence[Quantity], exponent: Quantity) -> Quantity:
        # Powers of shares of the largest part do not overflow.
        largest = max(parts)
        if largest <= 0.0:
            return 0.0
        total: float = sum((part / largest) ** exponent for part in parts)
        return largest * math.pow(total, 1.0 / exponent)

    @staticmethod
    def on_table(table: Sequence[tuple[int, float]], nbytes: Quantity) -> Quantity:
        before = table[0]
        for point in table:
            if nbytes <= point[0]:
                if point == before:
                    break
                share = math.log(nbytes / before[0]) / math.log(point[0] / before[0])
                return float(before[1] * (point[1] / before[1]) ** share)
            before = point
        return before[1]


#: Arithmetic of plain numbers.
NUMBERS: Arithmetic = _Numbers()
